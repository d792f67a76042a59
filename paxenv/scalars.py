"""Numbers as callers have them: of Python, NumPy or JAX, and `1e5` for 100000.

Frozen dataclasses of options call `settle` first when they are made, so all of them
take the same numbers, and whoever reads them finds Python's own.
"""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Returns a scalar of NumPy or JAX as Python's number or bool, others unchanged."""
    if isinstance(value, bool | int | float | str | bytes | type(None)):
        # A float64 of NumPy is a float of Python, of another type.
        return float(value) if isinstance(value, np.floating) else value
    is_array = hasattr(value, "dtype") and getattr(value, "shape", None) == ()
    if is_array and getattr(value.dtype, "kind", "") in "biuf":
        return value.item()
    return value


def whole(value: Any) -> Any:
    """Returns a whole number of any type as an int, everything else unchanged.

    Example:
        >>> whole(1e5), whole(2.5), whole(True)
        (100000, 2.5, True)
    """
    number = plain(value)
    if isinstance(number, float) and math.isfinite(number) and number == int(number):
        return int(number)
    return number


def settle(config: object) -> None:
    """Makes the numbers of a frozen dataclass Python's own, by its annotations.

    Fields of whole numbers take any number that is whole; so do tuples of them. What is
    none is left as it is, for the checks that follow.

    Args:
        config: The dataclass, in its `__post_init__`.
    """
    for name, read in _readers(type(config)).items():
        value = getattr(config, name)
        settled = read(value)
        if settled is not value:
            object.__setattr__(config, name, settled)


@functools.cache
def _readers(kind: type) -> dict[str, Callable[[Any], Any]]:
    """Returns how each field of numbers is read."""
    try:
        hints = typing.get_type_hints(kind)
    except (NameError, TypeError):  # Names that only a type checker knows.
        hints = {f.name: f.type for f in dataclasses.fields(kind)}
    found = {f.name: _reader(hints[f.name]) for f in dataclasses.fields(kind)}
    return {name: read for name, read in found.items() if read is not None}


def _reader(hint: Any) -> Callable[[Any], Any] | None:
    """Returns how a value of a type is read, None if it is not about numbers."""
    members = (hint,)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        members = typing.get_args(hint)
    if any(
        typing.get_origin(m) is tuple and int in typing.get_args(m) for m in members
    ):
        return _whole_ones
    if float in members or bool in members:
        return plain
    return whole if int in members else None


def _whole_ones(value: Any) -> Any:
    """Returns a sequence with its whole numbers as ints."""
    if isinstance(value, np.ndarray):
        value = tuple(value.tolist())
    if not isinstance(value, tuple | list):
        return value
    settled = type(value)(map(whole, value))
    same = all(a is b for a, b in zip(settled, value, strict=True))
    return value if same else settled
