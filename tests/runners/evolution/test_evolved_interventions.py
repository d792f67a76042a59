"""Interventions in the trials of a population: members meet the same ones."""

import dataclasses

import bits
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Counter, Fixed, seated
from evolution_fakes import KEY, Sign, evolving, generation, searched

from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv.shuffled_players import ShuffledPlayers
from paxenv_agents.engine.lineup import Slot
from runners.config import load
from runners.engine.experiment import rollout, train_chunk, trial_params
from runners.engine.interventions import (
    STOP,
    BlindGames,
    DrawnNumbers,
    HardStop,
    PayoffNoise,
    PayoffSampler,
    PayoffShown,
    PrisonersDilemmas,
    RandomPayoffs,
    UniformStop,
)
from runners.planning.plan import prepare

PARAMS = EnvParams(payoff_matrix=[[-1, -1], [-3, 0], [0, -3], [-2, -2]])
# Two cooperators and two defectors, of whom each kind must be worth the same.
COOPERATE, DEFECT = -1.0, 1.0
MEMBERS = (COOPERATE, DEFECT, COOPERATE, DEFECT)


@dataclasses.dataclass(frozen=True)
class BestReply(Sign):
    """Plays what pays more against a defector, by the payoff that it is shown."""

    def told(self, obs, number):
        payoff = obs[-8:].reshape(4, 2)
        return number * (payoff[3, 0] - payoff[1, 0])


@dataclasses.dataclass(frozen=True)
class AtStart(Sign):
    """Defects where it sees START, if its number is positive."""

    def told(self, obs, number):
        return jnp.where(obs[4] > 0, number, -1.0)


def fitness(made, params, members=MEMBERS, e=0):
    """What members of the first slot are worth, and the returns of their games."""
    others = [None] * (len(made.slots) - 1)
    played = generation(made, params, (jnp.array(members), *others), e)
    return played.fitness[0], played.episodes.returns


@pytest.mark.parametrize(
    "draw",
    [
        PrisonersDilemmas(-5.0, 0.0),
        pytest.param(RandomPayoffs(-9.0, 1.0), marks=pytest.mark.slow),
        pytest.param(PayoffNoise(-0.5, 0.5), marks=pytest.mark.slow),
    ],
)
def test_every_opponent_pays_otherwise_and_all_members_alike(draw):
    """Against a defector the drawn rows CD and DD are what members are worth."""
    env = IteratedMatrixGame(2)
    defector = Slot(seated(Fixed, env, 1, action=1), (1,))
    made = evolving(
        env,
        (searched(seated(Sign, env)), defector),
        num_opponents=3,
        params_sampler=PayoffSampler(draw),
    )
    state = made.init(KEY, PARAMS).replace(iteration=jnp.int32(7))
    drawn = np.asarray(trial_params(made, state)[0].payoff_matrix)[:, [1, 3], 0]
    assert len(np.unique(drawn)) == 6
    worth, returns = fitness(made, PARAMS, e=7)
    np.testing.assert_allclose(worth, np.tile(drawn.mean(0), 2), rtol=1e-5)
    # [members * opponents, games, players]
    paid = np.asarray(returns)[:, 0, 0].reshape(4, 3) / 2
    np.testing.assert_allclose(paid, np.tile(drawn.T, (2, 1)), rtol=1e-5)


def test_members_see_the_payoff_of_the_opponent_whom_they_meet():
    """The best reply to what is shown is the best reply to what is paid."""
    env = IteratedMatrixGame(2)
    defector = Slot(seated(Fixed, env, 1, action=1), (1,))
    observe = PayoffShown()
    agent = dataclasses.replace(
        seated(BestReply, env),
        observation_space=observe.space(env.observation_space(0), PARAMS),
    )
    made = evolving(
        env,
        (searched(agent, observe=observe), defector),
        num_opponents=5,
        params_sampler=PayoffSampler(RandomPayoffs(-1.0, 1.0)),
    )
    state = made.init(KEY, PARAMS)
    drawn = np.asarray(trial_params(made, state)[0].payoff_matrix)[:, [1, 3], 0]
    assert 0 < (drawn[:, 0] > drawn[:, 1]).sum() < 5
    worst, best = drawn.min(1).mean(), drawn.max(1).mean()
    worth, _ = fitness(made, PARAMS)
    np.testing.assert_allclose(worth, [worst, best, worst, best], rtol=1e-5)


