"""Agents for the games of `paxenv`: learners and fixed strategies, one protocol.

    import paxenv_agents

    agent = paxenv_agents.make_agent("TitForTat", env, player=1)
    state, memory = agent.make_initial_state(key, agent.init_hidden(1)[0])
    action, state, memory = agent.policy(state, obs, memory)

Every registered agent is also an attribute: `paxenv_agents.TitForTat(env, player=1)`
is the line above, and so is `paxenv_agents.TitForTat.from_env(env, player=1)`. Classes
that one subclasses or configures (`Agent`, `MemoryOne`, `PPO`, ...) are attributes too,
and make one by `PPO.from_env(env, player=1)`, or `PPO(env, config)`. In place of a game
all of them take an environment of Gymnasium, a plain or a vector one.

Importing this package starts no JAX: agents are names until one is made.
"""

import importlib
from typing import TYPE_CHECKING, Any

from paxenv.entry_points import Plugin, check_agent_name, discover
from paxenv_agents import catalogue, registry
from paxenv_agents.registry import AgentSpec, PairingError, agents, make_agent

if TYPE_CHECKING:
    from paxenv_agents.agent import Agent
    from paxenv_agents.learners.dqn import DQN, DQNConfig
    from paxenv_agents.learners.hyper import Hyper, HyperConfig
    from paxenv_agents.learners.naive import Naive, NaiveConfig
    from paxenv_agents.learners.ppo import (
        PPO,
        PPOConfig,
        RecurrentPPO,
        RecurrentPPOConfig,
    )
    from paxenv_agents.learners.sac import SAC, SACConfig
    from paxenv_agents.learners.shapers import MFOS, MFOSConfig, Shaper, ShaperConfig
    from paxenv_agents.strategies.memory_one import MemoryOne
    from paxenv_agents.testing import AgentCheckError, check_agent
    from paxenv_agents.types import MemoryState, Sample, TrainingState
    from paxenv_agents.weights import load_agent, save_agent

__all__ = [
    "DQN",
    "MFOS",
    "PPO",
    "SAC",
    "Agent",
    "AgentCheckError",
    "AgentSpec",
    "DQNConfig",
    "Hyper",
    "HyperConfig",
    "MFOSConfig",
    "MemoryOne",
    "MemoryState",
    "Naive",
    "NaiveConfig",
    "PPOConfig",
    "PairingError",
    "RecurrentPPO",
    "RecurrentPPOConfig",
    "SACConfig",
    "Sample",
    "Shaper",
    "ShaperConfig",
    "TrainingState",
    "agents",
    "check_agent",
    "load_agent",
    "make_agent",
    "save_agent",
]

#: Names that need JAX, and the modules they live in.
_LAZY = {
    "Agent": "paxenv_agents.agent",
    "AgentCheckError": "paxenv_agents.testing",
    "DQN": "paxenv_agents.learners.dqn",
    "DQNConfig": "paxenv_agents.learners.dqn",
    "Hyper": "paxenv_agents.learners.hyper",
    "HyperConfig": "paxenv_agents.learners.hyper",
    "MFOS": "paxenv_agents.learners.shapers",
    "MFOSConfig": "paxenv_agents.learners.shapers",
    "MemoryOne": "paxenv_agents.strategies.memory_one",
    "MemoryState": "paxenv_agents.types",
    "Naive": "paxenv_agents.learners.naive",
    "NaiveConfig": "paxenv_agents.learners.naive",
    "PPO": "paxenv_agents.learners.ppo",
    "PPOConfig": "paxenv_agents.learners.ppo",
    "RecurrentPPO": "paxenv_agents.learners.ppo",
    "RecurrentPPOConfig": "paxenv_agents.learners.ppo",
    "SAC": "paxenv_agents.learners.sac",
    "SACConfig": "paxenv_agents.learners.sac",
    "Sample": "paxenv_agents.types",
    "Shaper": "paxenv_agents.learners.shapers",
    "ShaperConfig": "paxenv_agents.learners.shapers",
    "TrainingState": "paxenv_agents.types",
    "check_agent": "paxenv_agents.testing",
    "load_agent": "paxenv_agents.weights",
    "save_agent": "paxenv_agents.weights",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in agents():
        return registry.named(name)
    raise AttributeError(f"module 'paxenv_agents' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *agents()})


def _add_plugin(plugin: Plugin) -> None:
    check_agent_name(plugin.name, plugin.entry_point, taken=agents().__contains__)
    registry.register(
        AgentSpec(plugin.name, plugin.entry_point, distribution=plugin.distribution)
    )


for _spec in catalogue.AGENTS:
    registry.register(_spec)
discover("agent", _add_plugin)
