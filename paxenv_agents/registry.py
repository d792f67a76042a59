"""Names of agents: strings until an agent is made, so importing starts no JAX."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from paxenv.registry import closest


@dataclasses.dataclass(frozen=True)
class AgentSpec:
    """One registered agent.

    Attributes:
        name: The name users write, such as `"TitForTat"`.
        entry_point: `"module:Class"`, where `Class.from_env(env, player, **config)`
            makes the agent.
        kwargs: Config that the name stands for; the caller's wins.
        summary: The rule in one line.
        source: Citation.
        classifier: Facts about the agent, such as `memory_depth` and `stochastic`.
    """

    name: str
    entry_point: str
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    summary: str = ""
    source: str = ""
    classifier: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def load(self) -> Any:
        """Imports and returns the agent's class."""
        module, _, attribute = self.entry_point.partition(":")
        return getattr(importlib.import_module(module), attribute)


class UnknownAgentError(ValueError):
    """A name that is no agent; the message lists the closest ones."""


class PairingError(ValueError):
    """An agent cannot play this seat; agents raise it with what they need."""


_AGENTS: dict[str, AgentSpec] = {}


def register(spec: AgentSpec) -> None:
    """Adds an agent, replacing one of the same name."""
    _AGENTS[spec.name] = spec


def agents() -> dict[str, AgentSpec]:
    """Returns every registered agent by name, in alphabetical order."""
    return dict(sorted(_AGENTS.items()))


def find(name: str) -> AgentSpec:
    """Returns the agent of this name.

    Raises:
        UnknownAgentError: If there is none; names the closest ones.
    """
    if name in _AGENTS:
        return _AGENTS[name]
    near = closest(name, list(_AGENTS))
    hint = f"; did you mean {' or '.join(near)}?" if near else ";"
    raise UnknownAgentError(
        f"there is no agent {name!r}{hint} `paxrun list agents` shows all agents"
    )


def make_agent(name: str, env: Any, player: int = 0, **config: Any) -> Any:
    """Makes the agent `name` for one seat of a game.

    Args:
        name: A registered name, such as `"PPO"` or `"TitForTat"`.
        env: The game, or a plain or vector environment of Gymnasium; only the seat's
            spaces and shapes are read.
        player: The seat, from 0.
        **config: Options of the agent.

    Raises:
        UnknownAgentError: If no agent has this name.
        PairingError: If the agent cannot play this seat; names those that can.
        ValueError: If an option is refused.
    """
    from paxenv_agents.seat import seated

    spec, env = find(name), seated(env)
    try:
        return spec.load().from_env(env, player=player, **{**spec.kwargs, **config})
    except PairingError as error:
        able = ", ".join(playable(env, player))
        raise PairingError(
            f"{name} cannot play as player {player + 1} of {env.name}: {error}. "
            f"Agents that can: {able}"
        ) from error


@dataclasses.dataclass(frozen=True)
class NamedAgent:
    """A registered agent as a class would be: called, or by `from_env`, it makes one.

    Attributes:
        name: The registered name.
    """

    name: str

    def __call__(self, env: Any, player: int = 0, **config: Any) -> Any:
        """Returns `make_agent(name, env, player, **config)`."""
        return make_agent(self.name, env, player, **config)

    def from_env(self, env: Any, player: int = 0, **config: Any) -> Any:
        """Returns `make_agent(name, env, player, **config)`."""
        return make_agent(self.name, env, player, **config)


def playable(env: Any, player: int = 0) -> list[str]:
    """Returns the names of the agents that can play a seat with default options."""
    return [name for name, spec in agents().items() if _fits(spec, env, player)]


def _fits(spec: AgentSpec, env: Any, player: int) -> bool:
    try:
        spec.load().from_env(env, player=player, **spec.kwargs)
    except (ValueError, TypeError, ImportError):
        return False
    return True
