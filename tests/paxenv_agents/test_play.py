"""What the trial engine promises, shown with agents of ten lines."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Dice, Fixed, Recorder, seated

import paxenv
from paxenv import keys
from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial

PARAMS = EnvParams(payoff_matrix=[[-1, -1], [-3, 0], [0, -3], [-2, -2]])


def lanes(n, root=7):
    return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(root), jnp.arange(n))


def trial(env, slots, num_games=3, e=0, states=None, params=PARAMS):
    lineup = Lineup(env, slots, num_games)
    if states is None:
        states = tuple(
            s.agent.init_state(jax.random.fold_in(jax.random.key(0), min(s.players)))
            for s in slots
        )
    play = jax.jit(play_trial, static_argnums=0)
    return play(lineup, params, states, lanes(num_games), jnp.int32(e))


def dice_actions(env, lane_key, e, player, steps):
    """The actions that the key schedule of the documentation gives to `Dice`."""
    episode_key = jax.random.fold_in(lane_key, e)
    actions = []
    for t in range(steps):
        key = jax.random.fold_in(jax.random.fold_in(episode_key, 1 + t), 65537 + player)
        word = jax.random.key_data(jax.random.fold_in(key, 0))[0]
        actions.append(int(word & 1))
    return actions


@pytest.mark.slow
def test_players_draw_from_the_documented_keys_and_the_game_equals_its_replay():
    env = IteratedMatrixGame(4, 2, random_ends=True)
    params = PARAMS.replace(continuation_prob=jnp.float32(0.7))
    slots = (Slot(seated(Dice, env), (0,)), Slot(seated(Dice, env, 1), (1,)))
    played = trial(env, slots, num_games=5, e=3, params=params)
    for game, lane_key in enumerate(lanes(5)):
        steps = int(played.lengths[:, game].sum())
        actions = tuple(
            np.array(dice_actions(env, lane_key, 3, p, steps)) for p in range(2)
        )
        replayed = paxenv.replay(
            env, params, actions=actions, lane_key=lane_key, episode=3
        )
        assert bool(replayed.done[-1])
        assert int(replayed.done.sum()) == 1
        for p in range(2):
            np.testing.assert_allclose(
                played.returns[:, p, game].sum(), replayed.rewards[p].sum(), atol=1e-6
            )


def test_the_order_of_slots_never_changes_a_result():
    env = IteratedMatrixGame(5, 3)
    first = Slot(seated(Recorder, env), (0,), clock="inner")
    second = Slot(seated(Dice, env, 1), (1,))
    a = trial(env, (first, second))
    b = trial(env, (second, first))
    np.testing.assert_array_equal(a.returns, b.returns)
    assert float(a.states[0].params) == float(b.states[1].params)


def test_an_inner_clock_learner_updates_once_for_every_inner_episode():
    env = IteratedMatrixGame(5, 3)
    slots = (
        Slot(seated(Recorder, env), (0,), clock="inner"),
        Slot(seated(Fixed, env, 1), (1,)),
    )
    played = trial(env, slots)
    assert float(played.states[0].params) == 3.0
    assert int(played.states[0].timesteps) == 3 * 5 * 3
    # Its action is the parity of its updates, against a co-player that cooperates.
    np.testing.assert_allclose(played.returns[:, 0].mean(-1), [-5.0, 0.0, -5.0])
    assert played.experiences == (None, None)


def test_memory_crosses_an_inner_end_after_the_update_and_not_after_the_last():
    env = IteratedMatrixGame(5, 3)
    slots = (
        Slot(seated(Recorder, env), (0,), clock="inner"),
        Slot(seated(Fixed, env, 1), (1,)),
    )
    crossed = trial(env, slots).stats[0]["crossed"]
    np.testing.assert_array_equal(crossed, [0.0, 1.0, 2.0])


def test_a_trial_clock_learner_sees_the_trial_as_one_sequence_with_one_end():
    env = IteratedMatrixGame(2, 3)
    slots = (Slot(seated(Recorder, env), (0,)), Slot(seated(Fixed, env, 1), (1,)))
    sample, last_obs, memory = trial(env, slots, num_games=1).experiences[0]
    assert sample.rewards.shape == (6, 1)
    np.testing.assert_array_equal(sample.inner_ends[:, 0], [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(sample.truncations[:, 0], [0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(sample.dones[:, 0], [0] * 6)
    np.testing.assert_array_equal(sample.hiddens[:, 0, 0], [0, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(sample.behavior_values[:, 0], 100 + np.arange(6))
    # The value of the cut is asked with the memory after the last step.
    np.testing.assert_array_equal(sample.final_values[:, 0], [0, 0, 0, 0, 0, 106])
    assert memory.hidden[0, 0] == 6
    # START opens each inner episode, and the last joint action comes after the trial.
    states = np.argmax(sample.observations[:, 0], -1)
    np.testing.assert_array_equal(states, [4, 0, 4, 0, 4, 0])
    assert int(np.argmax(last_obs[0])) == 0


def test_an_inner_clock_learner_sees_an_end_at_every_inner_end():
    env = IteratedMatrixGame(2, 3, horizon="terminate")
    slots = (
        Slot(seated(EndCounter, env), (0,), clock="inner"),
        Slot(seated(Fixed, env, 1), (1,)),
    )
    played = trial(env, slots, num_games=4)
    np.testing.assert_array_equal(played.stats[0]["dones"], [4, 4, 4])


@dataclasses.dataclass(frozen=True)
class EndCounter(Recorder):
    def update(self, traj, last_obs, state, memory):
        state, memory, _ = super().update(traj, last_obs, state, memory)
        return state, memory, {"dones": jnp.sum(traj.dones)}


@pytest.mark.slow
def test_steps_after_a_random_end_are_masked_and_keep_the_last_observation():
    env = IteratedMatrixGame(20, random_ends=True)
    params = PARAMS.replace(continuation_prob=jnp.float32(0.8))
    slots = (Slot(seated(Recorder, env), (0,)), Slot(seated(Dice, env, 1), (1,)))
    played = trial(env, slots, num_games=16, params=params)
    sample, last_obs, memory = played.experiences[0]
    lengths = np.asarray(played.lengths[0])
    assert 1 <= lengths.min() < lengths.max() <= 20
    for game, length in enumerate(lengths):
        np.testing.assert_array_equal(
            sample.valid[:, game], np.arange(20) < length, strict=True
        )
        assert bool((sample.dones | sample.truncations)[length - 1, game])
        assert memory.hidden[game, 0] == length
        assert not np.asarray(sample.rewards[length:, game]).any()
        key = keys.step(keys.episode(lanes(16)[game], 0), length - 1)
        word = jax.random.key_data(jax.random.fold_in(keys.player(key, 1), 0))[0]
        assert int(np.argmax(last_obs[game])) == int(word & 1)  # C, then its action


def test_one_agent_in_two_seats_learns_from_both_with_games_fastest():
    env = IteratedMatrixGame(2)
    slots = (Slot(seated(Recorder, env), (0, 1)),)
    states = (seated(Recorder, env).init_state(jax.random.key(0)),)
    params = EnvParams(payoff_matrix=[[1, 2], [0, 0], [0, 0], [0, 0]])
    sample = trial(env, slots, num_games=3, states=states, params=params).experiences[0]
    np.testing.assert_array_equal(sample.sample.rewards[0], [1, 1, 1, 2, 2, 2])


def test_a_schedule_holds_for_its_inner_episode_only():
    env = IteratedMatrixGame(2, 3)
    slots = (
        Slot(seated(Recorder, env), (0,), clock="inner", schedule=stop_after_first),
        Slot(seated(Fixed, env, 1), (1,)),
    )
    played = trial(env, slots)
    assert float(played.states[0].params) == 1.0
    assert float(played.states[0].hyper["gain"]) == 1.0


def stop_after_first(hyper, k):
    return {"gain": hyper["gain"] * (k < 1)}


def test_a_slot_observes_through_its_own_transform():
    env = IteratedMatrixGame(3)
    slots = (
        Slot(seated(Recorder, env), (0,), observe=blind_in_game_zero),
        Slot(seated(Fixed, env, 1), (1,)),
    )
    sample, last_obs, _ = trial(env, slots, num_games=2).experiences[0]
    np.testing.assert_array_equal(np.argmax(sample.observations, -1)[:, 0], [4, 4, 4])
    np.testing.assert_array_equal(np.argmax(sample.observations, -1)[:, 1], [4, 0, 0])
    np.testing.assert_array_equal(np.argmax(last_obs, -1), [4, 0])


def blind_in_game_zero(obs, params, game, player):
    start = jnp.array([0, 0, 0, 0, 1], jnp.int8)
    return jnp.where(game == 0, start, obs)


def test_statistics_count_every_valid_step_once_and_nothing_else():
    env = IteratedMatrixGame(4, 2)
    slots = (
        Slot(seated(Fixed, env), (0,)),
        Slot(seated(Fixed, env, 1, action=1), (1,)),
    )
    totals = trial(env, slots, num_games=3).totals
    # C against D: START once for every inner episode, then CD; no phantom sample.
    np.testing.assert_array_equal(totals["visits"][0], [0, 18, 0, 0, 6])
    np.testing.assert_array_equal(totals["cooperations"][0], [0, 18, 0, 0, 6])
    np.testing.assert_array_equal(totals["cooperations"][1], [0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        (lambda a: (Slot(a, (0,)),), "the slots seat \\[0\\]"),
        (lambda a: (Slot(a, (0, 1)), Slot(a, (1,))), "the slots seat \\[0, 1, 1\\]"),
    ],
)
def test_every_player_is_seated_exactly_once(slots, message):
    env = IteratedMatrixGame(2)
    with pytest.raises(ValueError, match=message):
        Lineup(env, slots(seated(Fixed, env)), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clock": "outer"}, "clock must be one of"),
        ({"players": ()}, "one or more different players"),
        ({"reset": 0}, "reset must be"),
        ({"reset": "sometimes"}, "reset must be"),
    ],
)
def test_a_slot_refuses_bad_options_by_name(options, message):
    env = IteratedMatrixGame(2)
    with pytest.raises(ValueError, match=message):
        Slot(seated(Fixed, env), **options)
