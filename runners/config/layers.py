"""What one file, one word or one option says, in the one spelling of every setting."""

import dataclasses
from typing import Any

from paxenv import options
from runners.config.coerce import coerce
from runners.config.merging import AGENT_KEY, NUM_AGENTS, QUICK, WANTS_QUICK
from runners.config.schema import (
    NOT_WRITTEN,
    ConfigError,
    ExperimentConfig,
    WandbConfig,
    did_you_mean,
)
from runners.config.settings import Layer, Origin, Setting, marked
from runners.search.options import ESOptions, renamed
from runners.search.outer_options import ESConfig, search_key

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
    try:
        own = options.own_names(ESConfig, value, "search")
        named = {search_key(str(name)): option for name, option in own.items()}
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from error
    if isinstance(named.get(TARGETS), str):
        named[TARGETS] = [named[TARGETS]]
    return named


#: Options of a game that stand without `env`, and what else they are called.
GAME_OPTIONS = {
    "env_id": "id",
    "payoff": "payoff",
    "payoff_matrix": "payoff",
    "num_inner_steps": "num_inner_steps",
    "num_outer_steps": "num_outer_steps",
}


def _short_names() -> dict[str, tuple[str, ...]]:
    """Returns the setting that each other name at the top stands for."""
    short: dict[str, tuple[str, ...]] = {
        name: ("env", own) for name, own in GAME_OPTIONS.items()
    }
    short |= {name: (own,) for name, own in options.aliases(ExperimentConfig).items()}
    for option in options.described(ESOptions).values():
        if option.short:
            names = (option.name, *option.aliases)
            short |= {name: ("es", option.name) for name in names}
    return short


ALIASES = _short_names()

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

#: The settings of an experiment, with their types.
FIELDS = {
    name: hint
    for name, hint in options.hints(ExperimentConfig).items()
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
        hint = options.hints(WandbConfig).get(path[1])
    elif path[-1] in ("payoff", "payoff_matrix", "model_path", "run_path"):
        return True
    else:
        hint = FIELDS.get(path[0]) if len(path) == 1 else None
    return getattr(hint, "__origin__", hint) is str or hint == (str | None)


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
        name = GAME_OPTIONS.get(str(key), str(key))
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