def test_a_member_is_blind_in_the_first_games_of_every_opponent():
    """Against a cooperator who defects at START only is paid 0 once, else -1."""
    env = IteratedMatrixGame(4)
    start = BlindGames(1, (0, 0, 0, 0, 1))
    cooperator = Slot(seated(Fixed, env, 1), (1,))
    slots = (searched(seated(AtStart, env), observe=start), cooperator)
    made = evolving(env, slots, num_games=2, num_opponents=2)
    worth, returns = fitness(made, PARAMS)
    assert worth.tolist() == [-1.0, -3 / 8, -1.0, -3 / 8]
    assert np.asarray(returns)[2:4, :, 0].tolist() == [[0.0, -3.0]] * 2


@pytest.mark.parametrize(
    "after", [None, *(pytest.param(k, marks=pytest.mark.slow) for k in (0, 2))]
)
def test_opponents_stop_alike_for_all_members(after):
    """A counter defects after an odd number of updates; -3 or -2 then, else -1 or 0."""
    env = IteratedMatrixGame(2, 5)
    drawn = DrawnNumbers(((STOP, UniformStop(5)),)) if after is None else None
    counter = Slot(
        seated(Counter, env, 1),
        (1,),
        clock="inner",
        reset="trial",
        schedule=HardStop(after),
        sampler=drawn,
        per_opponent=True,
    )
    made = evolving(env, (searched(seated(Sign, env)), counter), num_opponents=6)
    state = made.init(KEY, PARAMS)
    stops = np.full(6, after)
    if after is None:
        stops = np.asarray(state.agents[1].hyper[STOP])
        assert len(set(stops.tolist())) > 2
    updates = np.minimum(np.arange(5)[:, None], stops)
    lost = 2.0 * (updates % 2)
    worth, returns = fitness(made, PARAMS)
    expected = [-1 - lost.mean(), -lost.mean()] * 2
    np.testing.assert_allclose(worth, expected, rtol=1e-6)
    paid = np.asarray(returns)[:, 0, 0].reshape(4, 6)
    np.testing.assert_allclose(paid[1], -2 * lost.sum(0))
    np.testing.assert_array_equal(paid[1], paid[3])


def test_members_are_worth_the_returns_of_their_roles():
    """Everybody is paid 2 for a defection, and 1 more in the first seat."""
    params = EnvParams(payoff_matrix=[[1, 0], [1, 2], [3, 0], [3, 2]])
    env = ShuffledPlayers(IteratedMatrixGame(2))
    slots = tuple(searched(seated(Sign, env, p), p) for p in (0, 1))
    made = evolving(env, slots, num_games=16)
    second = (COOPERATE, COOPERATE, DEFECT, DEFECT)
    played = generation(made, params, (jnp.array(MEMBERS), jnp.array(second)))
    first = float(played.fitness[0][0])
    assert 0 < first < 1
    np.testing.assert_allclose(played.fitness[0], np.array([0, 2, 0, 2]) + first)
    np.testing.assert_allclose(played.fitness[1], np.array([0, 0, 2, 2]) + 1 - first)


GAME = (
    *("runner=evo", "env=IPD", "num_inner_steps=5", "num_outer_steps=3"),
    *("num_envs=2", "popsize=4", "es.top_k=2", "es.sigma_init=1", "num_generations=2"),
)
AGENTS = (
    "agent1={name: Naive, tabular: true, es: {}}",
    "agent2={name: Naive, tabular: true, learning_rate: 1}",
)


