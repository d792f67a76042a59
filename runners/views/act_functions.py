"""Evaluation of a function of an agent's state: `(agent_state, obs) -> action`."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.registry import check_agent
from paxenv_agents.types import MemoryState
from runners.engine.statistics import EvalMetrics, summarise
from runners.session.evaluation import play_episodes
from runners.session.runner_config import OnePlayerGame

#: `(agent_state, obs) -> action` of one game.
ActFn = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class KeyedActFn:
    """Marks a function that takes a key: `function(agent_state, obs, key) -> action`.

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

    `evaluate` plays the agent itself, with a key for every step. A call of this
    function has no key, so an agent that draws although it is greedy draws the same
    each time.

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
        ValueError: If it is no agent, or has a memory, which such a function cannot
            carry.
    """
    check_agent(agent)
    if agent.recurrent or agent.hidden_size:
        raise ValueError(
            f"{type(agent).__name__} has a memory, which (agent_state, obs) -> action "
            "cannot carry: use evaluate_agent"
        )
    return AgentActFn(dataclasses.replace(agent, greedy=True))


@dataclasses.dataclass(frozen=True)
class FunctionAgent(Agent):
    """Plays the actions of a function of the agent's state, which may be any pytree.

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


def as_agent(act_fn: ActFn | KeyedActFn | AgentActFn, env: OnePlayerGame) -> Agent:
    """Returns the agent that plays the only seat of `env` by `act_fn`."""
    if isinstance(act_fn, AgentActFn):
        return act_fn.agent
    return FunctionAgent.from_env(env, function=act_fn)


def evaluate(
    act_fn: ActFn | KeyedActFn | AgentActFn,
    agent_state: PyTree,
    env: OnePlayerGame,
    env_params: PyTree,
    *,
    n_episodes: int,
    max_steps: int,
    rng: jax.Array,
) -> EvalMetrics:
    """Returns the mean return, its deviation and the mean length of whole episodes.

    Args:
        act_fn: `(agent_state, obs) -> action` of one game, pure; usually greedy.
            Pass `KeyedActFn(f)` if it takes a key too, `agent_act_fn(agent)` for an
            agent.
        agent_state: Its numbers, any pytree, shared by all episodes. If any of them
            is NaN, so are the metrics, since there is no policy then.
        env: A game of one player, with or without `AutoResetWrapper`; `SinglePlayer`
            makes one of any other.
        env_params: The game's numbers; None: its own.
        n_episodes: Episodes, all at once.
        max_steps: The number of steps after which an episode is cut off.
        rng: Episode i is trial 0 of the lane `fold_in(rng, i)`, whatever `n_episodes`.

    Raises:
        ValueError: If the game has more players or a number is out of range.
    """
    agent = as_agent(act_fn, env)
    return evaluate_agent(
        agent, agent_state, env, env_params, rng, n_episodes, max_steps
    )


#: `evaluate`, compiled; the same `act_fn` (not an equal lambda) compiles only once.
jit_evaluate = structure.jit("act_fn", "env", "n_episodes", "max_steps")(evaluate)


def evaluate_agent(
    agent: Agent,
    state: PyTree,
    env: OnePlayerGame,
    env_params: PyTree,
    key: jax.Array,
    n_episodes: int,
    max_steps: int,
) -> EvalMetrics:
    """Returns the metrics of an agent that carries its memory through each episode.

    Its field `greedy` decides how it acts; the other arguments are those of `evaluate`.
    """
    stats = play_episodes(
        agent, state, env, env_params, key, n_episodes=n_episodes, max_steps=max_steps
    )
    named = summarise(stats)
    return EvalMetrics(
        mean_return=named["eval/mean_reward"],
        std_return=named["eval/std_reward"],
        mean_length=named["eval/mean_length"],
    )
