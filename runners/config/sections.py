"""From merged layers to an `ExperimentConfig`: each section in its own type."""

import dataclasses
import typing
from typing import Any

from runners.config.coerce import coerce, frozen
from runners.config.layers import FIELDS, Layer
from runners.config.schema import (
    DEFAULT_LEARNER,
    AgentConfig,
    ConfigError,
    EnvConfig,
    ExperimentConfig,
    PayoffSamplerConfig,
    WandbConfig,
    did_you_mean,
)
from runners.config.search import build_search
from runners.evolution.options import ESOptions, option_types

#: Settings of one agent that may stand at the top, for the agent of `player`.
WEIGHTS = ("model_path", "run_path", "player")


def build(layer: Layer) -> ExperimentConfig:
    """Returns the config that merged layers mean.

    Raises:
        ConfigError: If a value does not fit its field.
    """
    data = _with_weights(layer)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key == "env":
            values[key] = _build_env(value)
        elif key == "agents":
            values[key] = tuple(_build_agent(i, a) for i, a in enumerate(value))
        elif key == "wandb":
            values[key] = _build_wandb(value)
        elif key == "bands":
            values[key] = _build_bands(value)
        elif key == "es":
            values[key] = build_es(value)
        elif key == "payoff_sampler":
            values[key] = _build_payoff_sampler(value)
        elif key == "search":
            values[key] = build_search(value)
        else:
            values[key] = coerce(value, FIELDS[key], key)
    return ExperimentConfig(**values)


def build_es(value: Layer, where: str = "es") -> ESOptions:
    """Returns the options of an evolution; those of no name here are the strategy's."""
    hints = option_types()
    known = {
        k: coerce(v, hints[k], f"{where}.{k}") for k, v in value.items() if k in hints
    }
    own = {k: _number(v, f"{where}.{k}") for k, v in value.items() if k not in hints}
    return ESOptions(**known, options=own)


def _with_weights(layer: Layer) -> Layer:
    """Returns the layer with top-level weights moved to the agent of `player`."""
    data = dict(layer)
    weights = {key: data.pop(key) for key in WEIGHTS if key in data}
    player = coerce(weights.pop("player", 1), int, "player")
    weights = {key: value for key, value in weights.items() if value is not None}
    agents = data.get("agents") or [{"name": DEFAULT_LEARNER}]
    if not weights:
        return data
    if not 1 <= player <= len(agents):
        raise ConfigError(
            f"model_path is for player {player}, but the agents given are "
            f"{[agent.get('name') for agent in agents]}: name agent{player}"
        )
    data["agents"] = [
        {**agent, **weights} if i == player - 1 else agent
        for i, agent in enumerate(agents)
    ]
    return data


def _build_env(value: Layer) -> EnvConfig:
    options = {key: frozen(v) for key, v in value.items() if key != "id"}
    if "id" not in value:
        return EnvConfig(options=options)
    return EnvConfig(id=coerce(value["id"], str, "env.id"), options=options)


def _build_agent(index: int, value: Layer) -> AgentConfig:
    where = f"agent{index + 1}"
    if "name" not in value:
        raise ConfigError(f"{where} has no name: write {where}=PPO, for example")
    own = [f.name for f in dataclasses.fields(AgentConfig) if f.name != "options"]
    hints = typing.get_type_hints(AgentConfig)
    known = {
        key: coerce(value[key], hints[key], f"{where}.{key}")
        for key in own
        if key in value
    }
    options = {key: frozen(v) for key, v in value.items() if key not in own}
    return AgentConfig(**known, options=options)


def _build_bands(value: Any) -> dict[str, tuple[float, float]]:
    if not isinstance(value, dict):
        raise ConfigError(f"bands must be METRIC: [low, high] lines, got {value!r}")
    return {
        str(metric): coerce(band, tuple[float, float], f"bands.{metric}")
        for metric, band in value.items()
    }


def _number(value: Any, where: str) -> bool | int | float:
    if isinstance(value, bool | int):
        return value
    return coerce(value, float, where)


def _build_payoff_sampler(value: Any) -> PayoffSamplerConfig | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not {"kind", "low", "high"} <= value.keys():
        raise ConfigError(
            "payoff_sampler must be a mapping such as {kind: dilemma, low: -5, "
            f"high: 0}}, got {value!r}"
        )
    return PayoffSamplerConfig(**_fields(PayoffSamplerConfig, value, "payoff_sampler"))


def _build_wandb(value: Any) -> WandbConfig:
    if not isinstance(value, dict):
        raise ConfigError(
            f"wandb must be a mapping such as {{log: true}}, got {value!r}"
        )
    if isinstance(value.get("tags"), str):
        value = {**value, "tags": value["tags"].split(",")}
    return WandbConfig(**_fields(WandbConfig, value, "wandb"))


def _fields(section: type, value: Layer, where: str) -> Layer:
    """Returns what a section holds, in the types of its fields.

    Raises:
        ConfigError: If it has no such field, or a value does not fit.
    """
    hints = typing.get_type_hints(section)
    for key in value:
        if key not in hints:
            raise ConfigError(
                f"unknown key {where}.{key}{did_you_mean(key, hints)} "
                f"Known keys: {', '.join(hints)}"
            )
    return {key: coerce(v, hints[key], f"{where}.{key}") for key, v in value.items()}
