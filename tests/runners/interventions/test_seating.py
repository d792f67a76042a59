"""Shuffled seats, self-play that fades, resets: seating as config values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Fixed, Recorder, seated

from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv.shuffled_players import ShuffledPlayers
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial
from runners.config import ConfigError, load
from runners.engine.experiment import Experiment
from runners.engine.interventions import FadingSelfPlay
from runners.planning.plan import evaluation, prepare

PARAMS = EnvParams(payoff_matrix=[[-1, -1], [-3, 0], [0, -3], [-2, -2]])
GAMES, STEPS = 32, 2


@dataclasses.dataclass(frozen=True)
class Defector(Recorder):
    """Defects until its first update."""

    def init_state(self, key):
        return super().init_state(key).replace(params=jnp.float32(1))


def slots():
    env = IteratedMatrixGame(STEPS)
    cooperates = Slot(
        seated(Recorder, env),
        (0,),
        self_play_players=(1,),
        self_play_prob=FadingSelfPlay(4),
    )
    return env, (cooperates, Slot(seated(Defector, env, 1), (1,)))


play = jax.jit(play_trial, static_argnums=0)


def trial(env, order, e):
    lanes = jax.vmap(jax.random.key)(jnp.arange(GAMES))
    states = tuple(slot.agent.init_state(jax.random.key(0)) for slot in order)
    return play(Lineup(env, order, GAMES), PARAMS, states, lanes, jnp.int32(e))


@pytest.mark.parametrize(("e", "least", "most"), [(0, 32, 32), (2, 8, 24), (4, 0, 0)])
def test_self_play_acts_and_learns_in_the_place_of_others(e, least, most):
    """By the keys of the games; lanes of the other are not valid."""
    env, both = slots()
    played = trial(env, both, e)
    mine, theirs = (x.sample for x in played.experiences)
    assert mine.valid.shape == (STEPS, 2 * GAMES)
    assert theirs.valid.shape == (STEPS, GAMES)
    replaced = np.asarray(mine.valid[0, GAMES:])
    assert least <= replaced.sum() <= most
    assert np.asarray(mine.valid[:, :GAMES]).all()
    np.testing.assert_array_equal(mine.valid[1, GAMES:], replaced)
    np.testing.assert_array_equal(theirs.valid, [~replaced] * STEPS)
    # It cooperates, the other defects: -1 where it plays both, else -3 against 0.
    first = np.where(replaced, -1.0, -3.0)
    np.testing.assert_array_equal(mine.rewards[:, :GAMES], [first] * STEPS)
    second = np.where(replaced, -1.0, 0.0)
    np.testing.assert_array_equal(mine.rewards[0, GAMES:], second)
    np.testing.assert_array_equal(theirs.rewards[0], np.zeros(GAMES))


def test_the_order_of_slots_changes_nothing_in_self_play():
    env, (a, b) = slots()
    forth, back = trial(env, (a, b), 2), trial(env, (b, a), 2)
    np.testing.assert_array_equal(forth.returns, back.returns)
    jax.tree.map(
        np.testing.assert_array_equal,
        [x.sample for x in forth.experiences],
        [x.sample for x in reversed(back.experiences)],
    )


def test_one_compile_serves_every_probability():
    env, both = slots()
    before = play._cache_size()
    for e in (0, 1, 3):
        trial(env, both, e)
    assert play._cache_size() <= before + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"self_play_players": (1,)}, "belong together"),
        ({"self_play_prob": FadingSelfPlay(3)}, "belong together"),
        (
            {"self_play_players": (0,), "self_play_prob": FadingSelfPlay(3)},
            "players of other slots",
        ),
        (
            {"self_play_players": (2,), "self_play_prob": FadingSelfPlay(3)},
            "players of other slots",
        ),
    ],
)
def test_self_play_takes_the_place_of_players_of_other_slots(options, message):
    env = IteratedMatrixGame(STEPS)
    with pytest.raises(ValueError, match=message):
        Lineup(
            env,
            (
                Slot(seated(Fixed, env), (0,), **options),
                Slot(seated(Fixed, env, 1), (1,)),
            ),
        )


def test_self_play_is_not_for_endless_play():
    env, both = slots()
    with pytest.raises(ValueError, match="self-play, which count trials"):
        Experiment(env, both, num_steps=4)


THREE = ("multiplayer_ipd/ppo", "num_envs=4", "num_inner_steps=5")


def test_a_config_fades_self_play_and_an_evaluation_has_none():
    plan = prepare(load([*THREE, "agent1.self_play_trials=10"]))
    first = plan.experiment.slots[0]
    assert (first.self_play_players, first.self_play_prob) == (
        (1, 2),
        FadingSelfPlay(10),
    )
    assert all(not slot.self_play_players for slot in evaluation(plan).experiment.slots)


def test_a_config_shuffles_the_seats_of_roles():
    plan = prepare(load([*THREE, "shuffle_players=true"]))
    assert plan.env == ShuffledPlayers(prepare(load(THREE)).env)
    assert [slot.players for slot in plan.experiment.slots] == [(0,), (1,), (2,)]


@pytest.mark.parametrize("reset", ["never", "trial", 3])
def test_a_config_resets_an_agent(reset):
    plan = prepare(load([*THREE, f"agent2.reset={reset}"]))
    assert [slot.reset for slot in plan.experiment.slots] == ["never", reset, "never"]


def test_a_schedule_of_an_agent_that_starts_afresh_ends_with_its_life():
    """A co-player that lives for three trials plans three updates."""
    words = ("agent2.reset=3", "agent2.learning_rate_end=0", "total_timesteps=1000")
    plan = prepare(load([*THREE, *words]))
    first, second, _ = (slot.agent.config.num_updates for slot in plan.experiment.slots)
    assert (first, second) == (50, 3)


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["rl", "eval"])
def test_shuffled_seats_self_play_and_weight_sharing_run_together(runner):
    words = ("shuffle_players=true", f"runner={runner}", "num_opponents=2")
    agents = (
        "agents=[{name: Naive, players: [1, 3], self_play_trials: 4}, "
        "{name: Naive, reset: 2}]"
    )
    plan = prepare(load([*THREE, *words, agents]))
    from runners.engine.experiment import train_chunk

    state = plan.experiment.init(jax.random.key(0), plan.params)
    _, rows = train_chunk(plan.experiment, state, 1)
    assert np.isfinite(rows["episode/return/player_1"][0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["agent1.self_play_trials=-1"],
            "self_play_trials must be a whole number >= 0, got -1",
        ),
        (
            ["agents=[{name: PPO, players: [1, 2, 3], self_play_trials: 1}]"],
            "plays all players already",
        ),
        (["shuffle_player=true"], "did you mean 'shuffle_players'"),
        (["runner=sarl", "agent1.reset=trial"], "agent1.reset counts trials, and sarl"),
        (["runner=sarl", "agent2.show_payoff=true"], "agent2.show_payoff is for a pl"),
    ],
)
def test_seating_that_does_not_fit_says_why(words, message):
    with pytest.raises(ConfigError, match=message):
        prepare(load([*THREE, *words]))
