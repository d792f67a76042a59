"""What whole episodes of an evaluation come to, one by one and together."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class EvalMetrics(NamedTuple):
    """What an evaluation says, float scalars; all NaN where a NaN decided an action.

    Attributes:
        mean_return: Mean over episodes of the sum of rewards.
        std_return: Standard deviation of these sums over the episodes played.
        mean_length: Mean number of steps.
    """

    mean_return: jax.Array
    std_return: jax.Array
    mean_length: jax.Array


class EpisodeStats(NamedTuple):
    """Episodes one by one; every leaf is `[episodes]`.

    Attributes:
        returns: Sum of rewards, NaN where a NaN decided an action.
        lengths: Steps played, int32.
        truncated: Whether the game's time limit ended it.
        unfinished: Whether it was still going on after `max_steps`.
        broken: Whether a NaN was found in the agent's state, memory or actions.
    """

    returns: jax.Array
    lengths: jax.Array
    truncated: jax.Array
    unfinished: jax.Array
    broken: jax.Array


def summarise(stats: EpisodeStats) -> dict[str, jax.Array]:
    """Returns statistics of episodes by the names that logs use; scalars.

    `eval/truncated_fraction` is the share that time ended, be it the game's limit or
    `max_steps`. All but the number of episodes are NaN where an episode is broken.
    """
    returns = stats.returns
    low, high = returns.min(), returns.max()
    # The rounding of a mean must not carry it out of its range.
    mean = jnp.clip(returns.mean(), low, high)
    cut = (stats.truncated | stats.unfinished).astype(returns.dtype)
    unless_broken = jnp.where(stats.broken.any(), jnp.nan, jnp.zeros((), returns.dtype))
    return {
        "eval/mean_reward": mean,
        "eval/std_reward": returns.std(),
        "eval/min_reward": low,
        "eval/max_reward": high,
        "eval/mean_length": stats.lengths.astype(returns.dtype).mean() + unless_broken,
        "eval/n_episodes": jnp.asarray(returns.shape[0], jnp.int32),
        "eval/truncated_fraction": cut.mean() + unless_broken,
        "mean_eval_reward": mean,
    }
