"""Whole numbers: as a user gives them, and as a sentence names them."""


def count(name: str, value: object, least: int = 1) -> int:
    """Returns a whole number.

    Raises:
        ValueError: If it is not one, or below `least`; the message says which.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return value


def counted(number: int, what: str) -> str:
    """Returns a number of things in words: `1 game`, `8 games`, `12,000 steps`.

    Args:
        number: How many.
        what: One of them, whose last word takes a plural on -s or -es, or on -ies.
    """
    return f"{number:,} {what if number == 1 else plural(what)}"


def plural(what: str) -> str:
    """Returns the plural of a thing: games, matches, entries."""
    if what.endswith(("s", "x", "ch", "sh")):
        return f"{what}es"
    if what.endswith("y") and what[-2:-1] not in tuple("aeiou"):
        return f"{what[:-1]}ies"
    return f"{what}s"
