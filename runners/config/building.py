"""Builds an `ExperimentConfig` from merged settings, by its fields' types, and back."""

import collections.abc
import dataclasses
import sys
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any

from paxenv import options
from paxenv.registry import find
from paxenv.wording import counted
from runners.config.merging import (
    NUM_AGENTS,
    Layer,
    Setting,
    agent_index,
    agent_keys,
    nested,
    runner_of,
)
from runners.config.schema import (
    DEFAULT,
    FIELDS,
    SECTIONS,
    AgentConfig,
    ConfigError,
    EnvConfig,
    ExperimentConfig,
    Origin,
    about,
    did_you_mean,
    placed,
)
from runners.kinds import DEFAULT_LEARNER, READ_BY, RunnerKind
from runners.search import strategies
from runners.search.options import HINTS, ESOptions, option_types
from runners.search.outer_options import ESConfig, es_config, search_options

#: Settings of one agent that may stand at the top level, for the agent of `player`.
WEIGHTS = ("model_path", "run_path")
#: The option of a search that holds its targets, in several forms.
TARGETS = "search_targets"
_UNIONS = (typing.Union, types.UnionType)
#: Whole numbers are smaller, as everything counts in at most 64 bits.
_TOO_LARGE = 2**63
#: Of a value, as many signs stand in a message.
_SHOWN = 100
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def build(layer: Layer) -> ExperimentConfig:
    """Returns the config of merged layers.

    Raises:
        ConfigError: If a value does not fit its field, or two settings contradict each
            other.
    """
    with placed(_origins(layer)):
        layer = _with_weights(_with_agents(_with_runner(layer)))
    data = nested({path: s for path, s in layer.items() if path != NUM_AGENTS})
    origins = _origins(layer)
    with placed(origins):
        keys = agent_keys(layer)
        agents = tuple(coerce(data.pop(key), AgentConfig, key) for key in keys)
        if "search" in data:
            data["search"] = _search(data["search"])
        values = {key: coerce(value, FIELDS[key], key) for key, value in data.items()}
        config = ExperimentConfig(**values, agents=agents, origins=origins)
        _check_read(layer, config.kind)
        if not config.kind.reads("es"):
            _check_unread_searches(config)
    return config


def as_dict(config: ExperimentConfig) -> dict[str, Any]:
    """Returns a config as plain data, from which `build` makes an equal config."""
    data = {name: _plain(getattr(config, name)) for name in FIELDS}
    data["agents"] = [_shown(agent) for agent in config.agents]
    es = data.pop("es")
    if config.kind.reads("es") or config.es != ESOptions():
        data["es"] = es
    return data


def coerce(value: Any, annotation: Any, where: str) -> Any:
    """Returns `value` as the type that `annotation` asks for.

    Whole floats and their texts become ints (`1e6`), numbers become floats, words
    such as `yes` become bools, lists become tuples, mappings become dataclasses. Other
    annotations than these, unions of them and those with a rule let a value pass.

    Args:
        value: A value of YAML or of the command line.
        annotation: The type of the field.
        where: The field's name, for messages.

    Raises:
        ConfigError: If the value does not fit; names field, value and type.
    """
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _by_rule(value, annotation, where)
    if origin in _UNIONS:
        return _union(value, typing.get_args(annotation), where)
    if origin is tuple:
        return _tuple(value, typing.get_args(annotation), where)
    if origin is collections.abc.Mapping:
        _, each = typing.get_args(annotation)
        given = _mapping(value, where)
        return {key: coerce(v, each, f"{where}.{key}") for key, v in given.items()}
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _section(_mapping(value, where), annotation, where)
    if annotation is bool:
        return _to_bool(value, where)
    if annotation is int:
        return _to_int(value, where)
    if annotation is float:
        return _to_float(value, where)
    if annotation is str:
        return _to_str(value, where)
    return hashable(value)


def hashable(value: Any) -> Any:
    """Returns free data with tuples for lists, so that it can be hashed."""
    if isinstance(value, list | tuple):
        return tuple(hashable(v) for v in value)
    if isinstance(value, dict):
        return {key: hashable(v) for key, v in value.items()}
    return value


def _with_runner(layer: Layer) -> Layer:
    """Returns the layer with `eval` read: true evaluates, false changes nothing.

    Raises:
        ConfigError: If another runner is asked for in the same place.
    """
    runner = runner_of(layer)
    others = {path: setting for path, setting in layer.items() if path != ("eval",)}
    return others if runner is None else {**others, ("runner",): runner}


