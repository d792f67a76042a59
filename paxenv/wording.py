"""How many of something, in words, and lists that a message can hold."""

import itertools
from collections.abc import Iterable, Sequence

#: Most entries that one message names.
MOST_NAMED = 8
#: Fewest equal neighbours that are written as one.
FEWEST_GROUPED = 4


def counted(number: int, what: str) -> str:
    """Returns a number of things in words: `1 game`, `8 games`, `12,000 steps`.

    Args:
        number: How many.
        what: One of them; its last word takes a plural on -s, -es or -ies.
    """
    return f"{number:,} {what if number == 1 else plural(what)}"


def plural(what: str) -> str:
    """Returns the plural of a thing: games, matches, entries."""
    if what.endswith(("s", "x", "ch", "sh")):
        return f"{what}es"
    if what.endswith("y") and what[-2:-1] not in tuple("aeiou"):
        return f"{what[:-1]}ies"
    return f"{what}s"


def listed(entries: Iterable[object]) -> str:
    """Returns the first eight entries, `a; b; c`, and how many more there are."""
    every = [str(entry) for entry in entries]
    more = len(every) - MOST_NAMED
    rest = [f"and {more} more"] if more > 0 else []
    return "; ".join([*every[:MOST_NAMED], *rest])


def grouped(names: Sequence[str]) -> list[str]:
    """Returns names in which four or more equal neighbours are one, as `4xPPO`."""
    runs = [(name, len(list(same))) for name, same in itertools.groupby(names)]
    return [
        word
        for name, n in runs
        for word in ([f"{n}x{name}"] if n >= FEWEST_GROUPED else [name] * n)
    ]
