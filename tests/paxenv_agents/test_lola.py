"""LOLA by sampled games, against the exact gradients of the infinite dilemma.

Exact numbers: un-normalised values, discount 0.96, logits of cooperation in the order
CC, CD, DC, DD, start, both players at 0 (so everybody plays one half everywhere).
"""

import dataclasses
import functools

import bits
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import check_agent, make_agent
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import context_of, play_fresh
from paxenv_agents.learners.lola import LOLA, fitted_opponent
from paxenv_agents.learners.lookahead import Lookahead, Seat
from paxenv_agents.types import Sample
from runners.engine.experiment import Experiment, train_chunk

NAIVE = [-1.5, -1.5, -1.5, -1.5, -0.25]  # d1 V1
AHEAD = [2.02886245, -5.02886245, 2.02886245, -5.02886245, -0.25]  # through one step
LENGTH = 150  # what comes later weighs 0.96 ** 150 = 0.2 %


def context_for(agents, env, num_games, seed=0, played=False):
    """Returns (states, context of player 1)."""
    slots = tuple(Slot(agent, (p,)) for p, agent in enumerate(agents))
    lineup = Lineup(env, slots, num_games)
    states = tuple(
        agent.init_state(jax.random.key(seed + p)) for p, agent in enumerate(agents)
    )
    samples = (None,) * len(agents)
    if played:
        play = jax.jit(play_fresh, static_argnums=0)
        samples = play(lineup, env.default_params, states, jax.random.key(seed))
    return states, context_of(lineup, 0, env.default_params, states, samples)["context"]


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def slopes(agent, other, num_games, seed):
    """Returns the gradient of the objective by the logits of cooperation, `[5]`."""
    env = IteratedMatrixGame(LENGTH)
    states, context = context_for((agent, other), env, num_games)
    key = jax.random.key(seed)
    grads = jax.grad(agent.loss, has_aux=True)(
        states[0].params, states[0], context, key
    )[0]
    # A logit up and the other down by as much: half their difference. Loss = -V.
    return -(grads["logits"][:, 0] - grads["logits"][:, 1]) / 2


def mean_slopes(num_games, num_seeds, other=None, **options):
    env = IteratedMatrixGame(LENGTH)
    agent = make_agent("LOLA", env, tabular=True, value_coeff=0.0, **options)
    if other is None:
        other = make_agent("LOLA", env, player=1, tabular=True)
    each = [np.asarray(slopes(agent, other, num_games, s)) for s in range(num_seeds)]
    return np.mean(each, 0), np.std(each, 0) / num_seeds**0.5


@pytest.mark.slow
def test_without_look_ahead_the_gradient_is_that_of_the_naive_learner():
    """Without the weight gamma**t of each step it would be four times as large."""
    estimate, _ = mean_slopes(4096, 1, num_lookaheads=0)

    # Four standard errors of 4,096 games.
    np.testing.assert_allclose(estimate, NAIVE, atol=0.3)


@pytest.mark.slow
def test_the_gradient_through_a_look_ahead_is_that_of_exact_lola():
    """A step of 1 of the co-player's logits: a half for each of its two logits."""
    estimate, error = mean_slopes(4096, 8, lr_in=1.0)

    # Four standard errors; the naive gradient is more than 3 away.
    assert error.max() < 0.2
    np.testing.assert_allclose(estimate, AHEAD, atol=0.6)


@pytest.mark.slow
def test_without_shaping_nothing_is_gained_by_the_co_players_reply():
    """It is the naive gradient where the co-player will be: all of it defects."""
    estimate, _ = mean_slopes(4096, 4, lr_in=1.0, shaping=False)

    assert (estimate < 0).all()


def small(options=(), other=None, num_games=32, played=False):
    """Returns (learner, its state, a context) of a short game."""
    env = IteratedMatrixGame(6)
    agent = make_agent("LOLA", env, tabular=True, **dict(options))
    other = other or make_agent("PPO", env, player=1, hidden_sizes=(8,))
    states, context = context_for((agent, other), env, num_games, played=played)
    return agent, states[0], context


def gradient(agent, state, context):
    slope = jax.grad(agent.loss, has_aux=True)
    return jax.jit(lambda p: slope(p, state, context, jax.random.key(3)))(state.params)


@pytest.mark.slow
def test_stopping_the_shaping_term_leaves_the_naive_gradient():
    """With steps of size 0 nothing is shaped, and both gradients are the same."""
    with_term, _ = gradient(*small({"lr_in": 0.0}))
    without, _ = gradient(*small({"lr_in": 0.0, "shaping": False}))

    np.testing.assert_allclose(with_term["logits"], without["logits"], atol=1e-6)


@pytest.mark.slow
def test_the_shaping_term_changes_the_gradient():
    shaping, _ = gradient(*small({"lr_in": 5.0}))
    without, _ = gradient(*small({"lr_in": 5.0, "shaping": False}))

    assert np.abs(shaping["logits"] - without["logits"]).max() > 0.05


