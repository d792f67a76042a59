"""Experiments as data: YAML, overrides and options into frozen dataclasses."""

from runners.config.loader import (
    DEFAULT_EXPERIMENT,
    experiment_names,
    experiment_of,
    experiment_text,
    load,
    load_small,
    origin_lines,
    to_yaml,
)
from runners.config.schema import (
    DEFAULT_LEARNER,
    AgentConfig,
    ConfigError,
    EnvConfig,
    ExperimentConfig,
    Origin,
    WandbConfig,
)

__all__ = [
    "DEFAULT_EXPERIMENT",
    "DEFAULT_LEARNER",
    "AgentConfig",
    "ConfigError",
    "EnvConfig",
    "ExperimentConfig",
    "Origin",
    "WandbConfig",
    "experiment_names",
    "experiment_of",
    "experiment_text",
    "load",
    "load_small",
    "origin_lines",
    "to_yaml",
]
