"""Experiments: agents that play and learn in games, and the results of runs.

Run an experiment, as `paxrun` does:
    run, load_config, prepare, run_plan, Plan, Observer, Outcome, ConfigError,
    ExperimentConfig, EnvConfig, AgentConfig, RunDir, find_runs

Put an experiment together by hand, as compiled functions:
    Experiment, RunState, train_chunk, Slot, Lineup, and the outer optimisers Frozen,
    Gradient and Evolution; play_episode, play_trial, Sample, TrainingState, MemoryState

Train by one function (`runners.views.functional`):
    train_ppo, train_ppo_multigpu, train_dqn, train_sac, RunnerConfig, PPOTrainState,
    PPOMetricsHistory, DQNTrainResult, SACTrainResult

Train one agent with callbacks (`runners.views.on_policy`):
    OnPolicyRunner, EVENTS, register_algorithm

Repeat, change and search trainings (`runners.views.outer_loops`):
    OnlineRunner, ESRunner, OuterRunner, OuterConfig, ESConfig, SearchDim, AgentHandle,
    Hook

Evaluate:
    evaluate, jit_evaluate, evaluate_agent, play_episodes, EvalMetrics, EpisodeStats,
    agent_act_fn, AgentActFn, KeyedActFn

Use several devices:
    ensure_devices, get_num_devices, initialize_distributed, make_mesh, fsdp_sharding,
    shard_pytree, replicate_on_mesh, replicate, unreplicate, split_key_across_devices

Importing this package starts no JAX: names are loaded when they are used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paxenv_agents.engine.lineup import Lineup, Slot
    from paxenv_agents.engine.play import play_episode, play_trial
    from paxenv_agents.types import MemoryState, Sample, TrainingState
    from runners.config import AgentConfig, ConfigError, EnvConfig, ExperimentConfig
    from runners.config import load as load_config
    from runners.engine.devices import (
        ensure_devices,
        get_num_devices,
        initialize_distributed,
        replicate,
        split_key_across_devices,
        unreplicate,
    )
    from runners.engine.experiment import Experiment, RunState, train_chunk
    from runners.engine.outer import Frozen, Gradient
    from runners.engine.placement import (
        fsdp_sharding,
        make_mesh,
        replicate_on_mesh,
        shard_pytree,
    )
    from runners.engine.statistics import EpisodeStats, EvalMetrics
    from runners.launch import run, run_plan
    from runners.planning.plan import Plan, prepare
    from runners.search.dims import SearchDim
    from runners.search.evolution import Evolution
    from runners.search.outer_options import ESConfig, OuterConfig
    from runners.session.evaluation import play_episodes
    from runners.session.loop import Observer
    from runners.session.outcome import Outcome
    from runners.session.runner_config import RunnerConfig
    from runners.storage.run_dir import RunDir, find_runs
    from runners.views.act_functions import (
        AgentActFn,
        KeyedActFn,
        agent_act_fn,
        evaluate,
        evaluate_agent,
        jit_evaluate,
    )
    from runners.views.functional import (
        DQNTrainResult,
        PPOMetricsHistory,
        PPOTrainState,
        SACTrainResult,
        train_dqn,
        train_ppo,
        train_ppo_multigpu,
        train_sac,
    )
    from runners.views.on_policy import EVENTS, OnPolicyRunner, register_algorithm
    from runners.views.outer_loops import (
        AgentHandle,
        ESRunner,
        Hook,
        OnlineRunner,
        OuterRunner,
    )

_LAZY = {
    "AgentActFn": "runners.views.act_functions",
    "AgentConfig": "runners.config",
    "AgentHandle": "runners.views.outer_loops",
    "ConfigError": "runners.config",
    "DQNTrainResult": "runners.views.functional",
    "ESConfig": "runners.search.outer_options",
    "ESRunner": "runners.views.outer_loops",
    "EVENTS": "runners.views.on_policy",
    "EnvConfig": "runners.config",
    "EpisodeStats": "runners.engine.statistics",
    "EvalMetrics": "runners.engine.statistics",
    "Evolution": "runners.search.evolution",
    "Experiment": "runners.engine.experiment",
    "ExperimentConfig": "runners.config",
    "Frozen": "runners.engine.outer",
    "Gradient": "runners.engine.outer",
    "Hook": "runners.views.outer_loops",
    "KeyedActFn": "runners.views.act_functions",
    "Lineup": "paxenv_agents.engine.lineup",
    "MemoryState": "paxenv_agents.types",
    "Observer": "runners.session.loop",
    "OnPolicyRunner": "runners.views.on_policy",
    "OnlineRunner": "runners.views.outer_loops",
    "OuterConfig": "runners.search.outer_options",
    "OuterRunner": "runners.views.outer_loops",
    "Outcome": "runners.session.outcome",
    "PPOMetricsHistory": "runners.views.functional",
    "PPOTrainState": "runners.views.functional",
    "Plan": "runners.planning.plan",
    "RunDir": "runners.storage.run_dir",
    "RunState": "runners.engine.experiment",
    "RunnerConfig": "runners.session.runner_config",
    "SACTrainResult": "runners.views.functional",
    "Sample": "paxenv_agents.types",
    "SearchDim": "runners.search.dims",
    "Slot": "paxenv_agents.engine.lineup",
    "TrainingState": "paxenv_agents.types",
    "agent_act_fn": "runners.views.act_functions",
    "ensure_devices": "runners.engine.devices",
    "evaluate": "runners.views.act_functions",
    "evaluate_agent": "runners.views.act_functions",
    "find_runs": "runners.storage.run_dir",
    "fsdp_sharding": "runners.engine.placement",
    "get_num_devices": "runners.engine.devices",
    "initialize_distributed": "runners.engine.devices",
    "jit_evaluate": "runners.views.act_functions",
    "load_config": "runners.config:load",
    "make_mesh": "runners.engine.placement",
    "play_episode": "paxenv_agents.engine.play",
    "play_episodes": "runners.session.evaluation",
    "play_trial": "paxenv_agents.engine.play",
    "prepare": "runners.planning.plan",
    "register_algorithm": "runners.views.on_policy",
    "replicate": "runners.engine.devices",
    "replicate_on_mesh": "runners.engine.placement",
    "run": "runners.launch",
    "run_plan": "runners.launch",
    "shard_pytree": "runners.engine.placement",
    "split_key_across_devices": "runners.engine.devices",
    "train_chunk": "runners.engine.experiment",
    "train_dqn": "runners.views.functional",
    "train_ppo": "runners.views.functional",
    "train_ppo_multigpu": "runners.views.functional",
    "train_sac": "runners.views.functional",
    "unreplicate": "runners.engine.devices",
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
    "Evolution",
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


#: Modules of the interfaces that others know from elsewhere.
_VIEWS = ("functional", "on_policy", "outer_loops")


def __getattr__(name: str) -> Any:
    if name in _VIEWS:
        return importlib.import_module(f"runners.views.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'runners' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_VIEWS})
