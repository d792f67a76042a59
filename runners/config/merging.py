"""Settings, and the merge of layers of them, by the rule of docs/config.md.

A layer holds the settings of one file, one word or one option. The higher of two layers
wins, setting by setting. If an agent or an evolution strategy is replaced by another,
the settings that a stored experiment gave to the former are dropped; settings of the
user stay. If the game, the agents or the runner differ, the description and the
expected results of the lower layer are dropped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from paxenv.registry import UnknownGameError, find
from paxenv.wording import counted
from runners.config.schema import (
    OF_EVERY_AGENT,
    SECTIONS,
    ConfigError,
    EnvConfig,
    ExperimentConfig,
    Origin,
)
from runners.search import strategies
from runners.search.options import SHARED


class Setting(NamedTuple):
    """One value, and the place where it was written."""

    value: Any
    origin: Origin


#: The keys that lead to a setting, such as `("agent1", "gamma")`.
Path = tuple[str, ...]
Layer = dict[Path, Setting]

AGENT_KEY = re.compile(r"^agent([1-9][0-9]*)$")
#: The number of agents in a list. Its entries are settings of `agent1`, `agent2`, ...
NUM_AGENTS: Path = ("agents",)
#: Whether it is only evaluated.
EVAL: Path = ("eval",)
#: Whether the small size is wanted.
QUICK: Path = ("quick",)
NAME: Path = ("name",)
LENGTH: Path = ("total_timesteps",)
#: Other settings of the length of a run.
LENGTHS: tuple[Path, ...] = (
    ("es", "num_generations"),
    ("search", "num_steps_per_iteration"),
)
#: Settings that describe an experiment and its expected results.
CLAIMS = ("description", "expected", "source", "bands")
#: Settings of a game that change its length, not its rules.
SIZES = ("num_inner_steps", "num_outer_steps")
#: Settings of an agent that choose its first weights, not its algorithm.
STARTS = ("model_path", "run_path")
#: Settings of the game that is played, without its agents.
PLAYED = ("env", "payoff_sampler", "shuffle_players")
#: In the name of a run: between its experiment and a word for each change of it.
SIGN = "+"
OTHER_NAME = Origin("default", "the experiment, and what differs from it")


def flat(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yields the settings of nested data with their paths.

    A payoff and a distribution are one value, also where they are written as mappings.
    So is a mapping in the place of a number or a name, which its type refuses.
    """
    if _is_one_value(path) or not isinstance(value, Mapping) or not value:
        yield path, value
        return
    for key, inner in value.items():
        yield from flat(inner, (*path, str(key)))


def _is_one_value(path: Path) -> bool:
    if not path:
        return False
    if not AGENT_KEY.match(path[0]):
        top = len(path) == 1 and path[0] not in SECTIONS
        return top or path in (("env", "id"), ("env", "payoff"))
    own = len(path) == 2 and path[1] in OF_EVERY_AGENT
    return own or (len(path) == 3 and path[1] == "sample")


def nested(layer: Layer) -> dict[str, Any]:
    """Returns the values of a layer as nested data, without their origins."""
    data: dict[str, Any] = {}
    for path, setting in layer.items():
        inner = data
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = setting.value
    return data


def on_top(base: Layer, layer: Layer) -> Layer:
    """Returns `base` with `layer` on top; an empty mapping changes no other."""
    merged = dict(base)
    for path, setting in layer.items():
        inner = [p for p in merged if len(p) > len(path) and p[: len(path)] == path]
        if inner and setting.value == {}:
            continue
        for other in (*inner, *(path[:n] for n in range(1, len(path)))):
            merged.pop(other, None)
        merged[path] = setting
    return merged


