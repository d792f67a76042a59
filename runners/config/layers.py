"""One layer of a config as plain data, and how layers lie on one another.

A layer is what one YAML file, one `KEY=VALUE` or one option says. Layers are merged
as plain data and become an `ExperimentConfig` once, at the end.
"""

import copy
import re
import typing
from typing import Any

from paxenv.wording import counted
from runners.config.coerce import coerce
from runners.config.schema import (
    DEFAULT_LEARNER,
    ConfigError,
    ExperimentConfig,
    WandbConfig,
    did_you_mean,
)
from runners.config.search import normalised_search
from runners.evolution.options import renamed

Layer = dict[str, Any]

AGENT_KEY = re.compile(r"^agent([1-9][0-9]*)$")

#: Short names of nested settings.
ALIASES = {
    "payoff": ("env", "payoff"),
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

#: The settings of an experiment, with their types.
FIELDS = typing.get_type_hints(ExperimentConfig)
_KNOWN = [*FIELDS, *ALIASES, "quick", "model_path", "run_path", "player", "eval"]
_KNOWN += ["agent1", "agent2"]


def normalise(data: Any, origin: str) -> Layer:
    """Returns a layer in its one spelling: aliases resolved, shorthands spelt out.

    Args:
        data: What the file or the override holds.
        origin: Where it comes from, for messages.

    Raises:
        ConfigError: If a key is unknown, or a value asks for interpolation.
    """
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{origin}: expected KEY: VALUE lines, got {data!r}")
    refuse_interpolation(data, origin)
    layer: Layer = {}
    for key, value in data.items():
        _check_key(key, origin)
        if key in ALIASES:
            *parents, leaf = ALIASES[key]
            value = {leaf: value}
            for parent in reversed(parents):
                value = {parent: value}
            value = value if parents else {ALIASES[key][0]: value[leaf]}
        elif key == "env":
            value = {"env": {"id": value} if isinstance(value, str) else value}
        elif key == "eval":
            value = {"runner": "eval" if coerce(value, bool, "eval") else "rl"}
        elif key == "es":
            value = {"es": _es(value, origin)}
        elif key == "quick" and isinstance(value, dict):
            value = {"quick": normalise(value, f"{origin}: quick")}
        elif key == "quick":
            value = {"quick": coerce(value, bool, "quick")}
        elif key == "search":
            value = {"search": normalised_search(value, origin)}
        elif key == "agents":
            value = {"agents": [_agent(a, "agents", origin) for a in value or []]}
        elif AGENT_KEY.match(key):
            value = {key: _agent(value, key, origin)}
        else:
            value = {key: value}
        layer = _deep_merge(layer, value)
    if not isinstance(layer.get("env", {}), dict):
        raise ConfigError(f"{origin}: env must be a name or a mapping with an id")
    return layer


def merge(base: Layer, layer: Layer) -> Layer:
    """Returns `base` with `layer` on top.

    Mappings are merged key by key. `agents` replaces all agents; `agent1` changes the
    first: an entry of another name replaces it, others change its settings.
    """
    merged = copy.deepcopy(base)
    top = copy.deepcopy(layer)
    if "total_timesteps" in top and "num_generations" not in top.get("es", {}):
        # The last word on how long a run is stands.
        merged.get("es", {}).pop("num_generations", None)
    if "agents" in top:
        merged["agents"] = top.pop("agents")
    patches = {key: top.pop(key) for key in list(top) if AGENT_KEY.match(key)}
    for key in sorted(patches, key=lambda k: int(k[5:])):
        merged["agents"] = _patched(merged.get("agents", []), key, patches[key])
    return _deep_merge(merged, top)


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
    elif path[-1] in ("payoff", "model_path", "run_path"):
        return True
    else:
        annotation = FIELDS.get(path[0]) if len(path) == 1 else None
    return annotation is str or annotation == (str | None)


def _check_key(key: Any, origin: str) -> None:
    if key in _KNOWN or AGENT_KEY.match(str(key)):
        return
    if key in HINTS:
        raise ConfigError(f"{origin}: unknown key {key!r}; use {HINTS[key]}")
    raise ConfigError(
        f"{origin}: unknown key {key!r}{did_you_mean(key, _KNOWN)} "
        f"Known keys: {', '.join(_KNOWN)}"
    )


def _agent(value: Any, key: str, origin: str) -> Layer:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict) and value.get("es") is not None:
        return {**value, "es": _es(value["es"], origin)}
    if isinstance(value, dict):
        return value
    raise ConfigError(
        f"{origin}: {key} must be an agent's name or a mapping with a name, "
        f"got {value!r}"
    )


def _patched(agents: list[Layer], key: str, patch: Layer) -> list[Layer]:
    index = int(key[5:]) - 1
    if not agents and index == 1:
        agents = [{"name": DEFAULT_LEARNER}]
    if index > len(agents):
        raise ConfigError(
            f"{key} is given, but only {counted(len(agents), 'agent')} before "
            f"it: name agent{len(agents) + 1} too"
        )
    old = agents[index] if index < len(agents) else {}
    if "name" in patch and patch["name"] != old.get("name"):
        old = {}
    return [*agents[:index], _deep_merge(old, patch), *agents[index + 1 :]]


def _deep_merge(base: Layer, top: Layer) -> Layer:
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _deep_merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _es(value: Any, origin: str) -> Layer:
    if isinstance(value, dict):
        return renamed(value, "es")
    raise ConfigError(
        f"{origin}: es must be a mapping such as {{strategy: Open_ES}}, got {value!r}"
    )
