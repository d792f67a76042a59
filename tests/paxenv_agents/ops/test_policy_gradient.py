"""Objectives of policy-gradient learners, in literal numbers."""

import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.ops import policy_gradient as pg


def array(*numbers):
    return jnp.array(numbers, jnp.float32)


def test_the_surrogate_is_the_lower_of_two():
    ratio, advantage = array(1.5, 0.5, 1.5, 0.5, 1.1), array(1, 1, -1, -1, 2)

    got = pg.clipped_surrogate(ratio, advantage, 0.2)

    np.testing.assert_allclose(got, [1.2, 0.5, -1.5, -0.8, 2.2], atol=1e-6)


def test_the_value_error_is_the_larger_of_two():
    values, old = array(2.0, 0.1, -1.0), array(0.0, 0.0, 0.0)

    got = pg.clipped_squared_error(values, old, array(3.0, 3.0, 0.0), 0.2)

    # held at 0.2, 0.1, -0.2: max(1, 7.84), max(8.41, 8.41), max(1, 0.04)
    np.testing.assert_allclose(got, [7.84, 8.41, 1.0], atol=1e-5)


def test_means_skip_steps_without_weight():
    weights = array(1, 0, 1)

    assert pg.weighted_mean(array(1, 99, 3), weights) == pytest.approx(2.0)
    assert pg.weighted_mean(array(1, 99, 3), jnp.zeros(3)) == 0.0


def test_normalised_numbers_have_mean_zero_and_deviation_one():
    got = pg.normalise(array(1, 77, 3, 5), array(1, 0, 1, 1))

    # mean 3, deviation sqrt(8 / 3) = 1.6329932
    np.testing.assert_allclose(got[jnp.array([0, 2, 3])], [-1.2247449, 0, 1.2247449])


def test_a_single_step_keeps_its_advantage():
    """The deviation of one number is 0; it must not become 0 / 0, nor 0."""
    assert pg.normalise(array(-3.0), array(1)).tolist() == [-3.0]
    assert pg.normalise(array(-3.0, 8.0), array(1, 0)).tolist()[0] == -3.0


def test_rounding_noise_is_not_blown_up():
    noisy = jnp.full((4, 5), 0.7) * (1 + 1e-7 * jnp.arange(5))

    got = pg.normalise(noisy, jnp.ones_like(noisy))

    np.testing.assert_allclose(got, 0.0, atol=1e-6)


def test_a_ratio_never_overflows():
    ratio = pg.importance_ratio(array(0.0, -200.0), array(-200.0, 0.0))

    np.testing.assert_allclose(ratio, [np.exp(20), np.exp(-20)], rtol=1e-5)
    assert np.isfinite(pg.kl_estimate(ratio)).all()


def test_the_kl_estimate_is_zero_at_ratio_one_and_positive_elsewhere():
    got = pg.kl_estimate(array(1.0, 2.0, 0.5))

    np.testing.assert_allclose(got, [0.0, 0.3068528, 0.1931472], atol=1e-6)


def test_explained_variance_of_known_predictions():
    targets, ones = array(1, 2, 3), jnp.ones(3)

    assert pg.explained_variance(targets, targets, ones) == pytest.approx(1.0)
    assert pg.explained_variance(array(7, 7, 7), targets, ones) == pytest.approx(0.0)
    assert pg.explained_variance(array(3, 2, 1), targets, ones) == pytest.approx(-3.0)
    assert pg.explained_variance(targets, ones, ones) == 0.0


def test_the_global_norm_is_over_all_leaves():
    assert pg.global_norm({"a": array(2, 4), "b": array(4)}) == pytest.approx(6.0)
