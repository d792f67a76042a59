"""Normal numbers, their densities, and what a squash and a clip make of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.ops import gaussian

#: (mean, standard deviation) before a bound at -1 and 1.
LAWS = [(0.0, 0.5), (0.7, 0.3), (-1.5, 1.0), (0.2, 1.5)]


def integral(y, x):
    return float(np.trapezoid(np.asarray(y, np.float64), np.asarray(x, np.float64)))


def laws_of(law, shape):
    return (jnp.full(shape, number, jnp.float32) for number in law)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (round(0.975 * 2**32), 1.9599640),
        (round(0.5 * 2**32), 0.0),
        (round(0.15865525 * 2**32), -1.0),
        (2**32 - 1, 5.4207),
        (0, -5.4207),
    ],
)
def test_a_word_is_a_quantile_of_the_normal_distribution(word, expected):
    x = gaussian.standard_normal(jnp.uint32(word))

    assert float(x) == pytest.approx(
        expected, abs=2e-3 if word in (0, 2**32 - 1) else 1e-5
    )
    assert x.dtype == jnp.float32


def test_words_give_the_moments_of_the_normal_distribution():
    words = jax.random.bits(jax.random.key(0), (40_000,), jnp.uint32)

    x = np.asarray(gaussian.standard_normal(words))

    # 4 standard errors: 4 / 200 of the mean, 4 sqrt(2) / 200 of the variance.
    assert x.mean() == pytest.approx(0.0, abs=0.02)
    assert x.var() == pytest.approx(1.0, abs=0.0283)


def test_density_and_entropy_in_literal_numbers():
    x, mean, scale = (jnp.float32(v) for v in (1.0, 0.0, 2.0))

    # -1/8 - log 2 - log(2 pi) / 2, and log 2 + (1 + log(2 pi)) / 2
    assert float(gaussian.log_prob(x, mean, scale)) == pytest.approx(
        -1.7370857, abs=1e-6
    )
    assert float(gaussian.entropy(scale)) == pytest.approx(2.1120857, abs=1e-6)


def test_a_squashed_density_in_literal_numbers():
    """At u = 1: log N(1; 0, 1) = -1.4189385 and log(1 - tanh(1)^2) = -0.8675617."""
    x = jnp.tanh(jnp.float32(1.0))

    density = gaussian.squashed_log_prob(x, jnp.float32(0.0), jnp.float32(1.0))

    assert float(density) == pytest.approx(-1.4189385 + 0.8675617, abs=1e-5)


@pytest.mark.parametrize("law", LAWS)
def test_a_squashed_density_integrates_to_one(law):
    x = jnp.tanh(jnp.linspace(-6.5, 6.5, 20_001))

    density = jnp.exp(gaussian.squashed_log_prob(x, *laws_of(law, x.shape)))

    # Less than 1e-3 of these laws lies beyond u = 6.5.
    assert integral(density, x) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("law", LAWS)
def test_a_squashed_entropy_is_that_of_the_density(law):
    mean, scale = law
    u = np.linspace(mean - 8 * scale, mean + 8 * scale, 20_001)
    density = np.exp(-0.5 * ((u - mean) / scale) ** 2) / (scale * np.sqrt(2 * np.pi))
    slope = 2 * (np.log(2) - u - np.logaddexp(0, -2 * u))
    expected = integral(-density * (np.log(density) - slope), u)

    got = gaussian.squashed_entropy(*laws_of(law, ()))

    assert float(got) == pytest.approx(expected, abs=1e-3)


def test_a_wide_squashed_entropy_is_near():
    """Scale 3: the entropy of tanh(u) by the trapezoid rule is -1.0957."""
    u = np.linspace(-30, 30, 40_001)
    density = np.exp(-0.5 * (u / 3) ** 2) / (3 * np.sqrt(2 * np.pi))
    slope = 2 * (np.log(2) - u - np.logaddexp(0, -2 * u))
    expected = integral(-density * (np.log(density) - slope), u)

    got = gaussian.squashed_entropy(jnp.float32(0.0), jnp.float32(3.0))

    assert float(got) == pytest.approx(expected, abs=3e-2)


@pytest.mark.parametrize("law", LAWS)
def test_a_clipped_density_and_the_probability_at_its_bounds_sum_to_one(law):
    x = jnp.linspace(-1.0, 1.0, 20_001)
    low, high = -jnp.ones(x.shape), jnp.ones(x.shape)

    likelihood = jnp.exp(
        gaussian.clipped_log_prob(x, *laws_of(law, x.shape), low, high)
    )

    between = integral(likelihood[1:-1], x[1:-1])
    assert between + float(likelihood[0] + likelihood[-1]) == pytest.approx(1, abs=1e-3)


def test_the_gradient_at_a_bound_is_the_mean_over_what_was_clipped_to_it():
    """d log P(x <= -1) / d mean = E[(x - mean) / scale^2 | x <= -1]."""
    mean, scale = 0.3, 0.8
    x = np.linspace(-9.0, -1.0, 20_001)
    density = np.exp(-0.5 * ((x - mean) / scale) ** 2)
    expected = integral(density * (x - mean) / scale**2, x) / integral(density, x)

    gradient = jax.grad(gaussian.clipped_log_prob, argnums=1)(
        *(jnp.float32(v) for v in (-1.0, mean, scale, -1.0, 1.0))
    )

    assert float(gradient) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("x", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("mean", [-40.0, 0.0, 40.0])
def test_far_tails_have_finite_densities_and_gradients(x, mean):
    def all_of(mean, scale):
        point, one = jnp.float32(x), jnp.float32(1.0)
        return jnp.stack(
            [
                gaussian.squashed_log_prob(point, mean, scale),
                gaussian.clipped_log_prob(point, mean, scale, -one, one),
                gaussian.squashed_entropy(mean, scale),
            ]
        )

    law = jnp.float32(mean), jnp.float32(0.1)

    assert np.isfinite(all_of(*law)).all()
    assert np.isfinite(jax.jacobian(all_of, argnums=(0, 1))(*law)).all()


@pytest.mark.parametrize(
    ("u", "expected"), [(0.0, 0.0), (100.0, -198.6137), (-100.0, -198.6137)]
)
def test_the_slope_of_tanh_has_a_logarithm_everywhere(u, expected):
    assert float(gaussian.log_slope(jnp.float32(u))) == pytest.approx(
        expected, abs=1e-3
    )