def planned(*words, agents=AGENTS):
    plan = prepare(load([*GAME, *agents, *words]))
    return plan.experiment, jax.jit(plan.experiment.init)(KEY, plan.params)


def members_worth(*words, agents=AGENTS):
    """What the members of the first generation are worth to each slot's search."""
    made, state = planned(*words, agents=agents)
    played, _ = jax.jit(rollout, static_argnums=0)(made, state)
    return [None if f is None else f.tolist() for f in played.play.fitness]


@pytest.mark.slow
def test_an_opponent_that_stops_at_once_is_a_frozen_one():
    frozen = members_worth("agent2.learning=false")
    stopped = members_worth("agent2.stop_after=0")
    learning = members_worth()
    assert stopped == frozen != learning
    assert members_worth("agent2.stop_after=3") == learning


@pytest.mark.slow
@pytest.mark.fused
def test_drawing_the_configured_rate_changes_no_bit_of_an_evolution():
    words = ("agent2.learning_rate=0.3", "num_opponents=2")
    runs = [
        train_chunk(*planned(*words, *more), 2)
        for more in ((), ("agent2.sample={learning_rate: {log_uniform: [0.3, 0.3]}}",))
    ]
    bits.assert_same(*runs)


@pytest.mark.slow
def test_a_learner_may_be_named_before_the_agent_that_is_searched():
    """Each of its opponents' copies learns by itself, as one that is named later."""
    named = (
        "agents=[{name: Naive, tabular: true, players: [2], stop_after: uniform}, "
        "{name: Naive, tabular: true, players: [1], es: {}}]"
    )
    ((first, none), (_, second)) = (
        members_worth("agent2.stop_after=uniform", "num_opponents=3"),
        members_worth("agent1.learning_rate=1", "num_opponents=3", agents=[named]),
    )
    assert none is None
    assert first == second


EVERYTHING = (
    "payoff_sampler={kind: noise, low: -1, high: 1}",
    *("shuffle_players=true", "num_opponents=2"),
    *("agent1.show_payoff=true", "agent1.blind_games=1"),
    *("agent2.show_payoff=true", "agent2.blind_games=1", "agent2.stop_after=uniform"),
    "agent2.sample={learning_rate: {log_uniform: [0.01, 1]}}",
)


@pytest.mark.slow
def test_all_interventions_go_together():
    """All numbers are finite, and members differ; see `test_resume` for its resume.

    What each kind of payoff draws is seen above.
    """
    linear = ("agent1.tabular=false", "agent2.tabular=false")
    drawn = ("payoff_sampler.kind=dilemma",)
    _, rows = train_chunk(*planned(*linear, *EVERYTHING, *drawn), 2)
    for name, values in rows.items():
        assert np.isfinite(values[:2]).all(), name
    assert (np.asarray(rows["train/player_1/fitness/std"][:2]) > 0).all()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "agent1.sample={learning_rate: {uniform: [0, 1]}}",
            r"agent1\.sample is about",
        ),
        ("agent1.stop_after=1", r"agent1\.stop_after is about learning, and with evo"),
        ("agent1.reset=trial", r"agent1\.reset is about learning"),
        ("agent1.learning=false", r"agent1\.learning is about learning"),
        ("agent1.self_play_trials=2", r"agent1\.self_play_trials is about learning"),
        ("agent2.self_play_trials=2", "plays others by self-play, but the fitness"),
        ("agent2.reset=2", r"must start anew in each trial \(reset='trial'\)"),
        ("agent2.stop_after=4", r"must be uniform or in \[0, 3\]"),
    ],
)
def test_what_a_searched_agent_and_its_opponents_cannot_have_is_refused(word, message):
    with pytest.raises(ValueError, match=message):
        prepare(load([*GAME, *AGENTS, word]))
