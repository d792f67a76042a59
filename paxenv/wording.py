"""Numbers of things, in words."""


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
