"""Numbers that are missing, on their way out of a compiled program.

A metric of nothing, such as the mean return where no episode has ended, is NaN to who
reads it. JAX's flag `jax_debug_nans` stops at any NaN that a program returns, so what
is missing leaves a program as a 0 and a flag, and becomes NaN on the host: the flag
then stops at NaN in what is learnt alone.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Flagged(NamedTuple):
    """Numbers, and whether each of them is missing.

    Attributes:
        values: 0 where they are missing.
        missing: Of the same shape.
    """

    values: jax.Array
    missing: jax.Array


def flagged(rows: dict[str, jax.Array]) -> dict[str, Flagged]:
    """Returns rows without NaN, as a compiled program returns them."""
    return {
        name: Flagged(jnp.where(jnp.isnan(x), 0, x), jnp.isnan(x))
        for name, x in rows.items()
    }


def on_host(rows: dict[str, Flagged]) -> dict[str, np.ndarray]:
    """Returns rows on the host, with NaN where a number is missing."""
    return {
        name: np.where(x.missing, np.asarray(np.nan, x.values.dtype), x.values)
        for name, x in rows.items()
    }
