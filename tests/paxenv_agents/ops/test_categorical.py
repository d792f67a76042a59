"""Categorical distributions given by logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv import keys
from paxenv_agents.ops import categorical

MASKED = -jnp.inf


def test_log_probs_and_entropy_of_a_known_distribution():
    logits = jnp.log(jnp.array([[0.2, 0.3, 0.5], [0.25, 0.25, 0.5]]))

    log_probs = categorical.log_prob(logits, jnp.array([2, 0]))
    entropies = categorical.entropy(logits)

    np.testing.assert_allclose(log_probs, np.log([0.5, 0.25]), atol=1e-6)
    np.testing.assert_allclose(entropies, [1.0296530, 1.0397208], atol=1e-6)


@pytest.mark.parametrize("action", [0, 1])
@pytest.mark.parametrize("logits", [(60.0, -60.0), (-60.0, 60.0), (0.0, 0.0)])
def test_gradients_are_finite_near_probability_zero(logits, action):
    """The log-probability of logits (+60, -60), and its gradient."""

    def both(logits):
        log_prob = categorical.log_prob(logits, jnp.asarray(action))
        return log_prob, categorical.entropy(logits)

    values = both(jnp.array(logits))
    jacobian = jax.jacobian(both)(jnp.array(logits))

    assert np.isfinite(values).all()
    assert np.isfinite(jacobian).all()
    if logits == (60.0, -60.0):
        np.testing.assert_allclose(values[0], [0.0, -120.0][action], atol=1e-5)
        expected = [[0.0, 0.0], [-1.0, 1.0]][action]
        np.testing.assert_allclose(jacobian[0], expected, atol=1e-6)


def test_masked_actions_have_finite_gradients():
    """Masked actions; 0 * -inf and the gradient of log(0) are both NaN."""
    logits = jnp.array([1.0, MASKED, 0.0])

    def both(logits):
        return categorical.log_prob(logits, jnp.asarray(0)), categorical.entropy(logits)

    values, jacobian = both(logits), jax.jacobian(both)(logits)

    # p = e / (e + 1) = 0.7310586
    np.testing.assert_allclose(values, [-0.3132617, 0.5822032], atol=1e-6)
    np.testing.assert_allclose(jacobian[0], [0.2689414, 0.0, -0.2689414], atol=1e-6)
    # -p (log p + H) and -(1 - p) (log(1 - p) + H)
    np.testing.assert_allclose(jacobian[1], [-0.1966119, 0.0, 0.1966119], atol=1e-6)


def test_samples_have_the_frequencies_of_the_distribution():
    logits = jnp.log(jnp.array([0.1, 0.2, 0.3, 0.4]))
    draws = jax.vmap(lambda key: keys.words(key, 1)[0])(
        jax.random.split(jax.random.key(0), 20_000)
    )

    actions = categorical.sample(draws, jnp.broadcast_to(logits, (20_000, 4)))

    shares = np.bincount(actions, minlength=4) / 20_000
    # 4 standard errors of a share of 0.4 over 20,000 draws are 0.014.
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.3, 0.4], atol=0.014)
    assert actions.dtype == jnp.int32


@pytest.mark.parametrize("word", [0, 2**31, 2**32 - 1])
def test_a_masked_action_is_never_sampled(word):
    words = jnp.full((3,), word, jnp.uint32)
    logits = jnp.array([[MASKED, 0.3, 0.1], [0.7, MASKED, 0.1], [0.2, 0.5, MASKED]])

    actions = categorical.sample(words, logits)

    assert np.isfinite(categorical.log_prob(logits, actions)).all()


def test_the_lowest_of_equal_actions_is_the_mode():
    logits = jnp.array([[0.0, 0.0, 0.0], [-1.0, 2.0, 2.0]])

    assert categorical.mode(logits).tolist() == [0, 1]


@pytest.mark.slow
def test_an_action_of_nan_logits_has_no_log_probability():
    logits = jnp.array([jnp.nan, 0.0])

    for action in (0, 1):
        assert np.isnan(categorical.log_prob(logits, jnp.asarray(action)))
