"""Rows of small tables, chosen by one-hot vectors: a product, whose gradient is one."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def look_up(
    one_hot: Float[Array, "*batch S"], table: Float[Array, "S ..."]
) -> Float[Array, "..."]:
    """Returns rows `[..., *row]` of a table `[S, *row]`, `*row` of at most one axis.

    Args:
        one_hot: Float `[..., S]`.
        table: `[S]` or `[S, N]`; every number of it finite.
    """
    # Full precision: on accelerators a product may otherwise round the table.
    return jnp.matmul(one_hot, table, precision=jax.lax.Precision.HIGHEST)
