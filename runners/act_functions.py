"""What can be evaluated besides agents: functions from observations to actions."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from paxenv_agents.agent import Agent
from paxenv_agents.types import MemoryState

#: `(agent_state, obs) -> action` of one game.
ActFn = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class KeyedActFn:
    """Says that a function takes a key: `function(agent_state, obs, key) -> action`.

    Attributes:
        function: Pure; its key is typed and new at every step of every episode.
    """

    function: Callable[[Any, Any, jax.Array], Any]

    def __call__(self, agent_state: Any, obs: Any, key: jax.Array) -> Any:
        """Returns the action of one game."""
        return self.function(agent_state, obs, key)


@dataclasses.dataclass(frozen=True)
class AgentActFn:
    """An agent as `(agent_state, obs) -> action`; equal for equal agents.

    `evaluate` plays the agent itself, with a key for every step. A call from elsewhere
    has no key, so an agent that draws although it is greedy draws the same each time.

    Attributes:
        agent: An agent without memory, greedy.
    """

    agent: Agent

    def __call__(self, agent_state: Any, obs: Any) -> jax.Array:
        """Returns the action of one game."""
        memory = self.agent.init_memory(jax.random.key(0), self.agent.init_hidden(1)[0])
        return self.agent.policy(agent_state, obs, memory)[0]


def agent_act_fn(agent: Agent) -> AgentActFn:
    """Returns the greedy policy of an agent as a function for `evaluate`.

    Functions of equal agents are equal, so `jit_evaluate` compiles once for them.

    Raises:
        ValueError: If the agent has a memory, which such a function cannot carry.
    """
    if agent.recurrent or agent.hidden_size:
        raise ValueError(
            f"{type(agent).__name__} has a memory, which (agent_state, obs) -> action "
            "cannot carry: use evaluate_agent"
        )
    return AgentActFn(dataclasses.replace(agent, greedy=True))


@dataclasses.dataclass(frozen=True)
class FunctionAgent(Agent):
    """Plays what a function of the agent's state returns; any pytree is a state.

    Attributes:
        function: `(agent_state, obs) -> action`, or a `KeyedActFn`.
    """

    _: dataclasses.KW_ONLY
    function: ActFn | KeyedActFn

    def policy(
        self, state: Any, obs: Any, memory: MemoryState
    ) -> tuple[jax.Array, Any, MemoryState]:
        if isinstance(self.function, KeyedActFn):
            key = jax.random.fold_in(memory.key, 0)
            action = self.function(state, obs, key)
        else:
            action = self.function(state, obs)
        return jnp.asarray(action), state, memory


def as_agent(act_fn: ActFn | KeyedActFn | AgentActFn, env: Any) -> Agent:
    """Returns the agent that plays the only seat of `env` by `act_fn`."""
    if isinstance(act_fn, AgentActFn):
        return act_fn.agent
    return FunctionAgent.from_env(env, function=act_fn)
