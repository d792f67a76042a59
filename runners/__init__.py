"""Experiments: who plays what, for how long, and what is kept of it.

Importing this package starts no JAX: names are loaded when they are used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paxenv_agents.lineup import Lineup, Slot
    from paxenv_agents.play import play_episode, play_trial
    from paxenv_agents.types import MemoryState, Sample, TrainingState
    from runners.act_functions import AgentActFn, KeyedActFn, agent_act_fn
    from runners.config import AgentConfig, ConfigError, EnvConfig, ExperimentConfig
    from runners.config import load as load_config
    from runners.devices import (
        ensure_devices,
        get_num_devices,
        replicate,
        split_key_across_devices,
        unreplicate,
    )
    from runners.distributed import initialize_distributed
    from runners.episode_statistics import EpisodeStats, EvalMetrics
    from runners.experiment import Experiment, RunState, train_chunk
    from runners.functional import (
        train_dqn,
        train_ppo,
        train_ppo_multigpu,
        train_sac,
    )
    from runners.launch import run, run_plan
    from runners.observer import Observer
    from runners.on_policy.runner import EVENTS, OnPolicyRunner, register_algorithm
    from runners.outcome import Outcome
    from runners.outer import Frozen, Gradient
    from runners.outer_loops.es_runner import ESRunner
    from runners.outer_loops.handle import AgentHandle
    from runners.outer_loops.hooks import Hook
    from runners.outer_loops.online_runner import OnlineRunner
    from runners.outer_loops.outer_config import ESConfig, OuterConfig
    from runners.outer_loops.outer_runner import OuterRunner
    from runners.outer_loops.search_dims import SearchDim
    from runners.plan import Plan, prepare
    from runners.results import (
        DQNTrainResult,
        PPOMetricsHistory,
        PPOTrainState,
        SACTrainResult,
    )
    from runners.run_dir import RunDir, find_runs
    from runners.runner_config import RunnerConfig
    from runners.sharding import (
        fsdp_sharding,
        make_mesh,
        replicate_on_mesh,
        shard_pytree,
    )
    from runners.whole_episodes import (
        evaluate,
        evaluate_agent,
        jit_evaluate,
        play_episodes,
    )

_LAZY = {
    "AgentActFn": "runners.act_functions",
    "AgentConfig": "runners.config",
    "AgentHandle": "runners.outer_loops.handle",
    "ConfigError": "runners.config",
    "DQNTrainResult": "runners.results",
    "ESConfig": "runners.outer_loops.outer_config",
    "ESRunner": "runners.outer_loops.es_runner",
    "EVENTS": "runners.on_policy.callbacks",
    "EnvConfig": "runners.config",
    "EpisodeStats": "runners.episode_statistics",
    "EvalMetrics": "runners.episode_statistics",
    "Experiment": "runners.experiment",
    "ExperimentConfig": "runners.config",
    "Frozen": "runners.outer",
    "Gradient": "runners.outer",
    "Hook": "runners.outer_loops.hooks",
    "KeyedActFn": "runners.act_functions",
    "Lineup": "paxenv_agents.lineup",
    "MemoryState": "paxenv_agents.types",
    "Observer": "runners.observer",
    "OnPolicyRunner": "runners.on_policy.runner",
    "OnlineRunner": "runners.outer_loops.online_runner",
    "OuterConfig": "runners.outer_loops.outer_config",
    "OuterRunner": "runners.outer_loops.outer_runner",
    "Outcome": "runners.outcome",
    "PPOMetricsHistory": "runners.results",
    "PPOTrainState": "runners.results",
    "Plan": "runners.plan",
    "RunDir": "runners.run_dir",
    "RunState": "runners.experiment",
    "RunnerConfig": "runners.runner_config",
    "SACTrainResult": "runners.results",
    "Sample": "paxenv_agents.types",
    "SearchDim": "runners.outer_loops.search_dims",
    "Slot": "paxenv_agents.lineup",
    "TrainingState": "paxenv_agents.types",
    "agent_act_fn": "runners.act_functions",
    "ensure_devices": "runners.devices",
    "evaluate": "runners.whole_episodes",
    "evaluate_agent": "runners.whole_episodes",
    "find_runs": "runners.run_dir",
    "fsdp_sharding": "runners.sharding",
    "get_num_devices": "runners.devices",
    "initialize_distributed": "runners.distributed",
    "jit_evaluate": "runners.whole_episodes",
    "load_config": "runners.config:load",
    "make_mesh": "runners.sharding",
    "play_episode": "paxenv_agents.play",
    "play_episodes": "runners.whole_episodes",
    "play_trial": "paxenv_agents.play",
    "prepare": "runners.plan",
    "register_algorithm": "runners.on_policy.setup",
    "replicate": "runners.devices",
    "replicate_on_mesh": "runners.sharding",
    "run": "runners.launch",
    "run_plan": "runners.launch",
    "shard_pytree": "runners.sharding",
    "split_key_across_devices": "runners.devices",
    "train_chunk": "runners.experiment",
    "train_dqn": "runners.functional",
    "train_ppo": "runners.functional",
    "train_ppo_multigpu": "runners.functional",
    "train_sac": "runners.functional",
    "unreplicate": "runners.devices",
}

__all__ = [
    "EVENTS",
    "AgentActFn",
    "AgentConfig",
    "AgentHandle",
    "ConfigError",
    "DQNTrainResult",
    "ESConfig",
    "ESRunner",
    "EnvConfig",
    "EpisodeStats",
    "EvalMetrics",
    "Experiment",
    "ExperimentConfig",
    "Frozen",
    "Gradient",
    "Hook",
    "KeyedActFn",
    "Lineup",
    "MemoryState",
    "Observer",
    "OnPolicyRunner",
    "OnlineRunner",
    "Outcome",
    "OuterConfig",
    "OuterRunner",
    "PPOMetricsHistory",
    "PPOTrainState",
    "Plan",
    "RunDir",
    "RunState",
    "RunnerConfig",
    "SACTrainResult",
    "Sample",
    "SearchDim",
    "Slot",
    "TrainingState",
    "agent_act_fn",
    "ensure_devices",
    "evaluate",
    "evaluate_agent",
    "find_runs",
    "fsdp_sharding",
    "get_num_devices",
    "initialize_distributed",
    "jit_evaluate",
    "load_config",
    "make_mesh",
    "play_episode",
    "play_episodes",
    "play_trial",
    "prepare",
    "register_algorithm",
    "replicate",
    "replicate_on_mesh",
    "run",
    "run_plan",
    "shard_pytree",
    "split_key_across_devices",
    "train_chunk",
    "train_dqn",
    "train_ppo",
    "train_ppo_multigpu",
    "train_sac",
    "unreplicate",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'runners' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
