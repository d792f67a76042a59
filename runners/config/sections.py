"""From merged layers to an `ExperimentConfig`: each section in its own type."""

from collections.abc import Callable
from typing import Any, TypeVar

from paxenv import options
from paxenv.registry import find
from paxenv.wording import counted
from runners.config import merging
from runners.config.coerce import coerce, hashable
from runners.config.layers import FIELDS, TARGETS
from runners.config.schema import (
    AgentConfig,
    ConfigError,
    EnvConfig,
    ExperimentConfig,
    PayoffSamplerConfig,
    WandbConfig,
    did_you_mean,
)
from runners.config.settings import DEFAULT, Layer, Setting, leaves, plain
from runners.kinds import DEFAULT_LEARNER, READ_BY, RunnerKind
from runners.search.options import HINTS, ESOptions
from runners.search.outer_options import ESConfig, es_config, search_options

Section = TypeVar("Section")

#: Settings of one agent that may stand at the top, for the agent of `player`.
WEIGHTS = ("model_path", "run_path")


def build(layer: Layer) -> ExperimentConfig:
    """Returns the config that merged layers mean.

    Raises:
        ConfigError: If a value does not fit its field, or two settings contradict each
            other.
    """
    layer = _with_weights(_with_agents(_with_runner(layer)))
    values: dict[str, Any] = {}
    if keys := merging.agent_keys(layer):
        values["agents"] = tuple(
            _section(AgentConfig, plain(layer[key]), key) for key in keys
        )
    for key, setting in layer.items():
        if key != merging.NUM_AGENTS and not merging.AGENT_KEY.match(key):
            read = _SECTIONS.get(key)
            value = plain(setting)
            values[key] = read(value) if read else coerce(value, FIELDS[key], key)
    origins = {name: setting.origin for name, setting in leaves(layer)}
    origins.pop(merging.NUM_AGENTS, None)
    config = ExperimentConfig(**values, origins=origins)
    _check_read(config)
    return config


def build_es(value: Layer, where: str = "es") -> ESOptions:
    """Returns the options of an evolution; those of no name here are the strategy's."""
    return _section(ESOptions, value, where, _number)


def _with_runner(layer: Layer) -> Layer:
    """Returns the layer with `eval` read: true evaluates, false changes nothing.

    Raises:
        ConfigError: If another runner is asked for in the same place.
    """
    runner = merging.runner_of(layer)
    others = {key: value for key, value in layer.items() if key != "eval"}
    return others if runner is None else {**others, "runner": runner}


def _with_agents(layer: Layer) -> Layer:
    """Returns the layer with a name for every agent of whom anything is said.

    Raises:
        ConfigError: If an agent is left out between others.
    """
    keys = merging.agent_keys(layer)
    last = merging.agent_index(keys[-1]) if keys else 0
    named = dict(layer)
    for index in range(1, last + 1):
        key = f"agent{index}"
        entry = layer.get(key)
        if entry is None and index > 1:
            raise ConfigError(
                f"{keys[-1]} is given, but only {counted(index - 1, 'agent')} before "
                f"it: name {key} too"
            )
        if entry is None or "name" not in entry:
            name = DEFAULT_LEARNER if index == 1 else _usual_opponent(layer)
            named[key] = {"name": Setting(name, DEFAULT), **(entry or {})}
    return named


def _usual_opponent(layer: Layer) -> str:
    game = merging.setting_at(layer, "env", "id")
    return find(str(game.value) if game is not None else EnvConfig().id).opponent


def _with_weights(layer: Layer) -> Layer:
    """Returns the layer with top-level weights moved to the agent of `player`.

    Raises:
        ConfigError: If there is no such agent, or it is given other weights beside.
    """
    layer = dict(layer)
    given = {key: layer.pop(key) for key in WEIGHTS if key in layer}
    weights = {key: s for key, s in given.items() if s.value is not None}
    player = layer.pop("player", None)
    if not weights:
        if player is not None and player.origin.typed and not given:
            raise ConfigError(
                f"player={player.value}{_from(player)} says whose weights "
                "model_path names, but there is no model_path"
            )
        return layer
    number = 1 if player is None else coerce(player.value, int, "player")
    if number < 1:
        raise ConfigError(f"players are counted from 1, got player={number}")
    key = f"agent{number}"
    agents = [plain(layer[k]) for k in merging.agent_keys(layer)]
    if not agents and number == 1:
        layer[key] = {"name": Setting(DEFAULT_LEARNER, DEFAULT)}
    if key not in layer:
        names = [agent["name"] for agent in agents] or [DEFAULT_LEARNER]
        raise ConfigError(
            f"model_path is for player {number}, but the agents given are {names}: "
            f"name {key}"
        )
    entry = dict(layer[key])
    for name, setting in weights.items():
        own = merging.setting_at(entry, name)
        if own is None or own.origin.height < setting.origin.height:
            entry[name] = setting
        elif own.origin.height == setting.origin.height and own.value != setting.value:
            raise ConfigError(
                f"{name}={setting.value}{_from(setting)} and {key}.{name}={own.value}"
                f"{_from(own)} are for one agent: leave one of them out, or say whose "
                "weights they are by player=N"
            )
    return {**layer, key: entry}


