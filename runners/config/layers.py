"""What one file, one word or one option says, in the one spelling of every setting."""

import dataclasses
import typing
from typing import Any

from runners.config.coerce import coerce, hashable
from runners.config.merging import AGENT_KEY, NUM_AGENTS, QUICK, WANTS_QUICK
from runners.config.schema import (
    NOT_WRITTEN,
    ConfigError,
    ExperimentConfig,
    Layer,
    Origin,
    Setting,
    WandbConfig,
    did_you_mean,
    marked,
)
from runners.search.options import renamed
from runners.search.outer_options import es_config, search_key, search_options

TARGETS = "search_targets"


def normalised_search(value: Any, origin: str) -> dict[str, Any]:
    """Returns the section with every option under its own name.

    Raises:
        ConfigError: If it is no mapping, or an option is unknown.
    """
    if not isinstance(value, dict):
        raise ConfigError(
            f"{origin}: search must be a mapping such as {{iterations: 10}}, got "
            f"{value!r}"
        )
    named: dict[str, Any] = {}
    try:
        for name, option in value.items():
            key = search_key(str(name))
            if key in named:
                raise ConfigError(f"search.{key} is given twice, once as {name}")
            named[key] = option
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from error
    if isinstance(named.get(TARGETS), str):
        named[TARGETS] = [named[TARGETS]]
    return named