def _with_agents(layer: Layer) -> Layer:
    """Returns the layer with a name for every agent that has a setting.

    Raises:
        ConfigError: If an agent is left out between others.
    """
    keys = agent_keys(layer)
    last = agent_index(keys[-1]) if keys else 0
    named = dict(layer)
    for index in range(1, last + 1):
        key = f"agent{index}"
        if key not in keys and index > 1:
            raise ConfigError(
                f"{keys[-1]} is given, but only {counted(index - 1, 'agent')} before "
                f"it: name {key} too"
            )
        if (key, "name") not in layer:
            name = DEFAULT_LEARNER if index == 1 else _usual_opponent(layer)
            named[key, "name"] = Setting(name, DEFAULT)
    return named


def _origins(layer: Layer) -> dict[str, Origin]:
    """Returns the places of settings by name; those of agents, not of their list."""
    return {".".join(path): s.origin for path, s in layer.items() if path != NUM_AGENTS}


def _usual_opponent(layer: Layer) -> str:
    game = layer.get(("env", "id"))
    with about("env.id"):
        return find(str(game.value) if game is not None else EnvConfig.id).opponent


def _with_weights(layer: Layer) -> Layer:
    """Returns the layer with top-level weights moved to the agent of `player`.

    Raises:
        ConfigError: If there is no such agent, or it has other weights already.
    """
    layer = dict(layer)
    given = {key: layer.pop((key,)) for key in WEIGHTS if (key,) in layer}
    weights = {key: s for key, s in given.items() if s.value is not None}
    player = layer.pop(("player",), None)
    if not weights:
        if player is not None and player.origin.typed and not given:
            raise ConfigError(
                f"player={player.value}{player.origin.said} says whose weights "
                "model_path names, but there is no model_path"
            )
        return layer
    number = 1 if player is None else coerce(player.value, int, "player")
    if number < 1:
        raise ConfigError(f"players are counted from 1, got player={number}")
    key, keys = f"agent{number}", agent_keys(layer)
    if not keys and number == 1:
        layer[key, "name"] = Setting(DEFAULT_LEARNER, DEFAULT)
    elif key not in keys:
        names = [layer[k, "name"].value for k in keys] or [DEFAULT_LEARNER]
        raise ConfigError(
            f"model_path is for player {number}, but the agents given are {names}: "
            f"name {key}"
        )
    for name, setting in weights.items():
        own = layer.get((key, name))
        if own is None or own.origin.height < setting.origin.height:
            layer[key, name] = setting
        elif own.origin.height == setting.origin.height and own.value != setting.value:
            raise ConfigError(
                f"{name}={setting.value}{setting.origin.said} and "
                f"{key}.{name}={own.value}{own.origin.said} are for one agent: leave "
                "one of them out, or say whose weights they are by player=N"
            )
    return layer


def _search(value: Any) -> dict[str, Any]:
    """Returns the options of a search, checked as a whole.

    Raises:
        ConfigError: If a value does not fit.
    """
    hints = {**search_options(), TARGETS: Any}
    search = {
        name: coerce(option, hints[name], f"search.{name}")
        for name, option in value.items()
    }
    if not isinstance(search.get(TARGETS, ()), tuple):
        claim = "a list such as [parameters, learning_rate]"
        raise _refused(f"search.{TARGETS}", claim, search[TARGETS])
    try:
        es_config(search)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"search: {error}") from error
    return search


def _check_read(layer: Layer, kind: RunnerKind) -> None:
    """Raises ConfigError for what the user wrote in a section that nobody reads."""
    for path, (value, origin) in layer.items():
        section = next((part for part in path[:2] if part in READ_BY), None)
        empty = len(path) == 1 and not value
        if section is None or empty or not origin.chosen or kind.reads(section):
            continue
        raise ConfigError(
            f"{origin}: {'.'.join(path)} is read by `paxrun {READ_BY[section].name}` "
            f"alone, and this run is of the runner {kind.name}"
            f"{_counterpart(path[-1], kind)}"
        )


def _check_unread_searches(config: ExperimentConfig) -> None:
    """Raises ConfigError for options that no search would have, were there any."""
    given = {"es": config.es.options}
    used = [config.es.strategy]
    for i, agent in enumerate(config.agents, start=1):
        own = {k: v for k, v in (agent.es or {}).items() if k not in option_types()}
        given[f"agent{i}.es"] = own
        used += [(agent.es or {}).get("strategy", config.es.strategy)]
    for section, options_of_strategies in given.items():
        for name, value in options_of_strategies.items():
            reasons = [strategies.refusal(each, name, value) for each in used]
            if all(reasons):
                raise ConfigError(str(reasons[0]), f"{section}.{name}")