@pytest.mark.slow
def test_a_co_player_without_params_is_not_looked_ahead_of():
    env = IteratedMatrixGame(6)
    other = make_agent("TitForTat", env, player=1)
    agent, state, context = small({"lr_in": 5.0}, other)
    still, _ = gradient(agent, state, context)
    moving, _ = gradient(*small({"lr_in": 0.0}, other))

    assert context.samples[1] is None
    np.testing.assert_allclose(still["logits"], moving["logits"], atol=1e-6)


@pytest.mark.slow
def test_a_co_player_whose_learning_is_off_is_not_looked_ahead_of():
    agent, state, context = small({"lr_in": 5.0})
    hyper = {**context.states[1].hyper, "enabled": jnp.zeros(())}
    off = (context.states[0], context.states[1].replace(hyper=hyper))
    still, _ = gradient(agent, state, dataclasses.replace(context, states=off))
    unmoved, _ = gradient(*small({"lr_in": 0.0}))

    np.testing.assert_allclose(still["logits"], unmoved["logits"], atol=1e-6)


@pytest.mark.slow
def test_rollouts_are_aligned_and_every_game_has_noise_of_its_own():
    """Observations and actions give the stored log-probabilities back."""
    _, state, context = small()
    play = jax.jit(lambda key: context.play(key, (None, None), 16))
    samples = play(jax.random.key(0))

    for one, sample in zip(context.co_players, samples, strict=True):
        log_probs, values, _ = jax.jit(one.agent.evaluate)(one.state, sample)
        np.testing.assert_allclose(log_probs, sample.behavior_log_probs, atol=1e-6)
        np.testing.assert_allclose(values, sample.behavior_values, atol=1e-6)
        assert np.var(np.asarray(sample.rewards).sum(0)) > 0
        opening = np.asarray(sample.observations)[0]
        assert (opening == opening[0]).all()  # the start, before any action
    assert state.params["logits"].shape == (5, 2)


def experiment(num_opponents=1, **options):
    env = IteratedMatrixGame(6)
    agent = make_agent("LOLA", env, **options)
    other = make_agent("Naive", env, player=1)
    slots = (
        Slot(agent, (0,)),
        Slot(other, (1,), per_opponent=num_opponents > 1),
    )
    return Experiment(env, slots, num_games=4, num_opponents=num_opponents)


def trained(experiment, seed, num_iterations=3):
    start = experiment.init(jax.random.key(seed), experiment.env.default_params)
    return start, *train_chunk(experiment, start, num_iterations)


@pytest.mark.slow
def test_a_seed_decides_everything():
    """Another seed changes what is played and learnt, an equal one not a bit."""
    _, first, rows = trained(experiment(), 0)
    _, again, rows_again = trained(experiment(), 0)
    _, other, other_rows = trained(experiment(), 1)

    assert bits.equal((first, rows), (again, rows_again), equal_nan=True)
    for p in (0, 1):
        assert not bits.equal(first.agents[p].params, other.agents[p].params)
    assert not bits.equal(rows, other_rows, equal_nan=True)


@pytest.mark.slow
def test_each_update_draws_games_of_its_own():
    """Nothing moves at a rate of 0, yet no two updates see the same returns."""
    frozen = experiment(learning_rate=0.0, lr_in=0.0)
    start, after, rows = trained(frozen, 0)
    returns = rows["train/player_1/return_mean"][:3]

    assert bits.equal(start.agents[0].params, after.agents[0].params)
    assert len(set(returns.tolist())) == 3
    assert rows["train/player_1/rollout_steps"][:3].tolist() == [48.0] * 3


@pytest.mark.slow
def test_several_opponents_count_equally():
    """One step up the mean of the objectives against each of them."""
    both = experiment(2, optimizer="sgd", learning_rate=1.0)
    start, after, _ = trained(both, 0, 1)
    agent, state = both.slots[0].agent, start.agents[0]
    key, slope = jax.random.fold_in(state.key, 0), jax.grad(agent.loss, has_aux=True)

    @functools.partial(jax.jit, static_argnums=0)
    def half_step(o):
        other = jax.tree.map(lambda x: x[o], start.agents[1])
        fields = (both.lineup, 0, start.params, (state, other), (None, None))
        told = context_of(*fields, opponent=o)["context"]
        return jax.tree.map(lambda g: g / 2, slope(state.params, state, told, key)[0])

    expected = jax.tree.map(
        lambda p, a, b: p - a - b, state.params, half_step(0), half_step(1)
    )

    got = after.agents[0].params
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.slow
def test_three_players_step_ahead_at_once():
    """One round at one half: defecting gains 1, so each logit's slope is -1/4."""
    env, params = paxenv.make("IteratedTensorGame", num_players=3, num_inner_steps=1)
    agents = [make_agent("LOLA", env, player=p, tabular=True) for p in range(3)]
    states, context = context_for(agents, env, 8192)
    seats = tuple(map(Seat, agents, states))
    games = Lookahead(context, seats, 0.96, True)
    rate = jnp.float32(0.5)

    keys = jax.random.split(jax.random.key(1), 1)
    after = jax.jit(lambda p: games.ahead(p, keys, (None, rate, rate)))(games.params)

    assert bits.equal(after[0], states[0].params)
    for moved in after[1:]:
        logits = moved["logits"][-1]
        np.testing.assert_allclose(logits[0] - logits[1], -0.25, atol=0.03)
    assert params is not None


