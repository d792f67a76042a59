"""SHAPER remembers for a trial, and shares context among the games of one co-player."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from learner_fakes import Seat

import paxenv
from paxenv import keys
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import Shaper, ShaperConfig, check_agent, make_agent
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial
from paxenv_agents.networks.recurrent import Attention, Average
from paxenv_agents.types import Sample
from runners.config import load
from runners.engine.experiment import Experiment, train_chunk
from runners.planning.plan import prepare

SMALL = {"hidden_sizes": (8,), "gru_size": 6, "num_epochs": 1, "num_minibatches": 1}
NUMBERS = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
#: Two groups, each against a co-player of its own.
STEPS, GROUPS, SIZE = 5, 2, 3
GAMES = GROUPS * SIZE


def opened(agent, num_games):
    """Returns (state, memory of `num_games` games)."""
    return jax.jit(agent.batch_init)(jax.random.key(0), agent.init_hidden(num_games))


def learner(**options):
    return Shaper.from_env(Seat(NUMBERS), **{**SMALL, **options}).grouped(SIZE)


@functools.cache
def sequence(context):
    """Returns (agent, state, a sample [5, 6] from hidden states that are not 0)."""
    agent = learner(context=context)
    state, _ = opened(agent, GAMES)
    draw = np.random.default_rng(1)
    shape = STEPS, GAMES
    hiddens = draw.uniform(-1, 1, (1, GAMES, agent.hidden_size))
    sample = Sample(
        observations=jnp.asarray(draw.normal(size=(*shape, 3)), jnp.float32),
        actions=jnp.asarray(draw.integers(2, size=shape), jnp.int32),
        rewards=None,
        behavior_log_probs=None,
        behavior_values=None,
        dones=None,
        hiddens=jnp.asarray(hiddens, jnp.float32),
    )
    return agent, state, sample


evaluate = jax.jit(lambda agent, *args: agent.evaluate(*args), static_argnums=0)


@pytest.mark.parametrize(
    ("env", "options"),
    [
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (IteratedMatrixGame(4, 2), {"context": "avg"}),
                (IteratedMatrixGame(4, 2), {"context": "nothing"}),
                (IteratedMatrixGame(4, 2), {"context": "att", "shared_torso": False}),
                (CoinGame(3, num_outer_steps=2, layout="HWC"), {"context": "att"}),
                (
                    paxenv.make("Pendulum-v1", num_inner_steps=4)[0],
                    {"context": "avg"},
                ),
            )
        ),
    ],
)
def test_every_promise_is_kept(env, options):
    """Ratio 1, also from the middle of an episode; games permute with their outputs."""
    check_agent(Shaper.from_env(env, **{**SMALL, **options}), env)


# Memory.


@pytest.mark.slow
def test_the_hidden_state_is_empty_only_at_the_opening_of_a_trial():
    agent = learner()
    state, memory = opened(agent, 4)
    assert not memory.hidden.any()
    later = memory.replace(hidden=memory.hidden + 0.5)

    assert (agent.batch_end_inner(state, later).hidden == 0.5).all()
    assert not agent.batch_reset(later).hidden.any()


@pytest.mark.slow
def test_an_inner_end_changes_nothing_in_a_loss_and_gradient_crosses_it():
    """What was seen in one inner episode moves what is done in the next."""
    agent, state, sample = sequence("nothing")
    ended = sample._replace(inner_ends=jnp.zeros((STEPS, GAMES), bool).at[2].set(True))

    for got, expected in zip(
        evaluate(agent, state, ended), evaluate(agent, state, sample), strict=True
    ):
        np.testing.assert_array_equal(got, expected)

    def last(observations):
        seen = ended._replace(observations=observations)
        return agent.evaluate(state, seen)[1][-1, 0]

    gradient = np.abs(jax.jit(jax.grad(last))(sample.observations))
    assert (gradient[:, 0] > 1e-7).all()


@pytest.mark.slow
@pytest.mark.parametrize("context", ["nothing", "avg"])
def test_memory_crosses_inner_ends_and_updates_of_the_co_player(context):
    """Ratio 1 over a trial whose co-player learns, in the engine, with early ends."""
    env = IteratedMatrixGame(6, 3, random_ends=True)
    params = env.default_params.replace(continuation_prob=jnp.float32(0.7))
    agent = Shaper.from_env(env, **SMALL, context=context)
    naive = make_agent("Naive", env, player=1)
    slots = Slot(agent, (0,)), Slot(naive, (1,), clock="inner")
    lineup = Lineup(env, slots, num_games=8)
    states = tuple(a.init_state(jax.random.key(1)) for a in (agent, naive))

    trial = jax.jit(functools.partial(play_trial, lineup))(
        params, states, keys.lanes(0, 8), jnp.int32(0)
    )

    experience = trial.experiences[0]
    assert experience is not None
    sample = experience.sample
    log_probs, values, _ = evaluate(agent.grouped(8), states[0], sample)
    valid = np.asarray(sample.valid)
    assert 0.2 < valid.mean() < 0.9
    np.testing.assert_allclose(
        log_probs[valid], sample.behavior_log_probs[valid], atol=1e-5
    )
    np.testing.assert_allclose(values[valid], sample.behavior_values[valid], atol=1e-5)
    assert (np.asarray(experience.memory.hidden) != 0).any()


# Context.


def among_games(module, hidden):
    """Returns what a context makes of hidden states `[games, H]`."""
    params = jax.jit(module.init)(jax.random.key(0), hidden[0])

    def one(x):
        return module.apply(params, x)

    among = jax.jit(jax.vmap(one, axis_name="games"))
    return np.asarray(among(hidden)), jax.jit(one)


def test_the_average_is_half_the_own_state_and_half_the_mean():
    mixed, one = among_games(Average(), jnp.array([[1.0], [3.0]]))

    assert mixed.tolist() == [[1.5], [2.5]]
    assert one(jnp.array([1.0])).tolist() == [1.0]


@pytest.mark.slow
def test_attention_permutes_with_the_games_and_means_something_for_one():
    """A norm over one game would leave nothing of it."""
    hidden = jnp.asarray(np.random.default_rng(0).normal(size=(4, 6)), jnp.float32)
    order = jnp.array([2, 0, 3, 1])

    mixed, one = among_games(Attention(), hidden)
    permuted, _ = among_games(Attention(), hidden[order])
    alone, _ = among_games(Attention(), hidden[:1])

    np.testing.assert_allclose(permuted, mixed[order], atol=1e-6)
    np.testing.assert_allclose(alone[0], one(hidden[0]), atol=1e-6)
    assert np.abs(np.asarray(one(hidden[0]) - one(hidden[1]))).max() > 0.1
    assert np.abs(alone[0] - mixed[0]).max() > 1e-3


@pytest.mark.parametrize(
    "context", ["avg", pytest.param("att", marks=pytest.mark.slow)]
)
def test_context_never_mixes_opponents(context):
    """Games 0 to 2 meet one co-player, 3 to 5 another."""
    agent, state, sample = sequence(context)
    before = evaluate(agent, state, sample)[1]
    other = sample._replace(observations=sample.observations.at[0, 5].add(1.0))
    after = evaluate(agent, state, other)[1]

    np.testing.assert_array_equal(after[:, :SIZE], before[:, :SIZE])
    assert (np.abs(after[1:, SIZE:] - before[1:, SIZE:]) > 1e-7).all()

    memory = opened(agent, GAMES)[1].replace(hidden=sample.hiddens[0])
    moved = memory.replace(hidden=memory.hidden.at[5, 0].add(1.0))
    value = jax.jit(agent.batch_value)
    values, shifted = (value(state, sample.observations[0], m) for m in (memory, moved))
    np.testing.assert_allclose(values, before[0], atol=1e-6)
    np.testing.assert_array_equal(shifted[:SIZE], values[:SIZE])
    assert (shifted[SIZE:] != values[SIZE:]).all()


@pytest.mark.slow
def test_permuting_games_and_groups_permutes_a_loss():
    """What is shuffled in a minibatch is whole groups, never games."""
    agent, state, sample = sequence("att")
    order = jnp.array([5, 3, 4, 1, 2, 0])

    for a, b in zip(
        evaluate(agent, state, jax.tree.map(lambda x: x[:, order], sample)),
        evaluate(agent, state, sample),
        strict=True,
    ):
        np.testing.assert_allclose(a, b[:, order], atol=1e-6)


@pytest.mark.slow
def test_without_company_an_average_is_no_context():
    alone, state, sample = sequence("nothing")
    averaged = learner(context="avg").grouped(1)

    for a, b in zip(
        evaluate(averaged, state, sample), evaluate(alone, state, sample), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["avg", "att"])
def test_minibatches_are_of_whole_groups(context):
    """Without a step of learning the ratio is 1 in each, against two co-players."""
    env = IteratedMatrixGame(5, 2)
    options = {**SMALL, "num_epochs": 2, "num_minibatches": 2, "learning_rate": 0.0}
    agent = Shaper.from_env(env, **options, context=context)
    naive = make_agent("Naive", env, player=1)
    slots = (
        Slot(agent, (0,)),
        Slot(naive, (1,), clock="inner", per_opponent=True, reset="trial"),
    )
    experiment = Experiment(env, slots, num_games=3, num_opponents=2, chunk_size=2)
    state = experiment.init(jax.random.key(0), env.default_params)

    _, rows = train_chunk(experiment, state, 2)

    np.testing.assert_allclose(rows["train/player_1/approx_kl"], 0.0, atol=1e-6)
    np.testing.assert_array_equal(rows["train/player_1/clip_fraction"], 0.0)


def test_a_batch_that_does_not_split_into_groups_is_refused_with_both_numbers():
    agent = learner(context="avg", num_minibatches=4)
    agent.check_batch(5, 4 * SIZE)
    with pytest.raises(ValueError, match=r"num_minibatches=4 .* 2 groups of 3 games"):
        agent.check_batch(5, 2 * SIZE)
    with pytest.raises(ValueError, match="7 games do not divide into groups of 3"):
        agent.check_batch(5, 7)


def test_a_config_of_several_opponents_forms_groups():
    words = ["num_envs=3", "num_opponents=4", "num_inner_steps=4"]
    shaper = "agent1={name: Shaper, context: avg, num_minibatches: 4}"
    plan = prepare(load([*words, shaper, "agent2=TitForTat"]))
    assert plan.experiment.lineup.slots[0].agent.num_games == 3


# What is searched, and what is refused.


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_parameters_of_the_policy_are_those_that_move_its_logits(shared):
    _, _, sample = sequence("att")
    agent = learner(context="att", shared_torso=shared)
    state, _ = opened(agent, SIZE)
    hidden = jnp.ones((SIZE, agent.hidden_size)) * jnp.arange(1.0, 4.0)[:, None]

    def logits(params):
        def one(obs, hidden):
            return agent.forward(params, obs, hidden)[0].outputs

        return jax.vmap(one, axis_name="games")(sample.observations[0, :SIZE], hidden)

    gradient = jax.jit(jax.grad(lambda p: (logits(p) ** 2).sum()))(state.params)
    moving = {
        name
        for name, tree in gradient.items()
        if any(np.abs(x).max() > 0 for x in jax.tree.leaves(tree))
    }
    assert set(agent.policy_params(state.params)) == moving


def test_a_context_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"context must be one of .* got 'mean'"):
        learner(context="mean")
    assert ShaperConfig().context == "nothing"
    assert isinstance(learner().network, nn.Module)
