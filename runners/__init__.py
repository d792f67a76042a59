"""Experiments: who plays what, for how long, and what is kept of it.

Importing this package starts no JAX: names are loaded when they are used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paxenv_agents.lineup import Lineup, Slot
    from paxenv_agents.play import play_episode, play_trial
    from paxenv_agents.types import MemoryState, Sample, TrainingState
    from runners.config import AgentConfig, ConfigError, EnvConfig, ExperimentConfig
    from runners.config import load as load_config
    from runners.experiment import Experiment, RunState, train_chunk
    from runners.launch import Observer, run_plan
    from runners.outcome import Outcome
    from runners.outer import Frozen, Gradient
    from runners.plan import Plan, prepare
    from runners.run_dir import RunDir, find_runs

_LAZY = {
    "AgentConfig": "runners.config",
    "ConfigError": "runners.config",
    "EnvConfig": "runners.config",
    "Experiment": "runners.experiment",
    "ExperimentConfig": "runners.config",
    "Frozen": "runners.outer",
    "Gradient": "runners.outer",
    "Lineup": "paxenv_agents.lineup",
    "MemoryState": "paxenv_agents.types",
    "Observer": "runners.launch",
    "Outcome": "runners.outcome",
    "Plan": "runners.plan",
    "RunDir": "runners.run_dir",
    "RunState": "runners.experiment",
    "Sample": "paxenv_agents.types",
    "Slot": "paxenv_agents.lineup",
    "TrainingState": "paxenv_agents.types",
    "find_runs": "runners.run_dir",
    "load_config": "runners.config:load",
    "play_episode": "paxenv_agents.play",
    "play_trial": "paxenv_agents.play",
    "prepare": "runners.plan",
    "run_plan": "runners.launch",
    "train_chunk": "runners.experiment",
}

__all__ = [
    "AgentConfig",
    "ConfigError",
    "EnvConfig",
    "Experiment",
    "ExperimentConfig",
    "Frozen",
    "Gradient",
    "Lineup",
    "MemoryState",
    "Observer",
    "Outcome",
    "Plan",
    "RunDir",
    "RunState",
    "Sample",
    "Slot",
    "TrainingState",
    "find_runs",
    "load_config",
    "play_episode",
    "play_trial",
    "prepare",
    "run_plan",
    "train_chunk",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'runners' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
