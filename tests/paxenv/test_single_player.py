"""An N-player game as a one-player game."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Dice as DicePlayer
from engine_fakes import Fixed
from game_fakes import Counting, CountingParams, Dice

import paxenv
from paxenv import keys
from paxenv.auto_reset import AutoResetWrapper
from paxenv.environment import Frame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.single_player import SinglePlayer
from paxenv_agents.agent import Agent


@dataclasses.dataclass(frozen=True)
class Counter(Agent):
    """Plays its number of steps mod 2; hidden = (steps, inner ends, trials opened)."""

    hidden_size = 3

    def policy(self, state, obs, memory):
        action = (memory.hidden[0] % 2).astype(jnp.int32)
        hidden = memory.hidden + jnp.array([1.0, 0.0, 0.0])
        return action, state, memory.replace(hidden=hidden, key=jax.random.key(0))

    def end_inner_episode(self, state, memory):
        return memory.replace(hidden=memory.hidden + jnp.array([0.0, 1.0, 0.0]))

    def reset_memory(self, memory, eval=False):
        return memory.replace(hidden=jnp.array([0.0, 0.0, 1.0]))


MATRIX = IteratedMatrixGame(3, 2)
NO_END = CountingParams(limit=999.0)


def against(agent_class, env=MATRIX, player=0, **config):
    seats = [p for p in range(env.num_players) if p != player]
    agents = tuple(agent_class.from_env(env, p, **config) for p in seats)
    return SinglePlayer(env, player, agents)


def run(env, params, num_steps, action=0):
    """Returns (state, list of step outputs) of flat steps in trial 0 of lane 0."""
    episode = keys.episode(keys.lane(0), 0)
    _, state = env.reset(keys.reset(episode), params)
    step, outputs = jax.jit(env.step), []
    for _ in range(num_steps):
        out = step(keys.step(episode, state.t), state, jnp.int32(action), params)
        state = out[1]
        outputs.append(out)
    return state, outputs


@pytest.mark.slow
@pytest.mark.parametrize("player", [0, 1, 2])
def test_trajectory_equals_the_game_with_the_same_joint_actions(player):
    env = Counting(4, 2, players=3, random_ends=True)
    single = against(DicePlayer, env, player)
    own = jnp.array([1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1])
    seen = paxenv.replay(single, single.make_params(NO_END), 5, actions=own)
    joint = single.joint_action(own, seen.info["opponent_action"])
    native = paxenv.replay(env, NO_END, 5, actions=joint)
    np.testing.assert_array_equal(seen.obs, native.obs[player])
    np.testing.assert_array_equal(seen.rewards, native.rewards[player])
    np.testing.assert_array_equal(seen.done, native.done)
    jax.tree.map(np.testing.assert_array_equal, seen.info["rewards"], native.rewards)
    for name in ("terminated", "truncated", "valid", "metrics"):
        jax.tree.map(np.testing.assert_array_equal, seen.info[name], native.info[name])
    final = native.info["final_obs"][player]
    np.testing.assert_array_equal(seen.info["final_obs"], final)
    assert len(set(np.asarray(seen.info["opponent_action"][0]).tolist())) == 2


def test_co_player_acts_with_its_players_key_of_the_step():
    single = against(DicePlayer, Counting(5), 0)
    _, outputs = run(single, single.make_params(NO_END), 5)
    episode = keys.episode(keys.lane(0), 0)
    expected = []
    for t in range(5):
        key = jax.random.fold_in(keys.player(keys.step(episode, t), 1), 0)
        expected.append(int(jax.random.key_data(key)[0] & 1))
    assert [int(info["opponent_action"]) for *_, info in outputs] == expected


def test_co_players_are_given_in_player_order():
    env = Counting(2, players=3)
    agents = (Fixed.from_env(env, 0, action=1), Fixed.from_env(env, 2, action=0))
    single = SinglePlayer(env, 1, agents)
    _, outputs = run(single, single.make_params(NO_END), 1, action=0)
    _, _, reward, _, info = outputs[0]
    assert tuple(map(int, info["opponent_action"])) == (1, 0)
    assert tuple(map(float, info["rewards"])) == (10.0, 1.0, 2.0)
    assert float(reward) == 1.0


def test_opponent_action_of_a_two_player_game_is_a_scalar():
    _, outputs = run(against(Fixed, action=1), against(Fixed).default_params, 1)
    info = outputs[0][4]
    assert info["opponent_action"].shape == ()
    assert int(info["opponent_action"]) == 1


def test_memory_opens_with_the_trial_and_keeps_its_key():
    single = against(Counter)
    params = single.default_params
    reset_key = keys.reset(keys.episode(keys.lane(0), 0))
    _, state = single.reset(reset_key, params)
    agent = single.co_players[0]
    opened = agent.make_initial_state(keys.player(reset_key, 1), jnp.zeros(3))[1]
    assert state.memories[0].hidden.tolist() == [0.0, 0.0, 1.0]
    assert _data(state.memories[0].key) == _data(opened.key)
    state, _ = run(single, params, 4)
    assert _data(state.memories[0].key) == _data(opened.key)


def test_inner_end_reaches_memories_only_inside_the_trial():
    single = against(Counter)
    counts = [
        run(single, single.default_params, n)[0].memories[0].hidden.tolist()
        for n in (2, 3, 6, 8)
    ]
    assert counts == [[2, 0, 1], [3, 1, 1], [6, 1, 1], [6, 1, 1]]


def test_nested_view_ends_inner_episodes_in_begin_episode():
    single = against(Counter)
    params, episode = single.default_params, keys.episode(keys.lane(0), 0)
    _, state = single.reset(keys.reset(episode), params)
    hidden = []
    for _ in range(2):
        for _ in range(3):
            key = keys.step(episode, state.t)
            _, state, *_ = single.step_inner(key, state, 0, params)
        hidden.append(state.memories[0].hidden.tolist())
        _, state = single.begin_episode(keys.begin(episode, state.t), state, params)
        hidden.append(state.memories[0].hidden.tolist())
    assert hidden == [[3, 0, 1], [3, 1, 1], [6, 1, 1], [6, 1, 1]]


def test_step_after_the_end_changes_nothing():
    single = against(Counter)
    at_end, _ = run(single, single.default_params, 6)
    later, outputs = run(single, single.default_params, 8)
    for a, b in zip(jax.tree.leaves(at_end), jax.tree.leaves(later), strict=True):
        assert _data(a) == _data(b)
    _, _, reward, done, info = outputs[-1]
    assert (float(reward), bool(done), bool(info["valid"])) == (0.0, False, False)


def test_statistics_are_those_of_all_players():
    single = against(Fixed, action=1)
    params = single.default_params
    obs, state = single.reset(keys.lane(0), params)
    acc = single.metrics_init()
    for _ in range(3):
        before = obs
        obs, state, _, _, info = single.step(keys.lane(0), state, 0, params)
        acc = single.metrics_update(acc, before, jnp.int32(0), info)
    named = single.metrics_final(acc)
    assert float(named["cooperation_rate/player_1"]) == 1.0
    assert float(named["cooperation_rate/player_2"]) == 0.0
    assert float(named["state_visitation/player_1/CD"]) == pytest.approx(2 / 3)


def test_two_payoffs_are_one_vmap():
    single = against(Fixed, action=1)
    tables = jnp.stack([jnp.full((4, 2), 1.0), jnp.full((4, 2), 2.0)])
    game = MATRIX.default_params.replace(payoff_matrix=tables)
    params = single.make_params(game)
    axes = single.params_axes(payoff_matrix=0)

    def first_reward(params):
        _, state = single.reset(keys.lane(0), params)
        return single.step(keys.lane(0), state, 0, params)[2]

    assert jax.vmap(first_reward, in_axes=(axes,))(params).tolist() == [1.0, 2.0]


def test_stream_over_a_seat_reopens_memories():
    stream = AutoResetWrapper(against(Counter))  # type: ignore[arg-type]
    params = against(Counter).default_params
    _, state = stream.reset(keys.lane(0), params)
    for _ in range(7):
        _, state, *_ = stream.step(None, state, jnp.int32(0), params)
    assert int(state.e) == 1
    assert state.env.memories[0].hidden.tolist() == [1, 0, 1]


def test_picture_is_that_of_the_whole_game():
    class Seen(Counting):
        def render_ansi(self, frame):
            return f"{int(frame.obs[1][1])} {frame.actions} {frame.params.limit}"

    single = against(Fixed, Seen(2))
    params = single.make_params(NO_END)
    obs, state = single.reset(keys.lane(0), params)
    frame = Frame(state, obs, (1, 0), None, params)
    assert single.render_ansi(frame) == "1 (1, 0) 999.0"


def test_it_looks_like_a_one_player_game():
    env = IteratedMatrixGame(3, 2, num_actions=(2, 3), random_ends=True)
    single = against(Fixed, env, 1)
    assert single.num_players == 1
    assert (single.num_inner_steps, single.num_outer_steps) == (3, 2)
    assert (single.random_ends, single.horizon) == (True, "truncate")
    assert single.name == "IteratedMatrixGame"
    assert single.action_space() is env.action_space(1)
    assert single.observation_space(0) is env.observation_space(1)
    assert hash(single) == hash(against(Fixed, env, 1))
    with pytest.raises(ValueError, match=r"player must be in \[0, 1\), got 1"):
        single.action_space(1)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_wrong_number_of_co_players_is_refused(count):
    env = Counting(2, players=3)
    agents = tuple(Fixed.from_env(env, 0) for _ in range(count))
    with pytest.raises(ValueError, match=f"needs 2 co_players, got {count}"):
        SinglePlayer(env, 0, agents)


def test_agent_of_other_actions_is_refused():
    env = IteratedMatrixGame(3, num_actions=(2, 3))
    with pytest.raises(ValueError, match=r"co-player at seat 1.*Discrete\(2"):
        SinglePlayer(env, 0, (Fixed.from_env(env, 0),))


def test_impossible_seat_and_one_player_game_are_refused():
    with pytest.raises(ValueError, match=r"player must be in \[0, 2\), got 2"):
        SinglePlayer(MATRIX, 2, (Fixed.from_env(MATRIX, 0),))
    with pytest.raises(ValueError, match="Dice has one player already"):
        SinglePlayer(Dice(2), 0, ())


def test_wrong_number_of_states_is_refused():
    with pytest.raises(ValueError, match="expected 1 co_states, got 2"):
        against(Fixed).make_params(MATRIX.default_params, [(), ()])


def _data(x):
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x).tolist()
