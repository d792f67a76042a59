"""Exact learners in the engine: the pure loop's numbers, from either seat, in any view.

The game is Battle of the Sexes with unequal halves, so that a payoff column or a seat
that is mixed up changes the numbers.
"""

import functools

import bits
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv.envs.infinite_matrix_game import EnvParams, InfiniteMatrixGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.single_player import SinglePlayer
from paxenv_agents import PairingError, check_agent, make_agent
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial
from paxenv_agents.exact import games, proximal, training
from paxenv_agents.exact.agents import bounded_logits
from runners.engine.experiment import Experiment, train_chunk

PAYOFF = np.array([[3, 2], [0, 1], [-1, 0], [2, 4]], float)
GAMMA, NUM_STEPS = 0.8, 4
PARAMS = EnvParams(payoff_matrix=PAYOFF, gamma=GAMMA)
GAME = games.memory_one(PAYOFF, GAMMA)
OPTIONS = {
    "NaiveExact": {"learning_rate": 0.5},
    "LOLAExact": {"learning_rate": 0.5, "lookahead_rate": 0.25, "form": "full"},
    "SOS": {"learning_rate": 0.5, "lookahead_rate": 0.25},
    "POLA": {"outer_steps": 20, "lookahead_rate": 0.5, "inner_beta": 0.2},
}
METHODS = {
    "NaiveExact": training.naive(0.5),
    "LOLAExact": training.lola(0.5, 0.25, "full"),
    "SOS": training.sos(0.5, 0.25),
    "POLA": proximal.pola(0.3, 0.5, inner_beta=0.2, outer_steps=20),
}


def slots(names, env, **kwargs):
    return tuple(
        Slot(make_agent(name, env, player=p, **OPTIONS[name]), (p,), **kwargs)
        for p, name in enumerate(names)
    )


@functools.cache
def loop(names, num_steps=NUM_STEPS):
    """Returns (opening logits, rewards [steps, players], last logits) of the loop.

    Rewards are of the opening pair, then of each pair that was learnt but the last.
    """
    starts = tuple(
        make_agent(name, InfiniteMatrixGame(1), p).init_state(jax.random.key(p)).params
        for p, name in enumerate(names)
    )

    @jax.jit
    def run(starts):
        trained = training.train([METHODS[n] for n in names], GAME, starts, num_steps)
        opening = jnp.stack(list(GAME(starts)))[None]
        values = jnp.concatenate((opening, trained.values[:-1]))
        return (1 - GAMMA) * values, trained.params

    return starts, *run(starts)


def states_of(seated, starts):
    return tuple(
        slot.agent.init_state(jax.random.key(9)).replace(params=start)
        for slot, start in zip(seated, starts, strict=True)
    )


