"""A scan over inner episodes that keeps sums where others keep every episode."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from paxenv_agents.episodes import Episodes, joined, nothing_like


class Running(NamedTuple):
    """What is kept of the episodes of a trial, whatever their number.

    Attributes:
        total: Over all of them.
        last: Of the last one.
    """

    total: Episodes
    last: Episodes


def summed_scan(
    inner_episode: Callable[..., Any], init: Any, numbers: jax.Array
) -> tuple[Any, Any]:
    """Runs inner episodes as `jax.lax.scan` does; memory does not grow with them.

    For `paxenv_agents.play.play_trial`, whose `episodes` are then a `Running`, and
    whose `stats` are means over the inner episodes.

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
