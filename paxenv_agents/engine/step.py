"""One step of a batch of games: all roles act, the games move, records are kept.

The scan over steps decides how a game steps (within an inner episode, or on into the
next trial) and what happens to games that have ended.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from paxenv_agents.engine.episodes import with_step
from paxenv_agents.engine.experience import record
from paxenv_agents.engine.game_batch import (
    GameBatch,
    States,
    act,
    as_tuple,
    chosen,
    joint,
)
from paxenv_agents.engine.lineup import Lineup
from paxenv_agents.types import MemoryState


class Step(NamedTuple):
    """What happened in one step of all games.

    Attributes:
        seen: Each role's observation, in the order of `Lineup.roles`, leaves
            `[games, ...]`.
        taken: Each role's action, `[games, ...]`.
        memories: Each role's memory after it.
        actions: The players' actions as the game takes them.
        obs: The observations after it, a tuple in player order.
        env_state: The games' states after it.
        rewards: Its rewards, a tuple in player order, `[games]` each.
        done: Whether the trial ended with it, bool `[games]`.
        info: Its info.
    """

    seen: tuple[Any, ...]
    taken: tuple[jax.Array, ...]
    memories: tuple[MemoryState, ...]
    actions: Any
    obs: tuple[Any, ...]
    env_state: Any
    rewards: tuple[jax.Array, ...]
    done: jax.Array
    info: dict[str, Any]


def play_step(
    lineup: Lineup,
    params: PyTree,
    states: States,
    batch: GameBatch,
    step_keys: Key[Array, " games"],
    step_game: Callable[..., Any],
) -> Step:
    """Returns one step: every role acts, then the games move.

    Args:
        lineup: The game and who plays it.
        params: The game's numbers.
        states: Training states in the order of the slots.
        batch: The games before the step.
        step_keys: The games' keys of this step, `[games]`; only folded.
        step_game: A step of one game, such as `Environment.step` or `step_inner`.
    """
    seen = tuple(
        lineup.observed(role, batch.obs[player], params)
        for role, (_, player) in enumerate(lineup.roles)
    )
    taken, memories = zip(
        *(
            act(lineup, states, role, seen[role], batch.memories[role], step_keys)
            for role in range(len(lineup.roles))
        ),
        strict=True,
    )
    actions = joint(chosen(lineup, batch, list(taken)))
    obs, env_state, rewards, done, info = jax.vmap(step_game, (0, 0, 0, None))(
        step_keys, batch.env_state, actions, params
    )
    return Step(
        seen=seen,
        taken=taken,
        memories=memories,
        actions=actions,
        obs=as_tuple(lineup, obs),
        env_state=env_state,
        rewards=as_tuple(lineup, rewards),
        done=done,
        info=info,
    )


def counted(lineup: Lineup, batch: GameBatch, step: Step) -> GameBatch:
    """Returns the games with a step added to their statistics and sums."""
    env = lineup.env
    add = jax.vmap(functools.partial(with_step, env))
    return batch.replace(
        metrics=jax.vmap(env.metrics_update)(
            batch.metrics, joint(batch.obs), step.actions, step.info
        ),
        episode=add(batch.episode, jnp.stack(step.rewards, -1), step.info),
    )


def records(
    lineup: Lineup,
    params: PyTree,
    batch: GameBatch,
    step: Step,
    next_obs: tuple[PyTree, ...],
) -> tuple[dict[str, Any] | None, ...]:
    """Returns each role's part of a sample, None for slots that do not learn.

    Args:
        lineup: Who plays.
        params: The game's numbers.
        batch: The games before the step.
        step: The step.
        next_obs: What the step led to before anything was opened anew, for all players.
    """
    return tuple(
        record(
            *(lineup, params, role, step.seen[role]),
            *((step.taken[role], step.memories[role]), step.rewards[player]),
            *(batch.memories[role], next_obs),
        )
        for role, (_, player) in enumerate(lineup.roles)
    )
