"""Numbers of a game: a pytree that can be vmapped, sampled and differentiated."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float

from paxenv.options import PROBABILITY, check_keywords, keywords_of
from paxenv.registry import unknown_option

Params = TypeVar("Params", bound="GameParams")


class GameParams(struct.PyTreeNode):
    """The base of every game's `EnvParams`.

    Construction turns lists, tuples, NumPy arrays and Python floats into JAX arrays
    of JAX's default float. Whole numbers and `None` pass as they are, so that the
    same class holds the axes that `jax.vmap` asks for.

    Attributes:
        continuation_prob: Probability in [0, 1] that an inner episode goes on after
            a step; read only by games built with `random_ends=True`.
    """

    continuation_prob: Annotated[Float[Array, ""], PROBABILITY] = struct.field(  # type: ignore
        default=0.96, kw_only=True
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            object.__setattr__(self, field.name, as_array(value))


def as_array(value: object) -> object:
    """Returns numbers as a JAX array of the default float, and the rest unchanged."""
    if isinstance(value, list | tuple | np.ndarray | np.floating | float):
        return jnp.asarray(value, dtype=jnp.result_type(float))
    return value


def as_floats(value: Any) -> Float[Array, "..."]:
    """Returns numbers as a JAX array of floats; floats keep their dtype."""
    array = jnp.asarray(as_array(value))
    return array.astype(jnp.result_type(array, float))


def from_numbers(kind: type[Params], numbers: Mapping[str, Any]) -> Params:
    """Returns params with the given numbers, and the defaults of the rest.

    Args:
        kind: The class of the params.
        numbers: Values by field name; whole numbers are taken as floats.

    Raises:
        UnknownOptionError: If a name is no field of `kind`.
        OptionError: If one is no finite number, or a probability is out of range.
    """
    known = [field.name for field in dataclasses.fields(kind)]
    for name in numbers:
        if name not in known:
            raise unknown_option(kind.__name__, name, known)
    check_keywords(keywords_of(kind), numbers)
    return kind(**{name: as_floats(value) for name, value in numbers.items()})