def agrees(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


PAIRS = [
    ("NaiveExact", "NaiveExact"),
    pytest.param(("NaiveExact", "LOLAExact"), marks=pytest.mark.slow),
    pytest.param(("SOS", "NaiveExact"), marks=pytest.mark.slow),
    pytest.param(("POLA", "LOLAExact"), marks=pytest.mark.slow),
    pytest.param(("LOLAExact", "SOS"), marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("names", PAIRS)
def test_trials_of_one_step_are_the_steps_of_the_loop(names):
    """`rl` with one step a trial: every iteration is a step of both learners."""
    starts, rewards, last = loop(names)
    env = InfiniteMatrixGame(1)
    seated = slots(names, env)
    experiment = Experiment(env, seated, chunk_size=NUM_STEPS)
    state = experiment.init(jax.random.key(0), PARAMS)
    outer = state.outer.replace(agents=states_of(seated, starts))
    after, rows = train_chunk(experiment, state.replace(outer=outer), NUM_STEPS)
    for p in range(2):
        agrees(rows[f"episode/reward_per_step/player_{p + 1}"], rewards[:, p])
        agrees(after.agents[p].params, last[p])
        assert int(after.agents[p].timesteps) == NUM_STEPS
        start = jax.nn.sigmoid(after.agents[p].params[4])
        agrees(rows[f"train/player_{p + 1}/cooperation/START"][-1], start)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "trials"), [(NUM_STEPS, 1), (1, NUM_STEPS), (2, 2)])
def test_steps_and_inner_episodes_are_the_steps_of_the_loop(length, trials):
    """Learning goes on within an inner episode and, on the inner clock, beyond it."""
    names = ("NaiveExact", "LOLAExact")
    starts, rewards, last = loop(names)
    env = InfiniteMatrixGame(length, trials)
    seated = slots(names, env, clock="inner")
    lineup = Lineup(env, seated, num_games=2)
    lanes = jax.vmap(jax.random.key)(jnp.arange(2))
    play = jax.jit(functools.partial(play_trial, lineup))
    trial = play(PARAMS, states_of(seated, starts), lanes, jnp.int32(0))
    expected = rewards.reshape(trials, length, 2).sum(1)
    for game in range(2):
        agrees(trial.returns[:, :, game], expected)
    if trials > 1:
        agrees(trial.states[0].params, last[0])
        agrees(trial.states[1].params, last[1])


def test_an_opponent_in_an_adapter_learns_within_its_episode():
    """A player who keeps to one policy sees the naive learner climb, from seat 1."""
    env = InfiniteMatrixGame(NUM_STEPS)
    naive = make_agent("NaiveExact", env, player=1, **OPTIONS["NaiveExact"])
    single = SinglePlayer(env, 0, (naive,))
    own, start = jnp.zeros(5), jnp.array([0.3, -0.2, 0.1, 0.4, -0.5])
    state = naive.init_state(jax.random.key(0)).replace(params=start)
    params = single.make_params(PARAMS, [state])

    @jax.jit
    def play():
        _, state = single.reset(jax.random.key(0), params)

        def step(state, _):
            state, info = single.step(jax.random.key(0), state, own, params)[1::3]
            return state, info["opponent_action"]

        stay = training.naive(0.0), training.naive(0.5)
        played = jax.lax.scan(step, state, None, NUM_STEPS)[1]
        learnt = training.train(stay, GAME, (own, start), NUM_STEPS - 1).params[1]
        return played, learnt

    played, learnt = play()
    np.testing.assert_allclose(played[0], start, atol=1e-6)
    agrees(played[-1], learnt)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_an_exact_learner_keeps_every_promise_of_an_agent(name):
    env = InfiniteMatrixGame(3, 2)
    check_agent(make_agent(name, env, 1, **OPTIONS[name]), env, 1, PARAMS, num_envs=2)


@pytest.mark.slow
def test_a_frozen_learner_stands_still_within_an_episode():
    env = InfiniteMatrixGame(3, 2)
    seated = slots(("NaiveExact", "NaiveExact"), env, clock="inner", schedule=frozen)
    starts = loop(("NaiveExact", "NaiveExact"))[0]
    lanes = jax.random.key(0)[None]
    play = jax.jit(functools.partial(play_trial, Lineup(env, seated)))
    trial = play(PARAMS, states_of(seated, starts), lanes, jnp.int32(0))
    assert bits.equal(trial.states[0].params, starts[0])
    agrees(trial.returns[1, :, 0], trial.returns[0, :, 0])


def frozen(hyper, k):
    """A hard stop before the first step."""
    return {**hyper, "enabled": jnp.zeros_like(hyper["enabled"])}


def test_who_is_not_informed_plays_nan_and_not_in_silence():
    env = InfiniteMatrixGame(3)
    agent = make_agent("NaiveExact", env)
    state, memory = agent.make_initial_state(jax.random.key(0), agent.init_hidden(1)[0])
    obs = jnp.full(10, 0.5)
    policy = jax.jit(agent.policy)
    opening, _, memory = policy(state, obs, memory)
    assert np.isfinite(opening).all()
    assert np.isnan(policy(state, obs, memory)[0]).all()


def test_an_agent_for_one_step_plays_nan_at_a_second_one():
    agent = make_agent("NaiveExact", InfiniteMatrixGame(1))
    state, memory = agent.make_initial_state(jax.random.key(0), agent.init_hidden(1)[0])
    memory = agent.observe_params(memory, PARAMS, 0)
    obs = jnp.full(10, 0.5)
    opening, _, after = agent.policy(state, obs, memory)
    np.testing.assert_allclose(opening, state.params)
    assert np.isnan(agent.policy(state, obs, after)[0]).all()
    crossed = agent.end_inner_episode(state, after)
    np.testing.assert_allclose(agent.policy(state, obs, crossed)[0], state.params)


def test_numbers_without_a_payoff_are_refused():
    agent = make_agent("NaiveExact", InfiniteMatrixGame(3))
    memory = agent.init_memory(jax.random.key(0), agent.init_hidden(1)[0])
    with pytest.raises(ValueError, match="`payoff_matrix` and `gamma`"):
        agent.observe_params(memory, object(), 0)


def test_the_second_player_is_told_the_payoff_from_its_side():
    agent = make_agent("NaiveExact", InfiniteMatrixGame(3), player=1)
    memory = agent.init_memory(jax.random.key(0), agent.init_hidden(1)[0])
    first = agent.observe_params(memory, PARAMS, 0).extras["payoff"]
    second = agent.observe_params(memory, PARAMS, 1).extras["payoff"]
    np.testing.assert_array_equal(first, PAYOFF)
    np.testing.assert_array_equal(second, [[2, 3], [0, -1], [1, 0], [4, 2]])


def test_actions_stay_in_their_box_and_logits_go_on():
    env = InfiniteMatrixGame(3)
    agent = make_agent("NaiveExact", env)
    state, memory = agent.make_initial_state(jax.random.key(0), agent.init_hidden(1)[0])
    state = state.replace(params=jnp.array([30.0, -30.0, 0.0, 1.0, 2.0]))
    action, _, memory = jax.jit(agent.policy)(state, jnp.full(10, 0.5), memory)
    np.testing.assert_array_equal(action, [20, -20, 0, 1, 2])
    np.testing.assert_array_equal(memory.hidden[:5], state.params)


def test_the_other_logits_are_those_of_its_probabilities_within_bounds():
    found = bounded_logits(jnp.array([0.0, 0.25, 0.5, 1.0]))
    np.testing.assert_allclose(found, [-20, -np.log(3), 0, 20], rtol=1e-5, atol=1e-6)


def test_other_games_and_endless_play_are_refused():
    with pytest.raises(PairingError, match="it needs the infinite matrix game"):
        make_agent("SOS", IteratedMatrixGame(3))
    with pytest.raises(ValueError, match="`paxrun rl` trains it"):
        make_agent("NaiveExact", InfiniteMatrixGame(3)).rollout_length(1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("LOLAExact", {"form": "exact"}, "form must be one of taylor, full, lookahead"),
        ("LOLAExact", {"lookahead": 1.0}, "did you mean 'lookahead_rate'"),
        ("SOS", {"a": 1.0}, r"a must be a number in \(0, 1\), got 1.0"),
        ("POLA", {"inner_steps": 0}, "inner_steps must be a whole number >= 1, got 0"),
        ("NaiveExact", {"learning_rate": -1}, "learning_rate must be a finite number"),
    ],
)
def test_options_are_checked_by_name_and_value(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_agent(name, InfiniteMatrixGame(1), **options)


def test_the_game_made_by_name_seats_them():
    env, _ = paxenv.make("InfiniteMatrixGame", num_inner_steps=1)
    logits = make_agent("NaiveExact", env).init_state(jax.random.key(0)).params
    assert logits.shape == (5,)
    assert np.abs(logits).max() > 0.1
