"""Whole numbers that a user gives."""

from typing import Any

from paxenv import scalars


def count(name: str, value: Any, least: int = 1) -> int:
    """Returns a whole number, given in any numeric type, as an int.

    Raises:
        ValueError: If it is not one, or below `least`; the message says which.
    """
    number = scalars.whole(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return number
