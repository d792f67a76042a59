"""Experiments as data: YAML, overrides and options into frozen dataclasses."""

from runners.config.departures import experiment_of
from runners.config.experiments import experiment_names, experiment_text
from runners.config.loader import (
    DEFAULT_EXPERIMENT,
    load,
    load_small,
    origin_lines,
    to_yaml,
)
from runners.config.schema import (
    AgentConfig,
    ConfigError,
    EnvConfig,
    ExperimentConfig,
    WandbConfig,
)
from runners.config.settings import Origin
from runners.kinds import DEFAULT_LEARNER

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
