"""Evaluation: whole episodes in games of their own, without learning.

Every episode is the first trial of a lane of its own and is played to its end, so that
short ones do not count more than long ones.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from paxenv import keys
from paxenv.auto_reset import AutoResetWrapper
from paxenv.environment import native
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.engine.game_batch import GameBatch, open_games
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.step import across, play_step
from paxenv_agents.types import MemoryState
from runners.engine.devices import count
from runners.engine.statistics import EpisodeStats, EvalMetrics, summarise
from runners.session.runner_config import params_of

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


class _Games(NamedTuple):
    """Games in play, and their steps so far (an int32 scalar)."""

    batch: GameBatch
    stats: EpisodeStats
    num_steps: jax.Array


def evaluate(
    act_fn: ActFn | KeyedActFn | AgentActFn,
    agent_state: Any,
    env: Any,
    env_params: Any,
    *,
    n_episodes: int,
    max_steps: int,
    rng: jax.Array,
) -> EvalMetrics:
    """Returns the mean return, its deviation and the mean length of whole episodes.

    Args:
        act_fn: `(agent_state, obs) -> action` of one game, pure; usually greedy.
            `KeyedActFn(f)` where it takes a key too, `agent_act_fn(agent)` for an
            agent.
        agent_state: Its numbers, any pytree, shared by all episodes. If any of them
            is NaN, so are the metrics: no policy follows from it.
        env: A game of one player, with or without `AutoResetWrapper`; `SinglePlayer`
            makes one of any other.
        env_params: The game's numbers; None: its own.
        n_episodes: Episodes, all at once.
        max_steps: An episode counts as it stands after so many steps.
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
    state: Any,
    env: Any,
    env_params: Any,
    key: jax.Array,
    n_episodes: int,
    max_steps: int,
) -> EvalMetrics:
    """Returns the metrics of an agent that carries its memory through each episode.

    It acts as its field `greedy` says; the other arguments are those of `evaluate`.
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


def greedy_statistics(
    agent: Agent, state: Any, env: Any, env_params: Any, key: jax.Array, n_episodes: int
) -> dict[str, float]:
    """Returns `summarise` of whole episodes of the greedy agent, as Python numbers.

    Compiled once for equal agents and games. The arguments are those of
    `evaluate_agent`; an episode goes on to the game's own limit.
    """
    stats = _play_compiled(
        dataclasses.replace(agent, greedy=True),
        *(state, env, env_params, key),
        n_episodes=n_episodes,
        max_steps=env.num_inner_steps * env.num_outer_steps,
    )
    return {name: float(x) for name, x in summarise(stats).items()}


def play_episodes(
    agent: Agent,
    state: Any,
    env: Any,
    env_params: Any,
    key: jax.Array,
    *,
    n_episodes: int,
    max_steps: int,
) -> EpisodeStats:
    """Plays `n_episodes` episodes side by side until the last one has ended.

    Pure; compile it with `agent`, `env`, `n_episodes` and `max_steps` static. The
    arguments are those of `evaluate_agent`.
    """
    n_episodes = count("n_episodes", n_episodes)
    max_steps = count("max_steps", max_steps)
    # Every lane plays one trial: what opens the next one would never be seen.
    env = env.env if isinstance(env, AutoResetWrapper) else env
    _check_seat(agent, env)
    env_params = params_of(env, env_params)
    lane_keys = jax.vmap(jax.random.fold_in, (None, 0))(
        keys.typed(key), jnp.arange(n_episodes)
    )
    episode_keys = jax.vmap(keys.episode, (0, None))(lane_keys, 0)
    lineup = Lineup(env, (Slot(agent, clock="none"),), n_episodes)
    batch = open_games(lineup, env_params, (state,), episode_keys, evaluates=True)
    games = _Games(batch, _no_steps(state, n_episodes), jnp.zeros((), jnp.int32))

    def goes_on(games: _Games) -> jax.Array:
        return games.stats.unfinished.any() & (games.num_steps < max_steps)

    def step(games: _Games) -> _Games:
        return _step(lineup, state, env_params, episode_keys, games)

    return jax.lax.while_loop(goes_on, step, games).stats


_play_compiled = structure.jit("agent", "env", "n_episodes", "max_steps")(play_episodes)


def _no_steps(state: Any, num_games: int) -> EpisodeStats:
    """Returns the statistics of episodes that have just opened."""
    never = jnp.zeros(num_games, bool)
    broken = never | _holds_nan(state)
    zeros = jnp.zeros(num_games, jnp.result_type(float))
    return EpisodeStats(
        returns=jnp.where(broken, jnp.nan, zeros),
        lengths=jnp.zeros(num_games, jnp.int32),
        truncated=never,
        unfinished=~never,
        broken=broken,
    )


def _step(
    lineup: Lineup, state: Any, env_params: Any, episode_keys: jax.Array, games: _Games
) -> _Games:
    env, batch, old = lineup.env, games.batch, games.stats
    step_keys = jax.vmap(keys.step)(episode_keys, batch.env_state.t)

    def step_games(env_state: Any, actions: Any) -> Any:
        # After a trial has ended the game stands still, pays 0 and raises no flag.
        step_env = jax.vmap(env.step, (0, 0, 0, None))
        return step_env(step_keys, env_state, actions, env_params)

    step = play_step(lineup, env_params, (state,), batch, step_keys, step_games)
    valid, done, (reward,) = step.info["valid"], step.done, step.rewards
    broken = valid & _games_with_nan((step.taken, step.memories), valid.shape[0])
    stats = EpisodeStats(
        returns=jnp.where(broken, jnp.nan, old.returns + reward),
        lengths=old.lengths + valid,
        truncated=old.truncated | (done & step.info["truncated"]),
        unfinished=old.unfinished & ~done,
        broken=old.broken | broken,
    )
    memories = step.memories
    if env.num_outer_steps > 1:
        memories = across(lineup, (state,), memories, step.info["inner_done"])
    batch = batch.replace(env_state=step.env_state, obs=step.obs, memories=memories)
    return _Games(batch, stats, games.num_steps + 1)


def _check_seat(agent: Agent, env: Any) -> None:
    if native(env).num_players != 1:
        raise ValueError(
            f"an evaluation plays games of one player, {env.name or env} has "
            f"{env.num_players}: seat the others by SinglePlayer(env, player, "
            "co_players)"
        )
    if agent.action_space != env.action_space(0):
        raise ValueError(
            f"{type(agent).__name__} acts in {agent.action_space}, the game takes "
            f"{env.action_space(0)}"
        )


def _floats(tree: Any) -> list[jax.Array]:
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return [x for x in leaves if jnp.issubdtype(x.dtype, jnp.floating)]


def _holds_nan(tree: Any) -> jax.Array:
    found = jnp.zeros((), bool)
    for leaf in _floats(tree):
        found |= jnp.isnan(leaf).any()
    return found


def _games_with_nan(tree: Any, num_games: int) -> jax.Array:
    found = jnp.zeros(num_games, bool)
    for leaf in _floats(tree):  # [E, ...]
        found |= jnp.isnan(leaf.reshape(num_games, -1)).any(1)
    return found
