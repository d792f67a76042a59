"""Numbers of a game: a pytree that can be vmapped, sampled and differentiated."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct


class GameParams(struct.PyTreeNode):
    """The base of every game's `EnvParams`.

    Construction turns lists, tuples, NumPy arrays and Python floats into JAX arrays
    of JAX's default float. Whole numbers and `None` pass as they are, so that the
    same class holds the axes that `jax.vmap` asks for.

    Attributes:
        continuation_prob: Probability in [0, 1] that an inner episode goes on after
            a step; read only by games built with `random_ends=True`.
    """

    continuation_prob: jax.Array = struct.field(default=0.96, kw_only=True)  # type: ignore

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            object.__setattr__(self, field.name, as_array(value))


def as_array(value: object) -> object:
    """Returns numbers as a JAX array of the default float, and the rest unchanged."""
    if isinstance(value, list | tuple | np.ndarray | np.floating | float):
        return jnp.asarray(value, dtype=jnp.result_type(float))
    return value


def as_floats(value: Any) -> jax.Array:
    """Returns numbers as a JAX array of floats; floats keep their dtype."""
    array = jnp.asarray(as_array(value))
    return array.astype(jnp.result_type(array, float))


def probability(name: str, value: float) -> float:
    """Returns a probability as a float.

    Raises:
        ValueError: If it is not a number in [0, 1]; the message says which one.
    """
    if isinstance(value, bool) or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{name} must be a probability in [0, 1], got {value!r}")
    return float(value)
