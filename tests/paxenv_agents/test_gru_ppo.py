"""Recurrent PPO: its sequences are replayed exactly, and learnt from through time."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from game_fakes import Recall
from learner_fakes import Seat, make_learner

import paxenv
from paxenv import keys
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import RecurrentPPO, RecurrentPPOConfig, check_agent, make_agent
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial
from paxenv_agents.networks.feed_forward import MLPActor
from paxenv_agents.types import Sample
from runners.engine.experiment import Experiment, train_chunk

SMALL = {"hidden_sizes": (8,), "gru_size": 6, "num_epochs": 1, "num_minibatches": 2}
#: Three numbers in, two actions out.
NUMBERS = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
STEPS, GAMES = 5, 4


def learner(**options):
    return RecurrentPPO.from_env(Seat(NUMBERS), **{**SMALL, **options})


@functools.cache
def sequence(agent):
    """Returns (state, a sample [5, 4] from hidden states that are not 0)."""
    state, _ = make_learner(agent, GAMES)
    draw = np.random.default_rng(1)
    shape = STEPS, GAMES
    hiddens = draw.uniform(-1, 1, (1, GAMES, agent.hidden_size))
    sample = Sample(
        observations=jnp.asarray(draw.normal(size=(*shape, 3)), jnp.float32),
        actions=jnp.asarray(draw.integers(2, size=shape), jnp.int32),
        rewards=jnp.asarray(draw.normal(size=shape), jnp.float32),
        behavior_log_probs=None,
        behavior_values=None,
        dones=jnp.zeros(shape, bool),
        hiddens=jnp.asarray(hiddens, jnp.float32),
    )
    log_probs, values, _ = agent.evaluate(state, sample)
    return state, sample._replace(behavior_log_probs=log_probs, behavior_values=values)


AGENT = learner()
evaluate = jax.jit(AGENT.evaluate)


# Replaying a sequence.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "options"),
    [
        (IteratedMatrixGame(4, 2), {}),
        (CoinGame(4, num_outer_steps=2), {"hidden_sizes": ()}),
        (IteratedMatrixGame(4, 2, observation="index"), {"shared_torso": False}),
        (paxenv.make("Pendulum-v1", num_inner_steps=4)[0], {"activation": "relu"}),
    ],
    ids=["IPD", "CoinGame", "separate", "Pendulum"],
)
def test_every_promise_is_kept(env, options):
    """Ratio 1 among them, also from the middle of an episode and over inner ends."""
    check_agent(RecurrentPPO.from_env(env, **{**SMALL, **options}), env)


@pytest.mark.slow
def test_a_trial_of_early_ends_is_replayed_exactly():
    """Steps that were not played lie between an early end and the next opening."""
    env = IteratedMatrixGame(6, 3, random_ends=True)
    params = env.default_params.replace(continuation_prob=jnp.float32(0.7))
    agent = RecurrentPPO.from_env(env, **SMALL)
    opponent = make_agent("Random", env, player=1)
    lineup = Lineup(env, (Slot(agent, (0,)), Slot(opponent, (1,))), num_games=8)
    states = tuple(a.init_state(jax.random.key(1)) for a in (agent, opponent))
    lane_keys = keys.lanes(0, 8)

    trial = jax.jit(functools.partial(play_trial, lineup))(
        params, states, lane_keys, jnp.int32(0)
    )

    experience = trial.experiences[0]
    assert experience is not None
    sample = experience.sample
    log_probs, values, _ = agent.evaluate(states[0], sample)
    valid = np.asarray(sample.valid)
    assert 0.2 < valid.mean() < 0.9
    assert (np.asarray(sample.inner_ends).sum(axis=0) == 3).all()
    np.testing.assert_allclose(
        log_probs[valid], sample.behavior_log_probs[valid], atol=1e-5
    )
    np.testing.assert_allclose(values[valid], sample.behavior_values[valid], atol=1e-5)


@pytest.mark.slow
def test_the_hidden_state_is_cleared_after_an_inner_end():
    """An end after step 1, and one after the last step, which nothing follows."""
    state, sample = sequence(AGENT)
    ends = jnp.zeros((STEPS, GAMES), bool).at[1].set(True).at[-1].set(True)
    later = jax.tree.map(lambda x: x[2:], sample._replace(hiddens=None))
    fresh = later._replace(hiddens=jnp.zeros((1, GAMES, AGENT.hidden_size)))

    whole = evaluate(state, sample._replace(inner_ends=ends))

    for got, on, alone in zip(
        whole, evaluate(state, sample), evaluate(state, fresh), strict=True
    ):
        np.testing.assert_allclose(got[:2], on[:2], atol=1e-6)
        np.testing.assert_allclose(got[2:], alone, atol=1e-6)
    assert not np.allclose(whole[1][2:], evaluate(state, sample)[1][2:], atol=1e-3)


@pytest.mark.slow
def test_steps_that_were_not_played_leave_the_hidden_state():
    state, sample = sequence(AGENT)
    without = evaluate(state, sample)
    place = jnp.array([0, 1, 1, 1, 2, 3, 4])  # steps 2 and 3 repeat step 1
    valid = jnp.array([True, True, False, False, True, True, True])

    padded = jax.tree.map(lambda x: x[place], sample._replace(hiddens=None))
    got = evaluate(
        state,
        padded._replace(
            hiddens=sample.hiddens, valid=jnp.tile(valid[:, None], (1, GAMES))
        ),
    )

    for a, b in zip(got, without, strict=True):
        np.testing.assert_allclose(a[np.asarray(valid)], b, atol=1e-6)


def test_a_value_steps_the_unit_and_keeps_nothing():
    state, memory = make_learner(AGENT, GAMES)
    observations = sequence(AGENT)[1].observations[0]

    value = AGENT.batch_value(state, observations, memory)
    _, _, after = AGENT.batch_policy(state, observations, memory)

    np.testing.assert_allclose(value, after.extras["values"], atol=1e-6)
    assert not memory.hidden.any()
    assert after.hidden.any(axis=1).all()


@pytest.mark.parametrize("shared", [True, False])
def test_the_hidden_size_is_that_of_the_units(shared):
    agent = learner(shared_torso=shared, gru_size=7)
    state, memory = make_learner(agent, 2)

    assert memory.hidden.shape == (2, 7 if shared else 14)
    crossed = agent.batch_end_inner(state, memory.replace(hidden=memory.hidden + 1))
    assert not crossed.hidden.any()


# Learning through time.


def sensitivity(agent, through_end=False):
    """|d (last log-probability and value of game 0) / d observation|, [T, E, 3]."""
    state, sample = sequence(agent)
    if through_end:
        ends = jnp.zeros((STEPS, GAMES), bool).at[2].set(True)
        sample = sample._replace(inner_ends=ends)

    def last(observations):
        log_probs, values, _ = agent.evaluate(
            state, sample._replace(observations=observations)
        )
        return log_probs[-1, 0] + values[-1, 0]

    return np.abs(jax.jit(jax.grad(last))(sample.observations))


def test_the_last_step_is_differentiated_through_the_first():
    """The published loss cut the gradient after one step."""
    gradient = sensitivity(AGENT)

    assert (gradient[:, 0] > 1e-6).all()
    assert (gradient[:, 1:] == 0).all()


def test_no_gradient_crosses_an_inner_end():
    gradient = sensitivity(AGENT, through_end=True)

    assert (gradient[:3] == 0).all()
    assert (gradient[3:, 0] > 0).all()


def test_the_encoder_learns_from_what_is_seen_early():
    """Only the first observation is not 0, only the last step has an advantage."""
    state, sample = sequence(AGENT)
    sample = sample._replace(
        observations=sample.observations.at[1:].set(0.0),
        hiddens=jnp.zeros_like(sample.hiddens),
    )
    batch = AGENT.make_batch(
        sample, sample.observations[0], state, make_learner(AGENT, GAMES)[1]
    )
    last = jnp.zeros((STEPS, GAMES)).at[-1].set(1.0)
    batch = batch._replace(advantages=last, targets=batch.sample.behavior_values)

    loss = jax.jit(
        jax.grad(lambda p: AGENT.loss(p, state, batch, 0.0)[1]["loss/policy"])
    )
    gradient = loss(state.params)

    # The kernel multiplies the observation, so the first step alone can move it.
    kernel = gradient["encoders_0"]["Dense_0"]["kernel"]
    assert (np.abs(kernel) > 0).all()


@functools.partial(jax.jit, static_argnums=0)
def update(agent, sample, last_obs, state, memory):
    return agent.update(sample, last_obs, state, memory)


@pytest.mark.slow
def test_games_keep_their_hidden_states_in_every_minibatch():
    """Without a step of learning the ratio is 1 in all four, however permuted."""
    agent = learner(num_epochs=2, num_minibatches=2, learning_rate=0.0)
    state, sample = sequence(agent)
    memory = make_learner(agent, GAMES)[1]

    _, _, stats = update(agent, sample, sample.observations[0], state, memory)

    assert float(stats["clip_fraction"]) == 0.0
    assert float(stats["approx_kl"]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
def test_an_update_keeps_the_memory_and_changes_every_parameter():
    state, sample = sequence(AGENT)
    memory = make_learner(AGENT, GAMES)[1]
    memory = memory.replace(hidden=memory.hidden + 0.5)

    after, kept, _ = update(AGENT, sample, sample.observations[0], state, memory)

    assert (kept.hidden == 0.5).all()
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), state.params, after.params)
    assert all(jax.tree.leaves(moved))


@pytest.mark.slow
def test_one_game_and_a_unit_of_another_size_than_its_input():
    """Two updates with one game at a time."""
    agent = learner(hidden_sizes=(), gru_size=11, num_minibatches=1)
    state, memory = make_learner(agent, 1)
    sample = jax.tree.map(
        lambda x: x[:, :1], sequence(learner(gru_size=11, hidden_sizes=()))[1]
    )

    for _ in range(2):
        before = state
        state, memory, stats = update(
            agent, sample, sample.observations[0], state, memory
        )
        assert all(np.isfinite(x) for x in stats.values())
        assert not np.array_equal(
            before.params["policy_head"]["kernel"],
            state.params["policy_head"]["kernel"],
        )


@pytest.mark.slow
def test_schedules_do_not_compile_again():
    """Learning rate and entropy weight change at every update."""
    agent = learner(
        learning_rate_end=0.0, entropy_coeff_end=0.0, num_updates=20, num_minibatches=1
    )
    state, memory = make_learner(agent, GAMES)
    sample = sequence(AGENT)[1]
    compiled = jax.jit(agent.update)
    rates = []

    for _ in range(20):
        state, memory, stats = compiled(sample, sample.observations[0], state, memory)
        rates.append(float(stats["learning_rate"]))

    assert compiled._cache_size() == 1
    assert len(set(rates)) == 20


def train(name, **options):
    """Returns the mean return of each of 60 iterations of 64 games of recall."""
    env = Recall(5)
    shared = {"learning_rate": 5e-3, "gamma": 1.0, "num_minibatches": 1}
    agent = make_agent(name, env, hidden_sizes=(16,), **shared, **options)
    experiment = Experiment(env, (Slot(agent, (0,)),), num_games=64, chunk_size=60)
    state = experiment.init(jax.random.key(3), env.default_params)
    _, rows = train_chunk(experiment, state, 60)
    return np.asarray(rows["episode/return/player_1"])


@pytest.mark.slow
def test_what_was_seen_four_steps_ago_is_recalled():
    """A guess is worth 0, a recollection 1; one run ended at 0.84."""
    assert train("RecurrentPPO", gru_size=16)[-10:].mean() > 0.6


@pytest.mark.slow
def test_without_a_memory_recall_is_a_guess():
    """Ten means of 64 guesses have a standard error of 0.04; 4 of them are 0.16."""
    assert abs(train("PPO")[-10:].mean()) < 0.16


# What is refused, and what it is called.


def test_its_name_in_pax_makes_the_same_agent():
    env = IteratedMatrixGame(4)

    assert make_agent("PPO_memory", env) == make_agent("RecurrentPPO", env)
    assert RecurrentPPOConfig().gru_size == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tabular": True}, "tabular must be False for a recurrent policy"),
        ({"gru_size": 0}, "gru_size must be a whole number >= 1, got 0"),
        ({"gru_sise": 8}, "did you mean 'gru_size'"),
    ],
)
def test_options_without_a_meaning_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        learner(**options)


def test_own_networks_are_refused():
    with pytest.raises(ValueError, match="a recurrent learner makes its own network"):
        RecurrentPPO.from_env(Seat(NUMBERS), None, MLPActor)


def test_games_are_not_split():
    """A minibatch needs whole games."""
    with pytest.raises(ValueError, match=r"num_minibatches=2 .* 3 games .*recurrent"):
        AGENT.check_batch(8, 3)
