"""Experiments as data: YAML, overrides and options become frozen dataclasses."""

from runners.config.building import as_dict
from runners.config.loader import (
    DEFAULT_EXPERIMENT,
    experiment_names,
    experiment_text,
    load,
    load_on_run,
    load_record,
    load_small,
    origin_lines,
    to_yaml,
)
from runners.config.merging import experiment_of
from runners.config.schema import (
    AgentConfig,
    ConfigError,
    EnvConfig,
    ExperimentConfig,
    Origin,
    WandbConfig,
)
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
    "as_dict",
    "experiment_names",
    "experiment_of",
    "experiment_text",
    "load",
    "load_on_run",
    "load_record",
    "load_small",
    "origin_lines",
    "to_yaml",
]
