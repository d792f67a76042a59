"""The trial engine: trials of inner episodes, which are scans over `play_step`.

Axes, outermost first: inner episodes, steps, games. Callers add opponents and
populations outside by `vmap`.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from paxenv import keys
from paxenv_agents.engine.context import Context
from paxenv_agents.engine.episodes import Episodes, ended, joined, nothing_like
from paxenv_agents.engine.experience import Experience, Steps, gather, whole_trial
from paxenv_agents.engine.game_batch import (
    GameBatch,
    States,
    cross_boundary,
    open_games,
    where_games,
)
from paxenv_agents.engine.lineup import Lineup
from paxenv_agents.engine.step import counted, play_step, records
from paxenv_agents.types import Sample, Stats


class Trial(NamedTuple):
    """One trial of `num_games` games against one set of co-players.

    Attributes:
        states: Training states after the updates of inner-clock slots.
        experiences: For each slot on the trial clock its `Experience`, else None.
        episodes: The inner episodes, leaves `[K, games]`.
        totals: The games' statistics, summed over games.
        stats: For each inner-clock slot what its updates reported, each `[K]`.
        params: The game's numbers by which it was played.
    """

    states: States
    experiences: tuple[Experience | None, ...]
    episodes: Episodes
    totals: Any
    stats: tuple[Stats, ...]
    params: Any = ()

    @property
    def returns(self) -> Float[Array, "K players games"]:
        """Returns of the inner episodes, float `[K, players, games]`."""
        return jnp.moveaxis(self.episodes.returns, -1, -2)

    @property
    def lengths(self) -> Int[Array, "K games"]:
        """Lengths of the inner episodes in steps, int32 `[K, games]`."""
        return self.episodes.length


def play_trial(
    lineup: Lineup,
    params: PyTree,
    states: States,
    lane_keys: Key[Array, " games"],
    e: Int[Array, ""],
    *,
    scan: Callable[..., Any] = jax.lax.scan,
) -> Trial:
    """Plays trial number `e` of every lane, with inner-clock updates in between.

    At the end of an inner episode the values after time limits are computed, then all
    inner-clock slots update from the states before the end, and then the memories are
    carried into the next episode.

    Args:
        lineup: The game and who plays it.
        params: The game's numbers, shared by all games.
        states: Training states in the order of the slots.
        lane_keys: Typed keys `[games]`; only folded.
        e: int32 scalar.
        scan: What runs the inner episodes and keeps what they return:
            `paxenv_agents.engine.play.summed_scan` keeps sums.
    """
    env = lineup.env
    episode_keys = jax.vmap(keys.episode, (0, None))(lane_keys, e)
    batch = open_games(lineup, params, states, episode_keys, e)
    numbers = jnp.arange(env.num_outer_steps)

    def inner_episode(carry: tuple[States, GameBatch], k: jax.Array) -> Any:
        states, batch = carry
        acting = _scheduled(lineup, states, k)
        batch, steps = play_episode(lineup, params, acting, batch, episode_keys)
        is_last = k == env.num_outer_steps - 1
        experiences = [
            gather(lineup, i, params, acting[i], batch, steps, is_last)
            for i in range(len(lineup.slots))
        ]
        states, batch, stats = _inner_updates(
            lineup, params, states, acting, batch, experiences
        )
        out = (
            tuple(
                x if lineup.clock(i) == "trial" else None
                for i, x in enumerate(experiences)
            ),
            ended(batch.episode, steps.truncated.any(0)),
            stats,
        )
        batch = cross_boundary(lineup, params, states, batch, episode_keys)
        return (states, batch), out

    (states, batch), (stacked, episodes, stats) = scan(
        inner_episode, (states, batch), numbers
    )
    totals = jax.tree.map(lambda x: x.sum(0), batch.metrics.totals)
    experiences = tuple(whole_trial(x) for x in stacked)
    return Trial(states, experiences, episodes, totals, stats, params)


def play_fresh(
    lineup: Lineup, params: PyTree, states: States, key: Key[Array, ""]
) -> tuple[Sample | None, ...]:
    """Opens new games, plays one inner episode in them and returns the samples.

    The engine of `Context.play`.

    Args:
        lineup: The game and who plays it.
        params: The game's numbers.
        states: Training states in the order of the slots.
        key: Consumed; game i is played in the lane `fold_in(key, i)`.

    Returns:
        For each learning slot a sample of one whole episode, else None.
    """
    lane_keys = keys.folds(key, lineup.num_games)
    episode_keys = jax.vmap(keys.episode, (0, None))(lane_keys, 0)
    batch = open_games(lineup, params, states, episode_keys)
    batch, steps = play_episode(lineup, params, states, batch, episode_keys)
    return samples_of(
        gather(lineup, i, params, states[i], batch, steps, jnp.asarray(True))
        for i in range(len(lineup.slots))
    )


def samples_of(
    experiences: Iterable[Experience | None],
) -> tuple[Sample | None, ...]:
    """Returns each slot's sample, None for slots without experience."""
    return tuple(None if x is None else x.sample for x in experiences)


