"""Opponents that play the other seats of a single-agent environment."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from paxenv import keys, registry, spaces
from paxenv.environment import Environment
from paxenv.single_player import CO_PLAYER_SEED, SinglePlayer
from paxenv_agents import weights
from paxenv_agents.agent import Agent
from paxenv_agents.engine import learning_co_players
from paxenv_agents.engine.one_of import OneOf
from paxenv_agents.registry import make_agent
from paxenv_agents.types import Acted, MemoryState, TrainingState


@dataclasses.dataclass(frozen=True)
class FromFunction(Agent):
    """Plays what `function(obs, key)` returns; without memory, without learning.

    Attributes:
        function: Takes one observation and a typed key of its own for each step, and
            returns one action. It is compiled with the game, so it must be written
            in JAX: `jnp.where(obs[1], 1, 0)`, not `if obs[1]: ...`.

    Raises:
        ValueError: If JAX cannot trace the function, or its action has the wrong
            shape or is a fraction of a discrete action.
    """

    _: dataclasses.KW_ONLY
    function: Callable[[Any, jax.Array], Any]

    def __post_init__(self) -> None:
        name = getattr(self.function, "__name__", repr(self.function))
        action = self._traced(name)
        shape = self.action_space.shape
        if action.shape != shape:
            raise ValueError(
                f"{name}(obs, key) returned an action of shape {action.shape}, the "
                f"action space {self.action_space} needs {shape}"
            )
        discrete = isinstance(self.action_space, gymnasium.spaces.Discrete)
        if discrete and not jnp.issubdtype(action.dtype, jnp.integer):
            raise ValueError(
                f"{name}(obs, key) returned {action.dtype}, the action space "
                f"{self.action_space} needs whole numbers"
            )

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        action = self.function(obs, keys.fold_in(memory.key, 0))
        after = memory.replace(key=keys.fold_in(memory.key, 1))
        return jnp.asarray(action, spaces.dtype_of(self.action_space)), state, after

    def _traced(self, name: str) -> Any:
        sample = self.observation_space.sample()
        obs = jax.tree.map(jnp.asarray, sample)

        def act(obs: PyTree, key: jax.Array) -> jax.Array:
            return jnp.asarray(self.function(obs, key))

        try:
            return jax.eval_shape(act, obs, jax.random.key(0))
        except Exception as error:
            raise ValueError(
                f"JAX cannot trace {name}(obs, key), which must be written in JAX to "
                f"be compiled with the game: {error}"
            ) from error


#: Players' weights are saved under this suffix.
CHECKPOINT_SUFFIX = ".msgpack"


def make_single_player(
    game_id: str,
    player: int,
    opponent: Any,
    opponent_learns: bool = False,
    **options: Any,
) -> tuple[Environment | SinglePlayer, PyTree]:
    """Makes a game and seats opponents, so that one player is left.

    Args:
        game_id: Id of the game.
        player: The seat that is left, from 0.
        opponent: The agent that plays every other seat: the name of an agent, an agent,
            a pair (agent, training state), the path of a saved player, a function
            `(obs, key) -> action` written in JAX, or a list of these, of which one is
            drawn for each trial. None is the game's usual opponent.
        opponent_learns: Whether it updates at the end of every inner episode. Each
            trial begins with a new training state, or with the one that was given or
            saved.
        **options: Options of the game; see `paxenv.make`.

    Returns:
        (env, params) of a one-player game; a game of one player comes back as it is.

    Raises:
        ValueError: If an argument is refused; the message names the value.
    """
    env, params = registry.make(game_id, **options)
    if env.num_players == 1:
        if opponent is not None or player != 0 or opponent_learns:
            raise ValueError(
                f"{game_id} has one player: it takes no opponent and no player, got "
                f"opponent={opponent!r}, player={player!r}"
            )
        return env, params
    if player not in range(env.num_players):
        raise ValueError(f"player must be in [0, {env.num_players}), got {player!r}")
    if opponent is None:
        opponent = registry.find(game_id).opponent
    seats = [p for p in range(env.num_players) if p != player]
    agents, states = zip(*(resolve(opponent, env, p) for p in seats), strict=True)
    learning = None
    if opponent_learns:
        agents, learning = _learning(opponent, agents, env)
    single = SinglePlayer(env, int(player), agents, learning)
    return single, single.make_params(params, states)


def resolve(
    opponent: Any, env: Environment, player: int
) -> tuple[Agent, TrainingState]:
    """Returns (agent, training state) of the opponent at one seat.

    Raises:
        ValueError: If `opponent` is nothing that can play there.
    """
    if isinstance(opponent, tuple) and len(opponent) == 2:
        agent, state = opponent
        if _is_agent(agent) and not _is_agent(state):
            return _fitting(agent, env, player), state
    if isinstance(opponent, list | tuple):
        return _one_of(opponent, env, player)
    agent = _agent(opponent, env, player)
    if isinstance(agent, tuple):
        return agent
    key = keys.player(jax.random.key(CO_PLAYER_SEED), player)
    return agent, agent.make_initial_state(key, agent.init_hidden(1)[0])[0]


def _learning(
    opponent: Any, agents: tuple[Any, ...], env: Any
) -> tuple[tuple[Any, ...], Any]:
    """Returns the opponents as they learn within a trial, and how they do."""
    types = " and ".join(type(agent).__name__ for agent in agents)
    named = opponent if isinstance(opponent, str) else types
    learning_co_players.check(agents, env.num_inner_steps, env.num_outer_steps, named)
    made = tuple(agent.planned(env.num_outer_steps).sized(1) for agent in agents)
    has_state = isinstance(opponent, tuple) or _is_path(opponent)
    resets = tuple(agent.learns and not has_state for agent in made)
    return made, learning_co_players.LearningCoPlayers(resets)


def _agent(opponent: Any, env: Any, player: int) -> Any:
    """Returns an agent, or (agent, training state) where it comes with one."""
    if _is_agent(opponent):
        return _fitting(opponent, env, player)
    if _is_path(opponent):
        return _saved(opponent, env, player)
    if isinstance(opponent, str):
        return make_agent(opponent, env, player)
    if callable(opponent) and not isinstance(opponent, type):
        return FromFunction.from_env(env, player, function=opponent)
    raise ValueError(
        "opponent must be the name of an agent, an agent, a pair (agent, training "
        "state), the path of a saved player, a function (obs, key) -> action, or a "
        f"list of these, got {opponent!r}"
    )


def _saved(path: Any, env: Any, player: int) -> tuple[Any, Any]:
    try:
        return weights.load_agent(path, env, player)
    except FileNotFoundError as error:
        raise ValueError(f"opponent: there is no saved player at {path}") from error


def _one_of(opponents: Any, env: Any, player: int) -> tuple[Any, Any]:
    if not opponents:
        raise ValueError("opponent: a list must name at least one opponent, got none")
    members, states = zip(*(resolve(o, env, player) for o in opponents), strict=True)
    agent = OneOf.from_env(env, player, members=members)
    return agent, TrainingState(params=states)


def _is_agent(value: Any) -> bool:
    return isinstance(value, Agent)


def _is_path(opponent: Any) -> bool:
    if isinstance(opponent, os.PathLike):
        return True
    return isinstance(opponent, str) and (
        opponent.endswith(CHECKPOINT_SUFFIX) or os.sep in opponent
    )


def _fitting(agent: Any, env: Any, player: int) -> Any:
    seat = env.observation_space(player), env.action_space(player)
    if (agent.observation_space, agent.action_space) != seat:
        raise ValueError(
            f"opponent {type(agent).__name__} was made for the observations "
            f"{agent.observation_space} and actions {agent.action_space}; player "
            f"{player} of {env.name} has {seat[0]} and {seat[1]}"
        )
    return agent
