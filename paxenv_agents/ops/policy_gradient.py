"""Objectives of policy-gradient learners, and means over valid steps."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

Scalar = float | Float[Array, ""]

#: Beyond it a ratio of probabilities says nothing and its exponential overflows.
MAX_LOG_RATIO = 20.0
#: Spread, relative to size, below which numbers of float32 are equal but for noise.
NOISE = 1e-5


def weighted_mean(
    x: Float[Array, "*shape"], weights: Float[Array, "*shape"]
) -> Float[Array, ""]:
    """Returns the mean of `x` under weights of at least 0, and 0 if all are 0."""
    return jnp.sum(x * weights) / jnp.maximum(jnp.sum(weights), 1.0)


def normalise(
    x: Float[Array, "*shape"], weights: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """Returns `x` with mean 0 and standard deviation 1 over the steps of weight 1.

    A single step is returned as it is, and numbers that differ by rounding alone are
    only centred, so that neither a batch of one nor a constant reward makes noise into
    a gradient.
    """
    mean = weighted_mean(x, weights)
    std = jnp.sqrt(weighted_mean(jnp.square(x - mean), weights))
    size = jnp.sqrt(weighted_mean(jnp.square(x), weights))
    spread = std > NOISE * size
    normalised = jnp.where(spread, (x - mean) / jnp.where(spread, std, 1.0), 0.0)
    return jnp.where(jnp.sum(weights) > 1, normalised, x)


def importance_ratio(
    log_probs: Float[Array, "*shape"], behavior_log_probs: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """Returns pi(a) / behaviour(a), kept within exp(-20) and exp(20)."""
    log_ratio = log_probs - behavior_log_probs
    return jnp.exp(jnp.clip(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO))


def clipped_surrogate(
    ratio: Float[Array, "*shape"], advantages: Float[Array, "*shape"], epsilon: Scalar
) -> Float[Array, "*shape"]:
    """Returns min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A), to be maximised.

    Source: Schulman et al., Proximal Policy Optimization Algorithms (2017), eq. 7.
    """
    clipped = jnp.clip(ratio, 1.0 - epsilon, 1.0 + epsilon)
    return jnp.minimum(ratio * advantages, clipped * advantages)


def clipped_squared_error(
    values: Float[Array, "*shape"],
    behavior_values: Float[Array, "*shape"],
    targets: Float[Array, "*shape"],
    epsilon: Scalar,
) -> Float[Array, "*shape"]:
    """Returns the larger of two squared errors: the value's, and that of the value
    held within `epsilon` of what it was when the step was taken.
    """
    change = jnp.clip(values - behavior_values, -epsilon, epsilon)
    held = behavior_values + change
    return jnp.maximum(jnp.square(targets - values), jnp.square(targets - held))


def kl_estimate(ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Returns (ratio - 1) - log(ratio), whose mean is KL(behaviour, pi); never < 0.

    Source: Schulman, Approximating KL Divergence (2020), estimator k3.
    """
    return ratio - 1.0 - jnp.log(ratio)


def explained_variance(
    values: Float[Array, "*shape"],
    targets: Float[Array, "*shape"],
    weights: Float[Array, "*shape"],
) -> Float[Array, ""]:
    """Returns 1 - Var(targets - values) / Var(targets); 0 if the targets are equal."""

    def variance(x):
        return weighted_mean(jnp.square(x - weighted_mean(x, weights)), weights)

    total = variance(targets)
    left = variance(targets - values) / jnp.where(total > 0, total, 1.0)
    return jnp.where(total > 0, 1.0 - left, 0.0)


def global_norm(tree: PyTree) -> Float[Array, ""]:
    """Returns the Euclidean length of all leaves of a pytree taken as one vector."""
    squares = [jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)]
    return jnp.sqrt(jnp.sum(jnp.stack(squares)))
