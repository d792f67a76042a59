"""Names and values of options that are wrong, and what may have been meant."""

import difflib
from collections.abc import Iterable

MAX_SUGGESTIONS = 3
#: Of its letters a name has so many in common with one that it resembles.
MOST = 0.6
#: What other libraries call an option of ours, which no spelling would suggest.
SYNONYMS = {
    "max_episode_steps": "num_inner_steps",
    "max_steps_in_episode": "num_inner_steps",
    "max_cycles": "num_inner_steps",
    "num_steps": "num_inner_steps",
    "episode_length": "num_inner_steps",
    "lr": "learning_rate",
}


class UnknownOptionError(TypeError, ValueError):
    """A keyword that a game or an agent does not take; the message names the nearest.

    It is a `TypeError` as an unknown keyword of any Python function, since callers try
    keywords and read the message (TorchRL tries `frameskip`), and a `ValueError` as
    every other setting that is refused.

    Attributes:
        option: The keyword.
    """

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option


class OptionError(ValueError):
    """An option of a game with a value that it cannot have; the message names it.

    Attributes:
        option: Its name.
    """

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option


def closest(name: str, known: list[str]) -> list[str]:
    """Returns up to three known names that resemble `name` or mean it, best first."""
    folded = {k.lower(): k for k in known}
    matches = difflib.get_close_matches(
        name.lower(), folded, n=MAX_SUGGESTIONS, cutoff=MOST
    )
    meant = [SYNONYMS[name]] if SYNONYMS.get(name) in known else []
    return list(dict.fromkeys([*meant, *(folded[m] for m in matches)]))[
        :MAX_SUGGESTIONS
    ]


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown name."""
    near = closest(name, list(known))
    return f"; did you mean {near[0]!r}?" if near else "."


def unknown_option(whose: str, name: str, known: Iterable[str]) -> UnknownOptionError:
    """Returns the error of a keyword that is no option, with those that are."""
    options = list(known)
    return UnknownOptionError(
        f"{whose} has no option {name!r} (unexpected keyword argument {name!r})"
        f"{suggestion(name, options)} Its options: {', '.join(options) or 'none'}",
        name,
    )