def merge(base: Layer, layer: Layer) -> Layer:
    """Returns `base` with `layer` on top, by the rule.

    A list of agents replaces every agent, and another name replaces one agent: of the
    settings of a replaced agent in `base`, only those of the user stay. A new
    `total_timesteps` replaces all settings of a run's length.

    Raises:
        ConfigError: If the user wrote settings of an agent beyond a list of them.
    """
    keys = agent_keys(base)
    named = {
        key for key in keys if NUM_AGENTS in layer or _differ(base, layer, key, "name")
    }
    searched = [
        section
        for section in (("es",), *((key, "es") for key in keys))
        if _differ(base, layer, *section, "strategy")
    ]
    kept: Layer = {}
    for path, setting in base.items():
        of_other = path[0] in named or any(
            path[: len(section)] == section and path[len(section)] not in SHARED
            for section in searched
        )
        superseded = LENGTH in layer and path in LENGTHS
        if not superseded and (setting.origin.typed or not of_other):
            kept[path] = setting
    if NUM_AGENTS in layer:
        _check_listed(kept, layer[NUM_AGENTS])
    return on_top(kept, layer)


def command_line(layers: Iterable[Layer]) -> Layer:
    """Returns the layer of all words and options; the last value of a setting wins.

    Raises:
        ConfigError: If two of them contradict each other.
    """
    merged: Layer = {}
    for layer in layers:
        if NUM_AGENTS in layer and NUM_AGENTS in merged:
            other = merged[NUM_AGENTS].origin
            merged = {path: s for path, s in merged.items() if s.origin != other}
        _check_runner(merged.get(("runner",)), layer)
        merged = on_top(merged, layer)
    for path in LENGTHS:
        if LENGTH in merged and path in merged:
            raise ConfigError(
                f"{merged[LENGTH].origin} and {merged[path].origin} both say how long "
                "the run is: give one of them"
            )
    return merged


def agent_keys(layer: Layer) -> list[str]:
    """Returns the keys of a layer's agents, in their order."""
    return sorted({p[0] for p in layer if AGENT_KEY.match(p[0])}, key=agent_index)


def agent_index(key: str) -> int:
    """Returns the number in a key such as `agent1`, from 1."""
    return int(key.removeprefix("agent"))


def runner_of(layer: Layer) -> Setting | None:
    """Returns the runner that a layer asks for; `eval: true` asks for `eval`.

    Raises:
        ConfigError: If another runner is asked for in the same place.
    """
    asked, runner = layer.get(EVAL), layer.get(("runner",))
    if asked is None or not asked.value:
        return runner
    if runner is not None and runner.value != "eval":
        if runner.origin.height == asked.origin.height:
            raise ConfigError(
                f"eval=true (from {asked.origin}) contradicts runner={runner.value} "
                f"(from {runner.origin}): leave one of them out, or write `paxrun eval`"
            )
        if runner.origin.height > asked.origin.height:
            return runner
    return Setting("eval", asked.origin)


def experiment_of(name: str) -> str:
    """Returns the stored experiment in a run's name, before any `+`."""
    return name.partition(SIGN)[0]


def inherited(base: Layer, layer: Layer) -> Layer:
    """Returns `base` with `layer` on top, as an experiment of its own.

    The description and the expected results of `base` are left out if the game, the
    agents or the runner differ.
    """
    merged = merge(base, layer)
    return _without_claims(merged, base) if departures(base, merged) else merged


def changed(base: Layer, layer: Layer) -> Layer:
    """Returns an experiment with `layer` on top, as a run of it.

    If the game, the agents or the runner differ, its name says so, and it has neither
    a description nor expected results.
    """
    merged = merge(base, layer)
    differ = departures(base, merged)
    if not differ:
        return merged
    merged = _without_claims(merged, base)
    name = base.get(NAME)
    if name is not None and merged[NAME] == name:
        merged[NAME] = Setting(SIGN.join((str(name.value), *differ)), OTHER_NAME)
    return merged


