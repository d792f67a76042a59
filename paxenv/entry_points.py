"""Games and agents of other packages, found by their entry points, imported at make.

A distribution offers them in its `pyproject.toml`:

    [project.entry-points."paxenv.envs"]
    "theirs/Game-v0" = "theirs.game:make"      # make(**kwargs) -> (env, params)

    [project.entry-points."paxenv_agents.agents"]
    TheirBot = "theirs.agent:TheirBot"         # has from_env(env, *, player, **options)
"""

import dataclasses
import re
from collections.abc import Callable
from importlib import metadata

from paxenv import registry

GROUPS = {"game": "paxenv.envs", "agent": "paxenv_agents.agents"}

_ENTRY_POINT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_GAME_ID = re.compile(r"([A-Za-z0-9_]+)/[A-Za-z0-9_.:-]+-v\d+")
_AGENT_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True)
class Plugin:
    """One game or agent that an installed distribution offers.

    Attributes:
        name: The game's id or the agent's name.
        kind: `"game"` or `"agent"`.
        distribution: The distribution that offers it.
        version: That distribution's version.
        entry_point: `"module:function"` or `"module:Class"`.
        refused: Why it was not registered; empty if it was.
    """

    name: str
    kind: str
    distribution: str
    version: str
    entry_point: str
    refused: str = ""


class RefusedError(ValueError):
    """A plugin that is not registered; the message says why."""


_FOUND: dict[str, tuple[Plugin, ...]] = {}


def plugins() -> tuple[Plugin, ...]:
    """Returns what installed distributions offer, registered or refused.

    Importing nothing of theirs, it lists games first, then agents.
    """
    # Agents are registered by the package above this one.
    registry.import_agents()
    return tuple(plugin for kind in GROUPS for plugin in _FOUND.get(kind, ()))


def discover(kind: str, add: Callable[[Plugin], None]) -> None:
    """Registers all plugins of one kind; a broken one is refused and breaks nothing.

    Args:
        kind: A key of `GROUPS`.
        add: Called with each; raises RefusedError to refuse it.
    """
    found = []
    for plugin in _offers(kind):
        if not plugin.refused:
            try:
                add(plugin)
            except RefusedError as error:
                plugin = dataclasses.replace(plugin, refused=str(error))
        found.append(plugin)
    _FOUND[kind] = tuple(found)


def add_game(plugin: Plugin) -> None:
    """Registers a plugin's game.

    Raises:
        RefusedError: If the id is malformed, taken, or in our own namespace.
    """
    name, entry_point = plugin.name, plugin.entry_point
    _check_entry_point(entry_point)
    match = _GAME_ID.fullmatch(name)
    if match is None:
        raise RefusedError(f"the id {name!r} is not of the form 'namespace/Name-v0'")
    if match.group(1) == registry.NAMESPACE:
        raise RefusedError(f"the namespace {registry.NAMESPACE!r} is reserved")
    if name in registry.games():
        raise RefusedError(f"the id {name!r} is taken by another distribution")
    registry.register(
        registry.GameSpec(name, entry_point, distribution=plugin.distribution)
    )


def check_agent_name(name: str, entry_point: str, taken: Callable[[str], bool]) -> None:
    """Raises RefusedError if a plugin's agent cannot be registered under its name."""
    _check_entry_point(entry_point)
    if _AGENT_NAME.fullmatch(name) is None:
        raise RefusedError(f"the name {name!r} is not a Python identifier")
    if taken(name):
        raise RefusedError(f"the name {name!r} is taken by another agent")


def _check_entry_point(entry_point: str) -> None:
    if _ENTRY_POINT.fullmatch(entry_point) is None:
        raise RefusedError(f"{entry_point!r} is not of the form 'module:attribute'")


def _offers(kind: str) -> list[Plugin]:
    """Returns what each distribution offers of one kind, in alphabetical order."""
    offers: dict[str, list[Plugin]] = {}
    for distribution in metadata.distributions():
        if f"[{GROUPS[kind]}]" in _entry_points_text(distribution):
            plugins = _offers_of(distribution, kind)
            # Of two installed copies of a distribution the first on the path counts.
            offers.setdefault(plugins[0].distribution, plugins)
    return [plugin for name in sorted(offers) for plugin in offers[name]]


def _offers_of(distribution: metadata.Distribution, kind: str) -> list[Plugin]:
    name, version = "unknown", "unknown"
    # The metadata of other people's packages can be broken in any way at all.
    try:
        name, version = str(distribution.metadata["Name"]), str(distribution.version)
        points = list(distribution.entry_points.select(group=GROUPS[kind]))
    except Exception as error:
        reason = f"its metadata cannot be read: {type(error).__name__}: {error}"
        return [Plugin("", kind, name, version, "", refused=reason)]
    if not points:
        reason = f"its section [{GROUPS[kind]}] is empty"
        return [Plugin("", kind, name, version, "", refused=reason)]
    return [Plugin(point.name, kind, name, version, point.value) for point in points]


def _entry_points_text(distribution: metadata.Distribution) -> str:
    try:
        return distribution.read_text("entry_points.txt") or ""
    except Exception:
        return ""