def build_search(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the section in the types of its options, checked as a whole.

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


#: Short names of nested settings.
ALIASES = {
    "payoff": ("env", "payoff"),
    "payoff_matrix": ("env", "payoff"),
    "num_inner_steps": ("env", "num_inner_steps"),
    "num_outer_steps": ("env", "num_outer_steps"),
    "env_id": ("env", "id"),
    "num_opps": ("num_opponents",),
    "popsize": ("es", "population_size"),
    "population_size": ("es", "population_size"),
    "num_generations": ("es", "num_generations"),
    "num_gens": ("es", "num_generations"),
    "top_k": ("es", "top_k"),
}

#: What to write instead of settings that users of other packages know.
HINTS = {
    "train_iters": "total_timesteps, counted in environment steps",
    "num_iters": "total_timesteps, counted in environment steps",
    "num_steps": "num_inner_steps",
    "ppo": "agent1 (for example agent1.learning_rate=0.01)",
    "ppo1": "agent1 (for example agent1.learning_rate=0.01)",
    "ppo2": "agent2 (for example agent2.learning_rate=0.01)",
    "ppo_default": "agent1, agent2, ...",
    "opponent": "agent2",
    "learning_rate": "agent1.learning_rate",
    "lr": "agent1.learning_rate",
    "hidden_size": "agent1.hidden_sizes",
    "defaults": "`extends: NAME`, where NAME is a stored experiment",
    "config": "the option --config FILE",
}

#: Other names of options of a game.
GAME_ALIASES = {"payoff_matrix": "payoff"}
#: The settings of an experiment, with their types.
FIELDS = {
    name: hint
    for name, hint in typing.get_type_hints(ExperimentConfig).items()
    if name not in NOT_WRITTEN
}
_KNOWN = [*FIELDS, *ALIASES, "quick", "model_path", "run_path", "player", "eval"]
_KNOWN += ["agent1", "agent2"]


def normalise(data: Any, origin: Origin) -> Layer:
    """Returns a layer: aliases resolved, shorthands spelt out, every value marked.

    Args:
        data: What the file or the override holds.
        origin: Where it comes from.

    Raises:
        ConfigError: If a key is unknown, a setting is given twice under two names, or a
            value asks for interpolation.
    """
    place = origin.place
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{place}: expected KEY: VALUE lines, got {data!r}")
    refuse_interpolation(data, place)
    layer: Layer = {}
    for key, value in data.items():
        _check_key(key, place)
        if key == QUICK and isinstance(value, dict):
            smaller = dataclasses.replace(origin, place=f"{place}, quick")
            layer[QUICK] = normalise(value, smaller)
            continue
        spelt = _spelt_out(str(key), value, place)
        _add(layer, marked(spelt, origin), str(key), place)
    return layer


def refuse_interpolation(data: Any, origin: str, key: str = "") -> None:
    """Raises ConfigError if any text in `data` holds `${`."""
    if isinstance(data, dict):
        for name, value in data.items():
            refuse_interpolation(value, origin, f"{key}.{name}" if key else str(name))
    elif isinstance(data, list | tuple):
        for value in data:
            refuse_interpolation(value, origin, key)
    elif isinstance(data, str) and "${" in data:
        raise ConfigError(
            f"{origin}: interpolation unsupported: {data!r} in {key}; write the value "
            "itself"
        )


def text_field(path: tuple[str, ...]) -> bool:
    """Whether a setting is a text, to be taken from the command line as it stands."""
    if path[:1] == ("wandb",) and len(path) == 2:
        annotation = typing.get_type_hints(WandbConfig).get(path[1])
    elif path[-1] in ("payoff", "payoff_matrix", "model_path", "run_path"):
        return True
    else:
        annotation = FIELDS.get(path[0]) if len(path) == 1 else None
    return annotation is str or annotation == (str | None)


def _check_key(key: Any, place: str) -> None:
    if key in _KNOWN or AGENT_KEY.match(str(key)):
        return
    if key in HINTS:
        raise ConfigError(f"{place}: unknown key {key!r}; use {HINTS[key]}")
    raise ConfigError(
        f"{place}: unknown key {key!r}{did_you_mean(key, _KNOWN)} "
        f"Known keys: {', '.join(_KNOWN)}"
    )


def _spelt_out(key: str, value: Any, place: str) -> dict[str, Any]:
    """Returns what one key means, under the settings' own names."""
    if key in ALIASES:
        for part in reversed(ALIASES[key]):
            value = {part: value}
        return value
    if key == "env":
        return {"env": _game(value, place)}
    if key == "eval":
        return {"eval": coerce(value, bool, "eval")}
    if key == "quick":
        return {WANTS_QUICK: coerce(value, bool, "quick")}
    if key == "es":
        return {"es": _es(value, place)}
    if key == "search":
        return {"search": normalised_search(value, place)}
    if key == "agents":
        agents = [_agent(agent, "agents", place) for agent in value or []]
        entries = {f"agent{i}": agent for i, agent in enumerate(agents, start=1)}
        return {NUM_AGENTS: len(agents), **entries}
    if AGENT_KEY.match(key):
        return {key: _agent(value, key, place)}
    return {key: value}


def _add(layer: Layer, new: Layer, key: str, place: str, path: str = "") -> None:
    """Puts settings into a layer.

    Raises:
        ConfigError: If one of them is there already.
    """
    for name, value in new.items():
        where = f"{path}.{name}" if path else name
        old = layer.get(name)
        if old is None:
            layer[name] = value
        elif isinstance(old, Setting) or isinstance(value, Setting):
            raise ConfigError(f"{place}: {where} is given twice, once as {key}")
        else:
            _add(old, value, key, place, where)


def _game(value: Any, place: str) -> Layer:
    if isinstance(value, str):
        return {"id": value}
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: env must be a name or a mapping with an id")
    game: Layer = {}
    for key, option in value.items():
        name = GAME_ALIASES.get(str(key), str(key))
        if name in game:
            raise ConfigError(f"{place}: env.{name} is given twice, once as {key}")
        game[name] = option
    return game


def _agent(value: Any, key: str, place: str) -> Layer:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict) and value.get("es") is not None:
        return {**value, "es": _es(value["es"], place)}
    if isinstance(value, dict) and value:
        return value
    raise ConfigError(
        f"{place}: {key} must be an agent's name or a mapping with a name, "
        f"got {value!r}"
    )


def _es(value: Any, place: str) -> Layer:
    if isinstance(value, dict):
        return renamed(value, "es")
    raise ConfigError(
        f"{place}: es must be a mapping such as {{strategy: Open_ES}}, got {value!r}"
    )
