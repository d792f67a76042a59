"""Reward by inner episode: how a trial goes while co-players learn."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from paxenv_agents.engine.episodes import Episodes
from runners.engine.statistics import confidence_band

#: Rewards per step by inner episode, `[opponents, inner episodes, players]`.
CURVES = "episode/curves"


def by_inner_episode(episodes: Episodes) -> Float32[Array, "... K players"]:
    """Returns rewards per step, float32 `[..., K, players]`.

    Args:
        episodes: Leaves `[..., K, games]`, returns `[..., K, games, players]`; games
            count by their steps.
    """
    steps = jnp.maximum(episodes.length.sum(-1), 1)
    return (episodes.returns.sum(-2) / steps[..., None]).astype(jnp.float32)


def last_inner_episode(episodes: Episodes) -> dict[str, Float32[Array, ""]]:
    """Returns every player's reward per step in the last inner episode, by name."""
    curves = by_inner_episode(episodes)
    last = curves[..., -1, :].reshape(-1, curves.shape[-1]).mean(0)
    return {
        f"episode/reward_per_step_last/player_{p + 1}": last[p]
        for p in range(last.shape[0])
    }


def as_dict(curves: Float[np.ndarray, "seeds opponents K players"]) -> dict[str, Any]:
    """Returns means, intervals and quartiles as plain data, by player.

    The mean and its 95 % interval are those of `units`; quartiles are over all seeds
    and opponents.

    Args:
        curves: `[seeds, opponents, K, players]`.
    """
    every = curves.reshape(-1, *curves.shape[2:])
    every = every[np.isfinite(every).all(axis=(1, 2))]
    values, _ = units(curves)
    if not len(values):
        return {f"player_{p + 1}": None for p in range(curves.shape[-1])}
    mean, half = confidence_band(values)
    quartiles = np.percentile(every, [25, 75], axis=0)
    bounds = None if len(values) == 1 else np.stack([mean - half, mean + half])
    return {
        f"player_{p + 1}": {
            "mean": mean[:, p].tolist(),
            "ci95": None if bounds is None else bounds[..., p].tolist(),
            "quartiles": quartiles[..., p].tolist(),
        }
        for p in range(curves.shape[-1])
    }


def units(
    curves: Float[np.ndarray, "seeds opponents K players"],
) -> tuple[Float[np.ndarray, "n K players"], str]:
    """Returns (independent repetitions `[n, K, players]`, what they are).

    Several seeds are repetitions, each the mean over its opponents; of one seed its
    opponents are. Those with a value that is not finite are left out.

    Args:
        curves: `[seeds, opponents, K, players]`.
    """
    seeds = curves.shape[0]
    values = curves.mean(axis=1) if seeds > 1 else curves[0]
    values = values[np.isfinite(values).all(axis=(1, 2))]
    return values, "seed" if seeds > 1 else "opponent"
