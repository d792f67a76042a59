"""The naive learner: REINFORCE with a baseline, from the pieces of PPO."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_fakes import Seat, make_learner, make_sample

from paxenv_agents.learners.naive import Naive, NaiveConfig
from paxenv_agents.learners.ppo import PPOConfig

ONES = jnp.ones((3, 1), jnp.float32)


def chain(agent, state, memory):
    """A chain: rewards 1, 0, 2 in states 0, 1, 2, always action 1."""
    return make_sample(
        agent,
        state,
        memory,
        (3, 1),
        observations=jnp.arange(3).reshape(3, 1),
        actions=jnp.ones((3, 1), jnp.int32),
        rewards=jnp.array([[1.0], [0.0], [2.0]]),
        dones=jnp.array([[False], [False], [True]]),
    )


def learner(**options):
    plain = {"tabular": True, "gamma": 0.5, "gae_lambda": 1.0, "entropy_coeff": 0.0}
    return Naive.from_env(Seat(), **{**plain, **options})


@pytest.mark.slow
def test_policy_gradient_weights_are_rewards_to_go():
    """REINFORCE on rewards 1, 0, 2 with gamma 0.5 gives 1.5, 1.0, 2.0."""
    agent = learner(normalise_advantages=False)
    state, memory = make_learner(agent, 1)
    batch = agent.make_batch(
        chain(agent, state, memory), jnp.zeros(1, jnp.int32), state, memory
    )

    grads = jax.grad(lambda p: agent.loss(p, state, batch, 0.0)[0])(state.params)

    np.testing.assert_allclose(batch.targets[:, 0], [1.5, 1.0, 2.0], atol=1e-6)
    # -d log pi(1) / d logit_1 = -(1 - 0.5), times the reward to go, over 3 steps
    expected = -0.5 * np.array([1.5, 1.0, 2.0]) / 3
    np.testing.assert_allclose(grads["logits"][:3, 1], expected, atol=1e-6)
    np.testing.assert_allclose(grads["logits"][:3, 0], -expected, atol=1e-6)
    # d (R - V)^2 / dV = -2 R at V = 0
    np.testing.assert_allclose(
        grads["values"][:3], -2 * np.array([1.5, 1.0, 2.0]) / 3, atol=1e-6
    )


@pytest.mark.slow
def test_normalised_weights_have_mean_zero():
    agent = learner()
    state, memory = make_learner(agent, 1)
    batch = agent.make_batch(
        chain(agent, state, memory), jnp.zeros(1, jnp.int32), state, memory
    )

    # mean 1.5, deviation sqrt(1 / 6)
    np.testing.assert_allclose(
        batch.advantages[:, 0], [0.0, -1.2247449, 1.2247449], atol=1e-5
    )


def test_the_ratio_is_not_clipped():
    agent = learner(normalise_advantages=False, value_coeff=0.0)
    state, memory = make_learner(agent, 1)
    sample = chain(agent, state, memory)._replace(behavior_log_probs=ONES * np.log(0.1))

    _, _, stats = agent.update(sample, jnp.zeros(1, jnp.int32), state, memory)

    # ratio 0.5 / 0.1 = 5, times the mean reward to go 1.5
    assert float(stats["loss/policy"]) == pytest.approx(-7.5, abs=1e-4)
    assert "clip_fraction" not in stats


def test_the_default_policy_is_one_row_of_logits_per_state():
    state, _ = make_learner(Naive.from_env(Seat()), 1)

    assert jax.tree.map(jnp.shape, state.params) == {
        "actor": {"Dense_0": {"kernel": (5, 2)}},
        "critic": {"Dense_0": {"kernel": (5, 1)}},
    }


@pytest.mark.slow
def test_one_update_is_one_optimiser_step_by_default():
    agent = Naive.from_env(Seat())
    state, memory = make_learner(agent, 4)
    sample = make_sample(agent, state, memory, (6, 4))

    after, _, _ = jax.jit(agent.update)(sample, sample.observations[0], state, memory)

    assert int(after.opt_state.count) == 1
    assert int(after.timesteps) == 24


def test_options_of_ppo_alone_are_refused():
    with pytest.raises(ValueError, match="NaiveConfig has no option 'clip_epsilon'"):
        Naive.from_env(Seat(), clip_epsilon=0.1)
    with pytest.raises(ValueError, match="Naive takes a NaiveConfig"):
        Naive.from_env(Seat(), PPOConfig())
    assert NaiveConfig().value_coeff == 1.0
