"""`KEY=VALUE` of the command line, with the leading `+` or `++` of Hydra allowed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from runners.config.coerce import hashable
from runners.config.documents import parse
from runners.config.layers import ALIASES, normalise, text_field
from runners.config.merging import QUICK
from runners.config.schema import ConfigError
from runners.config.settings import Layer, Origin, plain


class Overrides(NamedTuple):
    """What the words after a command mean.

    Attributes:
        experiment: The stored experiment that they choose, or None.
        layers: One layer for each `KEY=VALUE`, in order.
    """

    experiment: str | None
    layers: tuple[Layer, ...]


def parse_words(words: Sequence[str]) -> Overrides:
    """Returns the meaning of `[EXPERIMENT] [KEY=VALUE ...]`.

    `experiment=ipd/ppo` and `experiment/ipd=ppo` choose an experiment too.

    Raises:
        ConfigError: If a word is malformed, or two experiments are chosen.
    """
    chosen: list[str] = []
    layers: list[Layer] = []
    for word in words:
        bare = word.lstrip("+")
        key, equals, value = bare.partition("=")
        key = key.strip()
        if word.startswith("~"):
            raise ConfigError(f"{word!r}: settings cannot be removed, only changed")
        if not equals:
            chosen.append(bare)
        elif key == "experiment":
            chosen.append(value)
        elif key.startswith("experiment/"):
            chosen.append(f"{key.removeprefix('experiment/')}/{value}")
        else:
            layers.append(_layer(key, value, word))
    if len(chosen) > 1:
        raise ConfigError(
            f"one experiment at a time, got {' and '.join(chosen)}; settings are "
            "written KEY=VALUE"
        )
    return Overrides(chosen[0] if chosen else None, tuple(layers))


def split_words(text: str) -> list[str]:
    """Returns the words of one text, as a shell would, but for brackets.

    `agent2={name: Naive, reset: trial} seed=3` are two words: spaces within brackets
    belong to a value, and quotes there to its YAML.

    Raises:
        ConfigError: If a bracket or a quote is not closed.
    """
    words: list[str] = []
    word, quote, depth = "", "", 0
    begun = False
    for sign in text:
        if sign.isspace() and not quote and not depth:
            words += [word] if begun else []
            word, begun = "", False
            continue
        begun = True
        outside = not depth
        if quote:
            quote = "" if sign == quote else quote
            marks = sign in "\"'" and not quote
        elif sign in "\"'":
            quote, marks = sign, True
        else:
            marks = False
            depth += (sign in "[{(") - (sign in "]})")
        if not (marks and outside):
            word += sign
    if quote or depth:
        what = f"the quote {quote}" if quote else "a bracket"
        raise ConfigError(f"{text!r}: {what} is not closed")
    return [*words, word] if begun else words


def game_options(words: Sequence[str]) -> dict[str, Any]:
    """Returns options of a game from `KEY=VALUE` words, such as `num_inner_steps=10`.

    Raises:
        ConfigError: If a word is not of that form.
    """
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.lstrip("+").partition("=")
        if not equals:
            raise ConfigError(f"{word!r}: options of a game are written KEY=VALUE")
        path = f"env.{key.strip().removeprefix('env.')}"
        options |= plain(_layer(path, value, word)["env"])
    return hashable(options)


def _layer(key: str, text: str, word: str) -> Layer:
    path = tuple(key.split("."))
    if not all(path):
        raise ConfigError(f"{word!r}: expected KEY=VALUE, such as agent1.gamma=0.96")
    full = ALIASES.get(path[0], (path[0],)) + path[1:]
    value: Any = text if text_field(full) else parse(text, repr(word))
    if text == "null" and full[-1] not in ("payoff", "payoff_matrix"):
        value = None
    nested: Any = value
    for part in reversed(path[1:]):
        nested = {part: nested}
    if path[0] == QUICK and isinstance(nested, dict):
        raise ConfigError(f"{word!r}: quick is true or false; write what it is to hold")
    return normalise({path[0]: nested}, Origin("word", repr(word)))
