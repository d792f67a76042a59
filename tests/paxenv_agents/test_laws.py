"""A law made once for each state is the law at every observation."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.networks import distributions
from paxenv_agents.networks.distributions import ActionDistribution, TabularDistribution
from paxenv_agents.ops.categorical import look_up

KEY = jax.random.key(3)
SPACES = {
    "discrete": gymnasium.spaces.Discrete(3, start=-1),
    "box": gymnasium.spaces.Box(-1.0, 2.0, (2,), np.float32),
}


def pair(name, batch=(4, 2)):
    """Returns both forms of a law at random states, and the states."""
    distribution = distributions.for_space(SPACES[name], "state_independent", "scaled")
    width = distribution.head_size + distribution.num_scales
    outputs = jax.random.normal(KEY, (5, width))
    states = jax.nn.one_hot(jax.random.randint(KEY, batch, 0, 5), 5)
    law = ActionDistribution(distribution, look_up(states, outputs))
    return law, TabularDistribution(distribution, outputs, states)


def at_random(space, batch=(4, 2)):
    """Returns actions `[*batch, *space]`."""
    rng = np.random.default_rng(1)
    if isinstance(space, gymnasium.spaces.Discrete):
        return jnp.asarray(rng.integers(-1, 2, batch), jnp.int32)
    return jnp.asarray(rng.uniform(-0.9, 1.9, (*batch, 2)), jnp.float32)


@jax.jit
def drawn(law):
    return law.sample(KEY), law.mode()


@jax.jit
def judged(law, actions):
    return law.log_prob(actions), law.entropy()


@pytest.mark.parametrize("name", SPACES)
def test_both_forms_say_the_same(name):
    _, one = pair(name, batch=())
    alone = ActionDistribution(one.distribution, look_up(one.states, one.outputs))
    for got, wanted in zip(drawn(one), drawn(alone), strict=True):
        np.testing.assert_array_equal(got, wanted)
    law, tabulated = pair(name)
    actions = at_random(SPACES[name])
    both = zip(judged(tabulated, actions), judged(law, actions), strict=True)
    for got, wanted in both:
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("name", SPACES)
def test_both_forms_have_the_same_gradient(name):
    law, tabulated = pair(name)
    actions = at_random(SPACES[name])

    def objective(at):
        return jnp.sum(at.log_prob(actions) + 0.1 * at.entropy())

    def looked_up(outputs):
        return objective(law.replace(outputs=look_up(tabulated.states, outputs)))

    def tables(outputs):
        return objective(tabulated.replace(outputs=outputs))

    both = jax.jit(lambda x: (jax.grad(looked_up)(x), jax.grad(tables)(x)))
    wanted, got = both(tabulated.outputs)
    np.testing.assert_allclose(got, wanted, atol=1e-5)
