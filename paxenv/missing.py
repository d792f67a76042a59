"""Numbers that are missing, on their way out of a compiled program.

A metric without data, such as the mean return where no episode has ended, is reported
as NaN. JAX's option `jax_debug_nans` stops at any NaN that a program returns, so a
missing number leaves a program as a 0 and a flag, and becomes NaN outside: the option
then stops only at a NaN in play or in learning.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import core
from jaxtyping import Array, Bool, Float, PyTree


class Flagged(NamedTuple):
    """Numbers, and whether each of them is missing.

    Attributes:
        values: 0 where they are missing.
        missing: Of the same shape.
    """

    values: Float[Array, "*shape"]
    missing: Bool[Array, "*shape"]


def flagged(tree: PyTree) -> PyTree:
    """Returns a pytree without NaN: each of its floats is `Flagged`."""

    def leaf(x: jax.Array) -> Any:
        if not jnp.issubdtype(jnp.result_type(x), jnp.inexact):
            return x
        absent = jnp.isnan(x)
        return Flagged(jnp.where(absent, 0, x), absent)

    return jax.tree.map(leaf, tree)


def restored(tree: PyTree) -> PyTree:
    """Returns what was flagged, with NaN where a number is missing; inside programs."""

    def leaf(x: Any) -> Any:
        return jnp.where(x.missing, jnp.nan, x.values) if _is_flagged(x) else x

    return jax.tree.map(leaf, tree, is_leaf=_is_flagged)


def on_host(tree: PyTree) -> PyTree:
    """Returns what was flagged, in NumPy, with NaN where a number is missing."""

    def leaf(x: Any) -> np.ndarray:
        if not _is_flagged(x):
            return np.asarray(x)
        return np.where(x.missing, np.asarray(np.nan, x.values.dtype), x.values)

    return jax.tree.map(leaf, tree, is_leaf=_is_flagged)


def on_device(tree: PyTree) -> PyTree:
    """Returns what was flagged, on the device, with NaN where a number is missing."""
    if any(isinstance(x, core.Tracer) for x in jax.tree.leaves(tree)):
        return restored(tree)
    # What a program found to be missing is no fault at which the flag has to stop.
    with jax.debug_nans(False):
        return _restored(tree)


_restored = jax.jit(restored)


def stops_at_nan() -> bool:
    """Returns whether JAX stops at a NaN that a program returns."""
    config: Any = jax.config
    return config.jax_debug_nans


def _is_flagged(x: Any) -> bool:
    return isinstance(x, Flagged)