@pytest.mark.slow
def test_it_learns_on_the_inner_clock_against_a_recurrent_co_player():
    env = IteratedMatrixGame(5, 3)
    agent = make_agent("LOLA", env, num_lookaheads=2)
    units = {"gru_size": 4, "hidden_sizes": (), "num_epochs": 1, "num_minibatches": 1}
    other = make_agent("RecurrentPPO", env, player=1, **units)
    slots = Slot(agent, (0,), clock="inner"), Slot(other, (1,), clock="inner")
    start, after, rows = trained(Experiment(env, slots, num_games=4), 0, 2)

    assert np.isfinite(rows["train/player_1/loss/total"][:2]).all()
    assert not bits.equal(start.agents[0].params, after.agents[0].params)


def test_a_model_has_the_frequencies_of_what_was_seen():
    """A co-player that cooperates after CC at 3 steps of 4."""
    env = IteratedMatrixGame(6, observation="index")
    model = make_agent("LOLA", env, tabular=True)
    nothing = dict.fromkeys(Sample._fields)
    seen = {
        "observations": jnp.zeros((8, 4), jnp.int32),
        "actions": jnp.asarray([[0, 0, 0, 1]] * 8),
        "rewards": jnp.zeros((8, 4)),
    }
    sample = Sample(**{**nothing, **seen})

    fit = jax.jit(lambda: fitted_opponent(model, jax.random.key(0), sample, 100, 0.1))()

    odds = jax.nn.softmax(fit.params["logits"])
    np.testing.assert_allclose(odds[0], [0.75, 0.25], atol=0.01)
    np.testing.assert_allclose(odds[1:], 0.5, atol=1e-6)


@pytest.mark.slow
def test_a_modelled_co_players_parameters_are_never_read():
    """They are NaN here, and its experience is all that is left of it."""
    options = {"opponent_modelling": True, "model_steps": 20}
    agent, state, context = small(options, played=True)
    theirs = context.states[1]
    nan = jax.tree.map(lambda x: x * jnp.nan, theirs.params)
    lost = (state, theirs.replace(params=nan))
    told = dataclasses.replace(context, states=lost)

    grads, _ = gradient(agent, state, told)

    assert np.isfinite(grads["logits"]).all()
    with pytest.raises(ValueError, match="no privilege 'co_players'"):
        told.co_players  # noqa: B018


def test_a_co_player_without_a_policy_gradient_has_to_be_modelled():
    env = IteratedMatrixGame(6)
    slots = (
        Slot(make_agent("LOLA", env), (0,)),
        Slot(make_agent("DQN", env, player=1), (1,)),
    )
    states = (slots[0].agent.init_state(jax.random.key(0)), None)
    told = context_of(Lineup(env, slots), 0, None, states, (None, None))["context"]

    with pytest.raises(ValueError, match="DQN, which has no policy gradient: set oppo"):
        slots[0].agent.loss(states[0].params, states[0], told, jax.random.key(0))


def test_an_update_without_a_context_is_refused():
    agent = make_agent("LOLA", IteratedMatrixGame(6))

    with pytest.raises(ValueError, match=r"LOLA\.update needs context="):
        agent.update(None, None, None, None)


@pytest.mark.parametrize(
    ("option", "value", "claim"),
    [
        ("optimizer", "rmsprop", r"one of adam, sgd, got 'rmsprop'"),
        ("num_lookaheads", -1, "a whole number >= 0, got -1"),
        ("lr_in", float("nan"), "a finite number >= 0, got nan"),
    ],
)
def test_a_bad_option_is_named(option, value, claim):
    with pytest.raises(ValueError, match=f"{option} must be {claim}"):
        make_agent("LOLA", IteratedMatrixGame(6), **{option: value})


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"tabular": True, "optimizer": "sgd"}, {"opponent_modelling": True}],
    ids=str,
)
def test_it_keeps_the_promises_of_an_agent(options):
    env = IteratedMatrixGame(4, 2)
    check_agent(LOLA.from_env(env, **options), env)


@pytest.mark.slow
def test_it_keeps_the_promises_of_an_agent_in_a_game_of_three():
    env, _ = paxenv.make("IteratedTensorGame", num_players=3, num_inner_steps=4)
    check_agent(make_agent("LOLA", env, player=2), env, player=2)
