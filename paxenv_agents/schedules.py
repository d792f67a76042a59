"""Numbers that change over a run as a straight line between two set values."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Scalar = float | Float[Array, ""]


def linear(start: Scalar, end: Scalar, share: Scalar) -> Float[Array, ""]:
    """Returns the value after `share` of the way: `start` at 0, `end` from 1 on.

    Both ends are met exactly, and nothing lies outside them.
    """
    share = jnp.clip(jnp.asarray(share, jnp.float32), 0.0, 1.0)
    return start * (1.0 - share) + end * share


def share_of_steps(step: int | Int[Array, ""], num_steps: Scalar) -> Float[Array, ""]:
    """Returns how far step number `step` (from 0) is: the last of `num_steps` is at 1.

    A plan of a single step stays at 0.
    """
    return jnp.asarray(step, jnp.float32) / jnp.maximum(num_steps - 1, 1)
