"""Statistics of play: what is summed over games, and what one reads off the sums."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int


class Accumulator(struct.PyTreeNode):
    """Running statistics of one game.

    Attributes:
        totals: Counts and sums, a pytree of int32 or float arrays. Adding the totals
            of several games gives the totals of all of them.
        carry: What the game must remember from step to step; never summed.
    """

    totals: Any
    carry: Any = ()


def welfare(returns: Float[Array, "... players"]) -> Float[Array, "..."]:
    """Returns the sum over players of their episode returns."""
    return jnp.sum(returns, axis=-1)


def equality(returns: Float[Array, "... players"]) -> Float[Array, "..."]:
    """Returns 1 - sum_ij |R_i - R_j| / (2 N sum_i |R_i|); 1 when all returns are 0.

    1 is perfect equality. With returns of one sign it is 1 minus the Gini index.

    Source: Perolat et al., A multi-agent reinforcement learning model of common-pool
    resource appropriation (2017), section 2.3, with the absolute value in the
    denominator so that negative returns have a meaning too.
    """
    num_players = returns.shape[-1]
    gaps = jnp.abs(returns[..., :, None] - returns[..., None, :]).sum((-2, -1))
    scale = 2 * num_players * jnp.abs(returns).sum(-1)
    return 1.0 - jnp.where(scale > 0, gaps / jnp.where(scale > 0, scale, 1.0), 0.0)


def rate(count: Int[Array, "*shape"], of: Int[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Returns count / of, and NaN where nothing was counted."""
    return jnp.where(of > 0, count / jnp.maximum(of, 1), jnp.nan)


def count_by_state(
    num_states: int, state: jax.Array, hit: jax.Array, valid: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns int32 (visits, hits) of one step: one-hot counts over the states."""
    visits = ((jnp.arange(num_states) == state) & valid).astype(jnp.int32)
    return visits, visits * hit.astype(jnp.int32)