def context_of(
    lineup: Lineup,
    index: int,
    params: PyTree,
    states: States,
    samples: tuple[Sample | None, ...],
    **fields: Any,
) -> dict[str, Context]:
    """Returns the keyword `context` of a slot's update, nothing for most agents.

    Args:
        lineup: Who plays.
        index: The slot that is about to update.
        params: The game's numbers.
        states: Training states before the boundary.
        samples: For each learning slot its experience.
        **fields: More fields of the `Context`.
    """
    if not lineup.slots[index].agent.privileges:
        return {}
    context = Context(lineup, index, params, states, samples, play_fresh, **fields)
    return {"context": context}


def play_episode(
    lineup: Lineup,
    params: PyTree,
    states: States,
    batch: GameBatch,
    episode_keys: Key[Array, " games"],
) -> tuple[GameBatch, Steps]:
    """Plays the rest of an inner episode in all games; learns nothing.

    After a game's inner episode has ended, its observations and memories stay as they
    were after the last valid step.

    Args:
        lineup: The game and who plays it.
        params: The game's numbers.
        states: Training states in the order of the slots.
        batch: The games, freshly opened.
        episode_keys: Keys of the trial, `[games]`.
    """
    env = lineup.env

    def step(batch: GameBatch, nothing: None) -> tuple[GameBatch, Steps]:
        del nothing
        step_keys = jax.vmap(keys.step)(episode_keys, batch.env_state.t)
        played = play_step(lineup, params, states, batch, step_keys, env.step_inner)
        info = played.info
        after = counted(lineup, batch, played).replace(
            env_state=played.env_state,
            obs=where_games(info["valid"], played.obs, batch.obs),
            memories=where_games(info["valid"], played.memories, batch.memories),
        )
        own = records(lineup, params, batch, played, played.obs)
        return after, Steps(own, info["terminated"], info["truncated"], info["valid"])

    return jax.lax.scan(step, batch, None, env.num_inner_steps)


def _inner_updates(
    lineup: Lineup,
    params: PyTree,
    states: States,
    acting: States,
    batch: GameBatch,
    experiences: list[Experience | None],
) -> tuple[States, GameBatch, tuple[Stats, ...]]:
    """Updates every inner-clock slot from the states before the boundary."""
    after, memories = list(states), list(batch.memories)
    stats: list[Stats] = []
    for i, slot in enumerate(lineup.slots):
        experience = experiences[i]
        if lineup.clock(i) != "inner" or experience is None:
            stats.append({})
            continue
        sample, last_obs, memory = experience
        told = context_of(lineup, i, params, acting, samples_of(experiences))
        state, memory, report = slot.agent.update(
            sample, last_obs, acting[i], memory, **told
        )
        after[i] = state.replace(hyper=states[i].hyper)
        for seat, role in enumerate(lineup.roles_of(i)):
            games = slice(seat * lineup.num_games, (seat + 1) * lineup.num_games)
            memories[role] = jax.tree.map(lambda x, games=games: x[games], memory)
        stats.append(report)
    return tuple(after), batch.replace(memories=tuple(memories)), tuple(stats)


def _scheduled(lineup: Lineup, states: States, k: jax.Array) -> States:
    """Returns the states with each slot's hyperparameters of inner episode `k`."""
    return tuple(
        state
        if slot.schedule is None
        else state.replace(hyper=slot.schedule(state.hyper, k))
        for slot, state in zip(lineup.slots, states, strict=True)
    )


class Running(NamedTuple):
    """Sums over the episodes of a trial, of one size whatever their number.

    Attributes:
        total: Over all of them.
        last: Of the last one.
    """

    total: Episodes
    last: Episodes


def summed_scan(
    inner_episode: Callable[..., Any], init: PyTree, numbers: Int[Array, " K"]
) -> tuple[Any, Any]:
    """Runs inner episodes as `jax.lax.scan` does; memory does not grow with them.

    For `play_trial`, whose `episodes` are then a `Running`, and whose `stats` are means
    over the inner episodes.

    Args:
        inner_episode: From (carry, number) to (carry, (experiences, episodes, stats)).
        init: The carry before.
        numbers: Of the inner episodes, int32 `[K]`.

    Raises:
        ValueError: At trace time, if a slot learns from the whole trial, which is not
            kept.
    """
    shapes = jax.eval_shape(inner_episode, init, numbers[0])[1]
    experiences, episodes, stats = shapes
    if any(x is not None for x in experiences):
        raise ValueError(
            "a slot on the trial clock learns from the whole trial, of which only "
            "sums are kept here"
        )

    def step(carry: Any, k: jax.Array) -> tuple[Any, None]:
        inner, kept, sums = carry
        inner, (_, ended, report) = inner_episode(inner, k)
        kept = Running(joined(kept.total, ended), ended)
        return (inner, kept, jax.tree.map(jnp.add, sums, report)), None

    none = nothing_like(episodes)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), stats)
    start = (init, Running(none, none), zeros)
    (carry, kept, sums), _ = jax.lax.scan(step, start, numbers)
    means = jax.tree.map(lambda x: x / numbers.shape[0], sums)
    return carry, (experiences, kept, means)
