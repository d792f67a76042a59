"""The agents that ship with the package, by name."""

from paxenv_agents.registry import AgentSpec

AGENTS: tuple[AgentSpec, ...] = ()
