"""Reward by inner episode: how a trial goes while co-players learn."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from runners import figures

if TYPE_CHECKING:
    from paxenv_agents.episodes import Episodes
    from runners.plan import Plan

#: Rewards per step by inner episode, `[opponents, inner episodes, players]`.
CURVES = "episode/curves"


def by_inner_episode(episodes: "Episodes") -> jax.Array:
    """Returns rewards per step, float32 `[..., K, players]`.

    Args:
        episodes: Leaves `[..., K, games]`, returns `[..., K, games, players]`; games
            count by their steps.
    """
    steps = jnp.maximum(episodes.length.sum(-1), 1)
    return (episodes.returns.sum(-2) / steps[..., None]).astype(jnp.float32)


def last_inner_episode(episodes: "Episodes") -> dict[str, jax.Array]:
    """Returns every player's reward per step in the last inner episode, by name."""
    curves = by_inner_episode(episodes)
    last = curves[..., -1, :].reshape(-1, curves.shape[-1]).mean(0)
    return {
        f"episode/reward_per_step_last/player_{p + 1}": last[p]
        for p in range(last.shape[0])
    }


def as_dict(curves: np.ndarray) -> dict[str, Any]:
    """Returns means and quartiles over seeds and opponents as plain data, by player.

    Args:
        curves: `[seeds, opponents, K, players]`.
    """
    every = curves.reshape(-1, *curves.shape[2:])
    low, high = np.nanpercentile(every, [25, 75], axis=0)
    mean = np.nanmean(every, axis=0)
    return {
        f"player_{p + 1}": {
            "mean": mean[:, p].tolist(),
            "quartiles": [low[:, p].tolist(), high[:, p].tolist()],
        }
        for p in range(every.shape[-1])
    }


def draw(curves: np.ndarray, plan: "Plan", path: Path) -> None:
    """Draws reward per step over inner episodes; nothing for a single one.

    Lines are means over seeds and opponents, bands the middle half of them.

    Args:
        curves: `[seeds, opponents, K, players]`.
        plan: What was played.
        path: The picture.
    """
    every = curves.reshape(-1, *curves.shape[2:])
    every = every[np.isfinite(every).all(axis=(1, 2))]
    num_episodes = every.shape[1]
    if num_episodes == 1 or not len(every):
        return
    figure, axes = figures.new_figure((7.0, 4.2))
    x = np.arange(1, num_episodes + 1)
    low, high = np.percentile(every, [25, 75], axis=0)
    for p, agent in enumerate(plan.names[: every.shape[-1]]):
        colour = figures.COLOURS[p % len(figures.COLOURS)]
        style = figures.STYLES[p % len(figures.STYLES)]
        axes.plot(
            *(x, every[..., p].mean(0)),
            color=colour,
            linestyle=style,
            linewidth=1.8,
            label=f"player {p + 1} ({agent})",
        )
        axes.fill_between(
            *(x, low[:, p], high[:, p]), color=colour, alpha=0.18, linewidth=0
        )
    axes.set_xlabel("inner episode of the trial")
    axes.set_ylabel("reward per step")
    seeds, opponents = curves.shape[:2]
    subtitle = f"{plan.mode} actions, {seeds} seeds x {opponents} opponents; "
    figures.set_titles(axes, plan.title, subtitle + "bands: the middle half of them")
    figures.set_legend(figure)
    figures.save(figure, path)
