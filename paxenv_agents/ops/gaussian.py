"""Normal distributions of single numbers, also squashed or clipped to bounds."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32

LOG_SQRT_2PI = 0.5 * float(np.log(2 * np.pi))
#: A squashed number this near to its bound is taken to be here when it is inverted.
#: Float32 holds no inner number beyond 8.3: tanh rounds to 1.
SQUASH_LIMIT = 1.0 - 1e-6
#: Gauss-Hermite rule for the mean of a function of a standard normal number.
NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def standard_normal(word: UInt32[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Returns a standard normal number for each random word, by the inverse CDF.

    The 24 leading bits of a word choose the middle of one of 2**24 equal shares of
    probability, so the numbers are symmetric about 0 and of size 5.4 at most.
    """
    odd = 2 * (word >> 8).astype(jnp.int32) + 1 - 2**24
    return jnp.sqrt(2.0).astype(jnp.float32) * jax.scipy.special.erfinv(
        odd.astype(jnp.float32) * jnp.float32(2.0**-24)
    )


def log_prob(
    x: Float[Array, "*#shape"],
    mean: Float[Array, "*#shape"],
    scale: Float[Array, "*#shape"],
) -> Float[Array, "*#shape"]:
    """Returns the log-density of `x` under a normal distribution."""
    return -0.5 * jnp.square((x - mean) / scale) - jnp.log(scale) - LOG_SQRT_2PI


def entropy(scale: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Returns the entropy of a normal distribution in nats."""
    return jnp.log(scale) + (0.5 + LOG_SQRT_2PI)


def squashed_log_prob(
    x: Float[Array, "*#shape"],
    mean: Float[Array, "*#shape"],
    scale: Float[Array, "*#shape"],
) -> Float[Array, "*#shape"]:
    """Returns the log-density of `x` = tanh(u) in [-1, 1], where u is normal.

    Source: Haarnoja et al., Soft Actor-Critic (2018), appendix C.
    """
    inner = jnp.arctanh(jnp.clip(x, -SQUASH_LIMIT, SQUASH_LIMIT))
    return log_prob(inner, mean, scale) - log_slope(inner)


def squashed_entropy(
    mean: Float[Array, "*shape"], scale: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """Returns the entropy of tanh(u) in nats, where u is normal.

    That of u plus the mean of `log_slope(u)`, which has no closed form: it is taken by
    a rule of 16 nodes, without a draw, to 1e-3 for scales of up to 1 and to 3e-2 for
    scales of up to 3.
    """
    inner = mean[..., None] + scale[..., None] * NODES.astype(np.float32)
    stretch = jnp.sum(log_slope(inner) * WEIGHTS.astype(np.float32), axis=-1)
    return entropy(scale) + stretch


def clipped_log_prob(
    x: Float[Array, "*#shape"],
    mean: Float[Array, "*#shape"],
    scale: Float[Array, "*#shape"],
    low: Float[Array, "*#shape"],
    high: Float[Array, "*#shape"],
) -> Float[Array, "*#shape"]:
    """Returns the log-likelihood of `x`, a normal number clipped to [low, high].

    The log-density between the bounds, and at a bound the log of all the probability
    that is clipped to it: its gradient is the mean of the gradient over the numbers
    that were clipped, which need not be stored.

    Source: Fujita & Maeda, Clipped Action Policy Gradient (2018), eq. 9.
    """
    below = jax.scipy.special.log_ndtr((low - mean) / scale)
    above = jax.scipy.special.log_ndtr((mean - high) / scale)
    between = log_prob(x, mean, scale)
    return jnp.where(x <= low, below, jnp.where(x >= high, above, between))


def log_slope(u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Returns log(1 - tanh(u)^2), finite for every finite `u`."""
    return 2.0 * (jnp.log(2.0) - u - jax.nn.softplus(-2.0 * u)).astype(u.dtype)
