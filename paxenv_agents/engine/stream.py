"""Endless play: games open their next trial in the step that ends one.

The flat view of the engine, for rollouts of a set number of steps. Every learner is on
the trial clock; nobody learns while a rollout is played.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from paxenv import keys
from paxenv.auto_reset import AutoResetWrapper
from paxenv_agents.engine.episodes import (
    Episodes,
    InPlay,
    none_yet,
    with_end,
)
from paxenv_agents.engine.experience import Experience, assemble
from paxenv_agents.engine.game_batch import (
    GameBatch,
    States,
    across,
    as_tuple,
    batched,
    open_games,
    where_games,
)
from paxenv_agents.engine.lineup import Lineup
from paxenv_agents.engine.step import counted, play_step, records
from paxenv_agents.types import Stats


class Rollout(NamedTuple):
    """The play between two updates.

    Attributes:
        states: The training states, as they were.
        experiences: For each learning slot its `Experience`, else None.
        episodes: The inner episodes that ended, leaves `[games]`.
        totals: The games' statistics of these steps, summed over games.
        stats: Nothing: no slot updates while a rollout is played.
        stream: The games after it.
        returns: The return of every inner episode at the step that ended it, 0
            elsewhere, `[T, games, P]`.
        lengths: Its steps, 0 elsewhere, int32 `[T, games]`.
        params: The game's numbers by which it was played.
    """

    states: States
    experiences: tuple[Experience | None, ...]
    episodes: Episodes
    totals: Any
    stats: tuple[Stats, ...]
    stream: GameBatch
    returns: jax.Array
    lengths: jax.Array
    params: Any = ()


def open_stream(
    lineup: Lineup, params: PyTree, states: States, lane_keys: Key[Array, " games"]
) -> GameBatch:
    """Opens trial 0 of every lane; the games' states carry their lanes' keys.

    Args:
        lineup: The game and who plays it.
        params: The game's numbers, shared by all games.
        states: Training states in the order of the slots.
        lane_keys: Typed keys `[games]`; only folded.
    """
    episode_keys = jax.vmap(keys.episode, (0, None))(lane_keys, 0)
    batch = open_games(lineup, params, states, episode_keys)
    _, env_state = jax.vmap(AutoResetWrapper(lineup.env).reset, (0, None))(
        lane_keys, params
    )
    return batch.replace(env_state=env_state)


def play_steps(
    lineup: Lineup, params: PyTree, states: States, stream: GameBatch, num_steps: int
) -> Rollout:
    """Plays `num_steps` steps in every game.

    The games' own statistics start at 0 with each rollout; the sums of an inner
    episode go on from the one before. At the end of an inner episode the value after a
    time limit is computed, and then the memories are carried into the next one.

    Args:
        lineup: The game and who plays it.
        params: The game's numbers.
        states: Training states in the order of the slots.
        stream: The games.
        num_steps: Steps of the rollout; static.
    """
    opening = lineup.env.metrics_init()
    fresh = batched(opening.totals, lineup.num_games)
    batch = stream.replace(metrics=stream.metrics.replace(totals=fresh))
    episodes = jax.vmap(none_yet)(batch.episode)

    def step(carry: tuple[GameBatch, Episodes], nothing: None) -> Any:
        del nothing
        batch, episodes, *seen = _step(lineup, params, states, *carry)
        return (batch, episodes), tuple(seen)

    (batch, episodes), (records, clock, returns, lengths) = jax.lax.scan(
        step, (batch, episodes), None, num_steps
    )
    experiences = tuple(
        assemble(lineup, i, params, batch, [records[p] for p in slot.players], clock)
        if slot.learns
        else None
        for i, slot in enumerate(lineup.slots)
    )
    totals = jax.tree.map(lambda x: x.sum(0), batch.metrics.totals)
    return Rollout(
        states=states,
        experiences=experiences,
        episodes=episodes,
        totals=totals,
        stats=({},) * len(lineup.slots),
        stream=batch,
        returns=returns,
        lengths=lengths,
        params=params,
    )


def _step(
    lineup: Lineup, params: PyTree, states: States, batch: GameBatch, episodes: Episodes
) -> tuple[
    GameBatch, Episodes, tuple[Any, ...], dict[str, jax.Array], jax.Array, jax.Array
]:
    """Plays one step: (batch, episodes, records, flags, returns, lengths)."""
    env, before = lineup.env, batch.env_state
    episode_keys = jax.vmap(keys.episode)(before.lane_key, before.e)
    step_keys = jax.vmap(keys.step)(episode_keys, before.env.t)
    step_game = AutoResetWrapper(env).step
    played = play_step(lineup, params, states, batch, step_keys, step_game)
    info, done = played.info, played.done
    final_obs = as_tuple(lineup, info["final_obs"])
    clock = {
        "dones": info["terminated"] & done,
        "truncations": info["truncated"] & done,
        "valid": info["valid"],
        "inner_ends": info["inner_done"],
    }
    own = records(lineup, params, batch, played, final_obs)
    for p, player in enumerate(own):
        if player is not None:
            player["final_values"] = _final_value(
                lineup, params, states, p, final_obs[p], played.memories[p], clock
            )
    after = counted(lineup, batch, played)
    episode, metrics = after.episode, after.metrics
    episodes = jax.vmap(with_end)(
        episodes, episode, info["inner_done"], info["truncated"]
    )
    carry = batched(env.metrics_init().carry, lineup.num_games)
    after = after.replace(
        env_state=played.env_state,
        obs=played.obs,
        memories=where_games(
            info["inner_done"], across(lineup, states, played.memories), played.memories
        ),
        metrics=metrics.replace(carry=where_games(done, carry, metrics.carry)),
        episode=_opened(episode, info["inner_done"]),
    )
    returns = jnp.where(info["inner_done"][:, None], episode.returns, 0.0)
    lengths = jnp.where(info["inner_done"], episode.length, 0)
    return after, episodes, own, clock, returns, lengths


def _final_value(
    lineup: Lineup,
    params: Any,
    states: States,
    player: int,
    final_obs: Any,
    memory: Any,
    clock: dict[str, jax.Array],
) -> jax.Array:
    """Returns the value of what a truncated step led to, 0 for the other games."""
    index = lineup.slot_of(player)
    agent, truncated = lineup.slots[index].agent, clock["truncations"]
    seen = lineup.observed(player, final_obs, params)

    def values() -> jax.Array:
        value = agent.batch_value(states[index], seen, memory)
        return jnp.where(truncated, value, 0.0).astype(jnp.float32)

    zeros = jnp.zeros(truncated.shape, jnp.float32)
    return jax.lax.cond(jnp.any(truncated), values, lambda: zeros)


def _opened(episode: InPlay, inner_done: jax.Array) -> InPlay:
    """Returns the sums with those of ended episodes set back to 0."""
    zeros = jax.tree.map(jnp.zeros_like, episode)
    return where_games(inner_done, zeros, episode)
