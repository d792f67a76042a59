"""Whole numbers that a user gives."""


def count(name: str, value: object, least: int = 1) -> int:
    """Returns a whole number.

    Raises:
        ValueError: If it is not one, or below `least`; the message says which.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return value
