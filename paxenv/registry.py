"""Names of games: ids are strings until a game is made, so importing starts no JAX."""

import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from paxenv import platforms
from paxenv.suggestions import (
    MAX_SUGGESTIONS,
    OptionError,
    closest,
    unknown_option,
)
from paxenv.suggestions import (
    UnknownOptionError as UnknownOptionError,
)

NAMESPACE = "pax"


@dataclasses.dataclass(frozen=True)
class GameSpec:
    """One registered game.

    Attributes:
        id: Full id, such as `"pax/IPD-v0"`.
        entry_point: `"module:function"`, where `function(**kwargs) -> (env, params)`.
        kwargs: Keywords that the id stands for; the caller's win.
        opponent: The name of the co-player that single-agent adapters seat unless
            told otherwise; empty for games of one player.
        summary: One line for lists.
        distribution: Of a plugin, the distribution that offers it.
    """

    id: str
    entry_point: str
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    opponent: str = "Random"
    summary: str = ""
    distribution: str = ""

    def load(self) -> Callable[..., tuple[Any, Any]]:
        """Imports and returns the game's make function.

        Raises:
            PluginError: If another distribution offers it, and it does not load.
        """
        whose = f"the game {self.id!r}"
        return loaded(self.entry_point, whose, self.distribution)


class UnknownGameError(ValueError):
    """An id that names no game; the message lists the closest ones."""


class PluginError(ImportError, ValueError):
    """A game or an agent of another distribution that does not load.

    The message names it, its distribution and the reason.

    Attributes:
        reason: Why it does not load.
    """

    def __init__(self, whose: str, distribution: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{whose} of the distribution {distribution!r} does not load: {reason}"
        )


_GAMES: dict[str, GameSpec] = {}


def import_agents(module: str = "") -> ModuleType:
    """Returns `paxenv_agents` or a module of it.

    Agents lie above games. Adapters that seat agents get them here, when they need
    them, and nowhere else.
    """
    return importlib.import_module(f"paxenv_agents.{module}".rstrip("."))


def loaded(
    entry_point: str, whose: str, distribution: str = "", method: str = "__call__"
) -> Any:
    """Imports and returns what an entry point names.

    Args:
        entry_point: `"module:attribute"`.
        whose: What is loaded, for messages.
        distribution: The distribution that offers it; empty for our own.
        method: What it must have.

    Raises:
        PluginError: If what another distribution offers cannot be imported, or is
            nothing of this kind.
    """
    module, _, attribute = entry_point.partition(":")
    try:
        found = functools.reduce(
            getattr, attribute.split("."), importlib.import_module(module)
        )
    except Exception as error:
        # Somebody else's code may raise anything.
        if not distribution:
            raise
        reason = f"{type(error).__name__}: {error}"
        raise PluginError(whose, distribution, reason) from error
    if distribution and not callable(getattr(found, method, None)):
        needed = "cannot be called" if method == "__call__" else f"has no {method}"
        reason = f"{entry_point} is {found!r}, which {needed}"
        raise PluginError(whose, distribution, reason)
    return found


def register(spec: GameSpec) -> None:
    """Adds a game, replacing one of the same id."""
    _GAMES[spec.id] = spec


def games() -> dict[str, GameSpec]:
    """Returns every registered game by full id, in alphabetical order."""
    return dict(sorted(_GAMES.items()))


def find(id: str) -> GameSpec:
    """Returns the game that an id means.

    `"IPD"`, `"IPD-v0"` and `"pax/IPD-v0"` mean the same; without a version the
    newest is meant.

    Raises:
        UnknownGameError: If no game has this id; names the closest ones.
    """
    full = id if "/" in id else f"{NAMESPACE}/{id}"
    if full in _GAMES:
        return _GAMES[full]
    versions = [known for known in _GAMES if _without_version(known) == full]
    if versions:
        return _GAMES[max(versions, key=_version)]
    raise UnknownGameError(f"there is no game {id!r}{_hint(full)}")


def make(id: str, **kwargs: Any) -> tuple[Any, Any]:
    """Makes a game and returns `(env, params)`.

    Args:
        id: A registered id; the version and the namespace `pax/` may be left out.
        **kwargs: Options of the game, such as `num_inner_steps`, `num_outer_steps`,
            `payoff`, `observation`, `random_ends`.

    Raises:
        UnknownGameError: If no game has this id.
        UnknownOptionError: If the game has no such option.
        OptionError: If an option that is a number is given something else.
        ValueError: If an option has a value the game refuses.
        platforms.PlatformError: If JAX cannot start on what `JAX_PLATFORMS` names.

    Example:
        >>> env, params = paxenv.make("IPD", num_inner_steps=10)
    """
    platforms.check()
    spec = find(id)
    function = spec.load()
    merged = {**spec.kwargs, **kwargs}
    _check_options(spec.id, function, merged)
    return _made(function, merged)


def _check_options(id: str, function: Any, options: dict[str, Any]) -> None:
    parameters = inspect.signature(function).parameters.values()
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [
        p.name for p in parameters if p.default is p.empty if p.kind not in several
    ]
    missing = [name for name in needed if name not in options]
    if missing:
        raise ValueError(f"{id} needs {' and '.join(missing)}: give {missing[0]}=VALUE")
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = [p.name for p in parameters]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise unknown_option(id, unknown[0], known)


def _made(function: Callable[..., Any], given: dict[str, Any]) -> tuple[Any, Any]:
    """Returns what a game's function makes of options.

    Raises:
        OptionError: If an option that is a number is given something else, whether the
            function minds or not.
    """
    # Only who makes a game needs it.
    from paxenv import options

    parameters = inspect.signature(function).parameters.values()
    keywords = [(p.name, p.annotation, p.default) for p in parameters]
    options.check_keywords(keywords, given)
    try:
        made = function(**given)
    except (TypeError, ValueError) as error:
        unnamed = {name: x for name, x in given.items() if name not in str(error)}
        options.check_whole_keywords(keywords, unnamed)
        raise
    params = made[1] if isinstance(made, tuple) and len(made) == 2 else None
    if dataclasses.is_dataclass(params):
        options.check_keywords(options.keywords_of(params), given)
        for name in given:
            if isinstance(getattr(params, name, None), str):
                said = f"{name} must be numbers, got {given[name]!r}"
                raise OptionError(said, name)
    return made


def _hint(full: str) -> str:
    shown = [_without_version(id).removeprefix(f"{NAMESPACE}/") for id in _GAMES]
    wanted = _without_version(full).removeprefix(f"{NAMESPACE}/")
    near = [name for name in shown if name.upper() == _initials(wanted)]
    near += closest(wanted, shown)
    near += closest(re.sub("[_-]", "", wanted), shown)
    unique = list(dict.fromkeys(near))[:MAX_SUGGESTIONS]
    hint = f"; did you mean {' or '.join(unique)}?" if unique else ";"
    return f"{hint} `paxrun list envs` shows all games"


def _initials(name: str) -> str:
    words = re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", name)
    return "".join(word[0] for word in words if word).upper()


def _without_version(id: str) -> str:
    return re.sub(r"-v\d+$", "", id)


def _version(id: str) -> int:
    match = re.search(r"-v(\d+)$", id)
    return int(match.group(1)) if match else 0
