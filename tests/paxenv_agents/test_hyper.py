"""Hyper: normal logits of memory-one policies in the infinite matrix game."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv.envs.infinite_matrix_game import InfiniteMatrixGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import Hyper, PairingError, check_agent, make_agent
from paxenv_agents.engine.lineup import Slot
from runners.engine.experiment import Experiment, train_chunk

ENV = InfiniteMatrixGame(4)


def opened(agent, num_games):
    """Returns (state, memory of `num_games` games)."""
    return jax.jit(agent.batch_init)(jax.random.key(0), agent.init_hidden(num_games))


def hyper(**options):
    return Hyper.from_env(ENV, **{"num_minibatches": 1, **options})


@pytest.mark.slow
def test_every_promise_is_kept():
    check_agent(hyper(), ENV)


def with_means(agent, means, scales):
    """Returns a state whose policy does not look: these means, raw scales."""
    state, _ = opened(agent, 1)
    flat = jax.tree_util.tree_map(jnp.zeros_like, state.params)
    flat["network"]["actor"]["Dense_0"]["bias"] = jnp.asarray(means, jnp.float32)
    flat["scales"] = jnp.asarray(scales, jnp.float32)
    return state.replace(params=flat)


@pytest.mark.slow
def test_logits_are_normal_in_their_own_unit_and_not_squashed():
    """Means of 3 have a standard error of 0.5 / sqrt(4096) = 0.008."""
    agent = hyper()
    state = with_means(agent, [3, -3, 0, 15, 40], [0, 0, 0, 0, 0])
    memory = opened(agent, 4096)[1]
    seen = jnp.full((4096, 10), 0.5)

    logits, _, after = jax.jit(agent.batch_policy)(state, seen, memory)

    np.testing.assert_allclose(logits.mean(0)[:4], [3, -3, 0, 15], atol=0.032)
    np.testing.assert_allclose(logits.std(0)[:4], 0.5, atol=0.03)
    assert (logits[:, 4] == 20.0).all()  # the bound of the Box
    # ln N(x; mean, 0.5), each at 4 coordinates; the last is a certainty.
    density = -0.5 * ((logits[:, :4] - jnp.array([3, -3, 0, 15])) / 0.5) ** 2
    expected = jnp.sum(density - np.log(0.5 * np.sqrt(2 * np.pi)), axis=1)
    np.testing.assert_allclose(after.extras["log_probs"], expected, atol=1e-3)


def test_a_greedy_policy_plays_its_means():
    agent = dataclasses.replace(hyper(), greedy=True)
    state = with_means(agent, [1, -2, 3, -4, 25], [0, 0, 0, 0, 0])
    memory = opened(agent, 2)[1]

    logits, _, _ = jax.jit(agent.batch_policy)(state, jnp.full((2, 10), 0.5), memory)

    assert logits.tolist() == [[1, -2, 3, -4, 20]] * 2


def test_standard_deviations_learn_and_depend_on_nothing():
    """Their gradient is not 0 at the start."""
    agent = hyper()
    state, memory = opened(agent, 8)
    assert state.params["scales"].shape == (5,)
    seen = jnp.asarray(np.random.default_rng(0).uniform(size=(8, 10)), jnp.float32)
    logits, _, _ = jax.jit(agent.batch_policy)(state, seen, memory)

    def log_prob(scales):
        params = {**state.params, "scales": scales}
        law = jax.vmap(lambda o: agent.forward(params, o, jnp.zeros(0))[0])(seen)
        return law.log_prob(logits).sum()

    gradient = jax.jit(jax.grad(log_prob))(state.params["scales"])
    assert (np.abs(gradient) > 1e-3).all()


@pytest.mark.slow
def test_it_learns_to_cooperate_with_tit_for_tat():
    """The value of cooperation is -1, of defection -1.92; a fresh policy gets -1.7."""
    env = InfiniteMatrixGame(4)
    agent = Hyper.from_env(env, learning_rate=0.02, num_minibatches=1, gamma=0.0)
    slots = Slot(agent, (0,)), Slot(make_agent("HyperTFT", env, player=1), (1,))
    experiment = Experiment(env, slots, num_games=256, chunk_size=150)
    state = experiment.init(jax.random.key(0), env.default_params)

    _, rows = train_chunk(experiment, state, 150)

    assert rows["episode/reward_per_step/player_1"][-1] > -1.1


def test_another_game_and_fixed_options_are_refused():
    with pytest.raises(PairingError, match="a Box of logits"):
        make_agent("Hyper", IteratedMatrixGame(4))
    for option in ({"action_bound": "scaled"}, {"tabular": True}):
        with pytest.raises(ValueError, match="for Hyper, whose logits are normal"):
            hyper(**option)
