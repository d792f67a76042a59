"""Games in play: how a batch of games opens, and how it crosses an inner end."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Int, Key, Num, PyTree

from paxenv import keys, spaces
from paxenv.metrics import Accumulator
from paxenv_agents.agent import Agent
from paxenv_agents.engine.episodes import InPlay, in_play
from paxenv_agents.engine.lineup import Lineup, game_params
from paxenv_agents.types import MemoryState, TrainingState

States = tuple[TrainingState, ...]


class GameBatch(struct.PyTreeNode):
    """Games in play: every leaf has a leading axis `[games]`.

    Attributes:
        env_state: The games' states.
        obs: Observations, a tuple in player order.
        memories: Memories, a tuple in the order of `Lineup.roles`: player order.
        metrics: The games' statistics of the trial so far.
        episode: Sums of the inner episode in play.
        acting: Which roles act, bool `[games, roles]`; None: all do.
    """

    env_state: Any
    obs: tuple[Any, ...]
    memories: tuple[MemoryState, ...]
    metrics: Accumulator
    episode: InPlay
    acting: jax.Array | None = None


def open_games(
    lineup: Lineup,
    params: PyTree,
    states: States,
    episode_keys: Key[Array, " games"],
    e: Int[Array, ""] | int = 0,
    *,
    evaluates: bool = False,
) -> GameBatch:
    """Opens trial `e` in every game, with fresh memories.

    Args:
        lineup: The game and who plays it.
        params: The game's numbers, shared by all games.
        states: Training states in the order of the slots.
        episode_keys: Keys of the trial, `[games]`; only folded.
        e: The number of the trial.
        evaluates: What `Agent.reset_memory` is told: nobody learns from these games.
    """
    env = lineup.env
    reset_keys = jax.vmap(keys.reset)(episode_keys)
    obs, env_state = jax.vmap(env.reset, (0, None))(reset_keys, params)
    memories = []
    for role, (index, p) in enumerate(lineup.roles):
        agent = lineup.slots[index].agent
        hidden = agent.init_hidden(lineup.num_games)
        seat = lineup.key_player(p)
        player_keys = jax.vmap(keys.player, (0, None))(reset_keys, seat)
        memory = jax.vmap(agent.init_memory)(player_keys, hidden)
        memory = agent.batch_reset(memory, evaluates)
        seen = lineup.observed(role, as_tuple(lineup, obs)[p], params)
        memory = with_extras(agent, states[index], seen, memory)
        numbers = game_params(params)
        memories.append(agent.batch_observe_params(memory, numbers, seat))
    return GameBatch(
        env_state=env_state,
        obs=as_tuple(lineup, obs),
        memories=tuple(memories),
        metrics=batched(env.metrics_init(), lineup.num_games),
        episode=_no_steps(lineup, env_state, params),
        acting=lineup.active_roles(episode_keys, jnp.asarray(e)),
    )


def cross_boundary(
    lineup: Lineup,
    params: PyTree,
    states: States,
    batch: GameBatch,
    episode_keys: Key[Array, " games"],
) -> GameBatch:
    """Opens the next inner episode; what comes after the last one is not used."""
    env = lineup.env
    if env.num_outer_steps == 1:
        return batch
    begin_keys = jax.vmap(keys.begin)(episode_keys, batch.env_state.t)
    obs, env_state = jax.vmap(env.begin_episode, (0, 0, None))(
        begin_keys, batch.env_state, params
    )
    return batch.replace(
        env_state=env_state,
        obs=as_tuple(lineup, obs),
        memories=across(lineup, states, batch.memories),
        episode=jax.tree.map(jnp.zeros_like, batch.episode),
    )


def across(
    lineup: Lineup, states: States, memories: tuple[MemoryState, ...]
) -> tuple[MemoryState, ...]:
    """Returns the memories with which the next inner episode opens.

    Args:
        lineup: Who plays.
        states: Training states in the order of the slots.
        memories: In the order of `Lineup.roles`, leaves `[games, ...]`.
    """
    return tuple(
        lineup.slots[index].agent.batch_end_inner(states[index], memory)
        for (index, _), memory in zip(lineup.roles, memories, strict=True)
    )


def act(
    lineup: Lineup,
    states: States,
    role: int,
    obs: PyTree,
    memory: MemoryState,
    step_keys: Key[Array, " games"],
) -> tuple[Num[Array, "games ..."], MemoryState]:
    """Acts with the scheduled key in memory, and puts the old key back."""
    index, player = lineup.roles[role]
    seat = lineup.key_player(player)
    scheduled = memory.replace(key=jax.vmap(keys.player, (0, None))(step_keys, seat))
    action, _, after = lineup.slots[index].agent.batch_policy(
        states[index], obs, scheduled
    )
    return action, after.replace(key=memory.key)


def chosen(
    lineup: Lineup, batch: GameBatch, actions: list[Num[Array, "games ..."]]
) -> tuple[Num[Array, "games ..."], ...]:
    """Returns every player's action from those of the roles."""
    taken = list(actions[: lineup.num_players])
    if batch.acting is not None:
        for role in range(lineup.num_players, len(lineup.roles)):
            player = lineup.roles[role][1]
            taken[player] = where_games(
                batch.acting[:, role], actions[role], taken[player]
            )
    return tuple(taken)


def with_extras(
    agent: Agent, state: TrainingState, seen: PyTree, memory: MemoryState
) -> MemoryState:
    """Gives memories the structure that `policy` returns, so that a scan carries them.

    Those that open with it, and what they hold, stay as they are.

    Args:
        agent: Whose memories they are.
        state: Its training state.
        seen: What it sees first, leaves `[games, ...]`.
        memory: Its memories, leaves `[games, ...]`.
    """
    after = jax.eval_shape(agent.batch_policy, state, seen, memory)[2]
    if jax.tree.structure(memory.extras) == jax.tree.structure(after.extras):
        return memory
    extras = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), after.extras)
    return memory.replace(extras=extras)


def as_tuple(lineup: Lineup, values: PyTree) -> tuple[PyTree, ...]:
    """Returns per-player values as a tuple; a one-player game has bare ones."""
    return (values,) if lineup.num_players == 1 else values


def joint(values: tuple[PyTree, ...]) -> PyTree:
    """Returns per-player values as the game takes them: bare for one player."""
    return values[0] if len(values) == 1 else values


def where_games(valid: Bool[Array, " games"], new: PyTree, old: PyTree) -> PyTree:
    """Selects by game: `valid` is [games], leaves are [games, ...]."""

    def select(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(valid.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(select, new, old)


def batched(tree: PyTree, n: int) -> PyTree:
    """Returns n copies of a pytree along a new leading axis."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (n, *jnp.shape(x))), tree)


def _no_steps(lineup: Lineup, env_state: Any, params: PyTree) -> InPlay:
    """Returns the sums of inner episodes that have just opened, leaves `[games]`."""
    env = lineup.env

    def reported() -> Any:
        actions = tuple(
            jnp.zeros(space.shape or (), spaces.dtype_of(space))
            for space in map(env.action_space, range(lineup.num_players))
        )
        state = jax.tree.map(lambda x: x[0], env_state)
        key = jax.random.key(0)
        info = env.step_inner(key, state, joint(actions), params)[4]
        return info.get("reward_components", {}), env.logged(info)

    opened = in_play(lineup.num_players, *jax.eval_shape(reported))
    return batched(opened, lineup.num_games)
