"""Names of agents: strings until an agent is made, so importing starts no JAX."""

import importlib
from typing import Any

from paxenv.registry import closest

#: name -> "module:Class or function". Filled in as agents are added.
AGENTS: dict[str, str] = {
    "TitForTat": "paxenv_agents.strategies.memory_one:tit_for_tat",
}


class UnknownAgentError(ValueError):
    """A name that is no agent; the message lists the closest ones."""


def names() -> list[str]:
    """Returns the names of all agents in alphabetical order."""
    return sorted(AGENTS)


def load(name: str) -> Any:
    """Imports and returns the class or function behind an agent's name."""
    if name not in AGENTS:
        near = closest(name, names())
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UnknownAgentError(
            f"there is no agent {name!r}{hint} `paxrun list agents` shows all"
        )
    module, _, attribute = AGENTS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def make_agent(name: str, env: Any, player: int = 0, **config: Any) -> Any:
    """Makes the agent `name` for one seat of a game.

    Args:
        name: A registered name, such as `"PPO"` or `"TitForTat"`.
        env: The game; only the seat's spaces and shapes are read.
        player: The seat, from 0.
        **config: Options of the agent.

    Raises:
        UnknownAgentError: If no agent has this name.
        ValueError: If the agent cannot play this seat, or an option is refused.
    """
    return load(name).from_env(env, player=player, **config)