def _check_read(config: ExperimentConfig) -> None:
    """Raises ConfigError if a word or an option is in a section that nobody reads."""
    for name, origin in config.origins.items():
        section = next((part for part in name.split(".")[:2] if part in READ_BY), None)
        if section is None or not origin.on_command_line:
            continue
        reader = READ_BY[section]
        if config.kind != reader:
            hint = _counterpart(name.split(".")[-1], config.kind)
            raise ConfigError(
                f"{origin}: {name} is read by `paxrun {reader.name}` alone, and this "
                f"run is of the runner {config.runner}{hint}"
            )


def _counterpart(option: str, kind: RunnerKind) -> str:
    """Returns what to write for a runner instead of another's option, if anything."""
    holder = {"es": ESOptions, "search": ESConfig}.get(kind.section or "")
    if holder is None:
        return ""
    own = options.aliases(holder).get(option, HINTS.get(option, option))
    return f": write {kind.section}.{own}" if own in options.hints(holder) else ""


def _from(setting: Setting) -> str:
    return f" (from {setting.origin})"


def _build_bands(value: Any) -> dict[str, tuple[float, float]]:
    if not isinstance(value, dict):
        raise ConfigError(f"bands must be METRIC: [low, high] lines, got {value!r}")
    return {
        str(metric): coerce(band, tuple[float, float], f"bands.{metric}")
        for metric, band in value.items()
    }


def _build_search(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a search, checked as a whole.

    Raises:
        ConfigError: If a value does not fit.
    """
    types = search_options()
    search = {
        name: hashable(option)
        if name == TARGETS
        else coerce(option, types[name], f"search.{name}")
        for name, option in value.items()
    }
    try:
        es_config(search)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"search: {error}") from error
    return search


def _build_payoff_sampler(value: Any) -> PayoffSamplerConfig | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not {"kind", "low", "high"} <= value.keys():
        raise ConfigError(
            "payoff_sampler must be a mapping such as {kind: dilemma, low: -5, "
            f"high: 0}}, got {value!r}"
        )
    return _section(PayoffSamplerConfig, value, "payoff_sampler")


def _build_wandb(value: Any) -> WandbConfig:
    if not isinstance(value, dict):
        raise ConfigError(
            f"wandb must be a mapping such as {{log: true}}, got {value!r}"
        )
    if isinstance(value.get("tags"), str):
        value = {**value, "tags": value["tags"].split(",")}
    return _section(WandbConfig, value, "wandb")


#: How the sections of a config are read that are more than one value of its type.
_SECTIONS: dict[str, Callable[[Any], Any]] = {
    "env": lambda value: _section(EnvConfig, value, "env"),
    "wandb": _build_wandb,
    "bands": _build_bands,
    "es": build_es,
    "payoff_sampler": _build_payoff_sampler,
    "search": _build_search,
}


def _section(
    kind: type[Section],
    value: Layer,
    where: str,
    free: Callable[[Any, str], Any] = lambda value, _: hashable(value),
) -> Section:
    """Returns a section of a config, its options in their types.

    Args:
        kind: Its type. One with a field `options` keeps other keys there.
        value: What it holds.
        where: Its name, for messages.
        free: Reads the value of another key.

    Raises:
        ConfigError: If it has no such option, or a value does not fit.
    """
    hints = options.hints(kind)
    takes_others = hints.pop("options", None) is not None
    known = {
        key: coerce(v, hints[key], f"{where}.{key}")
        for key, v in value.items()
        if key in hints
    }
    others = {key: v for key, v in value.items() if key not in hints}
    if takes_others:
        own = {key: free(v, f"{where}.{key}") for key, v in others.items()}
        return kind(**{**known, "options": own})
    for key in others:
        raise ConfigError(
            f"unknown key {where}.{key}{did_you_mean(key, hints)} "
            f"Known keys: {', '.join(hints)}"
        )
    return kind(**known)


def _number(value: Any, where: str) -> bool | int | float:
    if isinstance(value, bool | int):
        return value
    return coerce(value, float, where)