def _counterpart(option: str, kind: RunnerKind) -> str:
    """Returns the end of a message: a runner's own option of that meaning, if any."""
    holder = {"es": ESOptions, "search": ESConfig}.get(kind.section or "")
    if holder is None or option in READ_BY:
        return ""
    own = options.aliases(holder).get(option, HINTS.get(option, option))
    return f": write {kind.section}.{own}" if own in options.hints(holder) else ""


def _section(value: Mapping[str, Any], kind: type[Any], where: str) -> Any:
    """Returns a section of a config; a field `options` takes all keys of no field."""
    hints = options.hints(kind)
    free = typing.get_args(hints.pop("options", None))
    described = options.described(kind).values()
    needed = {o.name for o in described if o.default is dataclasses.MISSING}
    if not value.keys() >= needed:
        raise _no_mapping(value, where)
    own: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, option in value.items():
        name = f"{where}.{key}"
        if key in hints:
            own[key] = coerce(option, hints[key], name)
        elif free:
            others[key] = coerce(option, free[1], name)
        else:
            raise ConfigError(
                f"unknown key {name}{did_you_mean(key, hints)} "
                f"Known keys: {', '.join(hints)}",
                name,
            )
    return kind(**own, options=others) if free else kind(**own)


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _no_mapping(value, where)
    return value


def _no_mapping(value: Any, where: str) -> ConfigError:
    return _refused(where, SECTIONS.get(where, "a mapping"), value)


def _refused(where: str, claim: str, value: Any) -> ConfigError:
    text = repr(value)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return ConfigError(f"{where} must be {claim}, got {shown}", where)


def _by_rule(value: Any, annotation: Any, where: str) -> Any:
    """Returns a value of a type with a rule, which names the texts that there are."""
    rule = options.rule_of(annotation)
    try:
        typed = coerce(value, annotation.__origin__, where)
    except ConfigError:
        names = annotation.__origin__ is str
        union = typing.get_origin(annotation.__origin__) in _UNIONS
        if rule is None or not (names or union):
            raise
        raise _refused(where, rule.claim, value) from None
    if rule is not None and not rule.holds(typed):
        raise _refused(where, rule.claim, typed)
    return typed


def _union(value: Any, members: tuple[Any, ...], where: str) -> Any:
    if value is None and type(None) in members:
        return None
    for member in members:
        if type(value) is getattr(member, "__origin__", member):
            return coerce(value, member, where)
    errors = []
    for member in members:
        if member is type(None):
            continue
        try:
            return coerce(value, member, where)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _tuple(value: Any, members: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _refused(where, "a list", value)
    if len(members) == 2 and members[1] is Ellipsis:
        members = (members[0],) * len(value)
    if len(members) != len(value):
        claim = f"{where} must have {len(members)} entries"
        raise ConfigError(f"{claim}, got {value!r}", where)
    pairs = zip(value, members, strict=True)
    return tuple(coerce(v, m, f"{where}[{i}]") for i, (v, m) in enumerate(pairs))


def _to_bool(value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise _refused(where, "true or false", value)


def _to_int(value: Any, where: str) -> int:
    number = _number(value)
    if number is None or number != number:
        raise _refused(where, "a whole number", value)
    if not abs(number) < _TOO_LARGE:
        raise _refused(where, "a whole number below 2**63", value)
    if number != int(number):
        raise _refused(where, "a whole number", value)
    return int(number)


def _to_float(value: Any, where: str) -> float:
    number = _number(value)
    if number is None or not abs(number) <= sys.float_info.max:
        raise _refused(where, "a finite number", value)
    return float(number)


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except (TypeError, ValueError):
            pass
    return None


def _to_str(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise _refused(where, "a text", value)


def _shown(agent: AgentConfig) -> dict[str, Any]:
    """Returns an agent as plain data, without its defaults."""
    usual = _plain(AgentConfig(agent.name))
    data = _plain(agent)
    own = {k: v for k, v in data.items() if k not in usual or v != usual[k]}
    return {"name": agent.name, **own}


def _plain(value: Any) -> Any:
    """Returns a value as data of YAML; options stand beside the fields of a section."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        free = fields.pop("options", {})
        return _plain({**fields, **free})
    if isinstance(value, Mapping):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