def left_behind(base: Layer, whole: Layer) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields agents of `base` that play in another place of `whole`, as if moved there.

    Yields:
        (the agent's key in `base`, that in `whole`, the settings which it has lost).
    """
    for key in agent_keys(base):
        name = base.get((key, "name"))
        if name is None or not _differ(base, whole, key, "name"):
            continue
        for other in agent_keys(whole):
            came = whole.get((other, "name"))
            if came is None or came.value != name.value or not came.origin.typed:
                continue
            lost = {
                path[1]: s.value
                for path, s in base.items()
                if path[0] == key and len(path) == 2 and not s.origin.typed
                if path[1] != "name" and (other, path[1]) not in whole
            }
            if lost:
                yield key, other, {"name": name.value, **lost}


def nobody_asked(base: Layer, whole: Layer) -> Layer:
    """Returns a run of the default experiment where none was named.

    With other agents it loses the experiment's name, and is named after its agents.
    """
    name = whole.get(NAME)
    if name is None or name == base.get(NAME) or name.origin.typed:
        return whole
    if _names(base) == _names(whole):
        return whole
    return {path: setting for path, setting in whole.items() if path != NAME}


def departures(base: Layer, layer: Layer) -> tuple[str, ...]:
    """Returns a word for each of game, agents and runner that differs.

    The words are a game's name, `payoff` or another of its options, `agent1` and so on,
    and the runner's name.
    """
    if not any(path[0] in PLAYED or AGENT_KEY.match(path[0]) for path in base):
        return ()
    before, after = _played(base), _played(layer)
    differ = [key for key in after | before if after.get(key) != before.get(key)]
    if "game" in differ:
        differ[differ.index("game")] = after["game"].removeprefix("pax/")
    runner = _runner(layer)
    return tuple(differ) if runner == _runner(base) else (*differ, runner)


def _differ(base: Layer, layer: Layer, *path: str) -> bool:
    """Whether a layer names another agent or another strategy than `base`."""
    before, after = base.get(path), layer.get(path)
    if before is None or after is None or before.value == after.value:
        return False
    if path[-1] != "strategy":
        return True
    try:
        named = [strategies.find(str(s.value)) for s in (before, after)]
    except ValueError:
        return True
    return named[0] != named[1]


def _check_listed(kept: Layer, count: Setting) -> None:
    """Raises ConfigError for settings of an agent that a list does not name."""
    for path, setting in kept.items():
        if AGENT_KEY.match(path[0]) and agent_index(path[0]) > count.value:
            raise ConfigError(
                f"{'.'.join(path)} is set by {setting.origin}, but {count.origin} "
                f"names {counted(count.value, 'agent')}: leave one of them out"
            )


def check_command(base: Layer, command: Layer) -> None:
    """Raises ConfigError if a file asks for another runner than the command."""
    said_again = EVAL in command
    asked = {p: s for p, s in base.items() if p != EVAL or not said_again}
    _check_runner(runner_of(asked), command)


def _check_runner(asked: Setting | None, above: Layer) -> None:
    """Raises ConfigError if a word or a file asks for another runner than above it."""
    command = above.get(("runner",))
    if asked is None or command is None or asked.value == command.value:
        return
    if asked.origin.chosen and command.origin.kind == "option":
        word = asked.origin.on_command_line
        said = asked.origin if word else f"{asked.origin}: runner={asked.value}"
        raise ConfigError(
            f"{said} contradicts {command.origin}: leave it out, or write "
            f"`paxrun {asked.value}`"
        )


def _runner(layer: Layer) -> str:
    found = runner_of(layer)
    return ExperimentConfig.runner if found is None else str(found.value)


def _names(layer: Layer) -> list[Any]:
    names = [layer.get((key, "name")) for key in agent_keys(layer)]
    return [name and name.value for name in names]


def _played(layer: Layer) -> dict[str, Any]:
    """Returns the game and its agents as plain data."""
    data = nested(layer)
    game = data.get("env", {})
    played: dict[str, Any] = {"game": _game(game.get("id", EnvConfig.id))}
    played |= {k: v for k, v in game.items() if k not in ("id", *SIZES)}
    for key in agent_keys(layer):
        played[key] = {k: v for k, v in data[key].items() if k not in STARTS}
    return played | {key: data[key] for key in PLAYED[1:] if key in data}


def _game(id: Any) -> str:
    try:
        return find(str(id)).id.partition("-v")[0]
    except UnknownGameError:
        return str(id)


def _without_claims(merged: Layer, base: Layer) -> Layer:
    """Returns a layer without the description and the expected results of `base`."""
    return {
        path: setting
        for path, setting in merged.items()
        if path[0] not in CLAIMS or setting != base.get(path)
    }
