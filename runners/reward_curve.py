"""The picture of one training: returns of the episodes that have ended."""

from pathlib import Path
from typing import Any

import numpy as np

from runners import figures

#: Episodes of the moving mean.
WINDOW = 100


def draw(path: Path, episode_returns: list[float]) -> bool:
    """Draws the return of every episode in order, with their moving mean.

    Args:
        path: The file; its folder is made if it is missing.
        episode_returns: The returns.

    Returns:
        Whether there was anything to draw.
    """
    returns = np.array(episode_returns)
    if not returns.size:
        return False
    episodes = np.arange(1, returns.size + 1)
    _drawn(
        path,
        ("episode", episodes),
        ("return of an episode", returns),
        (f"mean of the last {WINDOW} episodes", moving_mean(returns, WINDOW)),
    )
    return True


def draw_means(path: Path, steps: Any, means: Any) -> bool:
    """Draws the mean return of the episodes that ended in each update.

    Args:
        path: The file; its folder is made if it is missing.
        steps: Environment steps at the end of the updates in which episodes ended.
        means: The means.

    Returns:
        Whether there was anything to draw.
    """
    means = np.asarray(means)
    if not means.size:
        return False
    _drawn(
        path,
        ("environment steps", np.asarray(steps)),
        ("mean return of the episodes that ended in an update", means),
        (f"mean of the last {WINDOW} such updates", moving_mean(means, WINDOW)),
    )
    return True


def moving_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Returns the mean of the last `window` values at each of them; of fewer at first.

    Example:
        >>> moving_mean(np.array([1.0, 3.0, 5.0]), 2).tolist()
        [1.0, 2.0, 4.0]
    """
    sums = np.cumsum(np.insert(values.astype(float), 0, 0.0))
    ends = np.arange(1, values.size + 1)
    begins = np.maximum(ends - window, 0)
    return (sums[ends] - sums[begins]) / (ends - begins)


def _drawn(
    path: Path,
    along: tuple[str, np.ndarray],
    single: tuple[str, np.ndarray],
    smooth: tuple[str, np.ndarray],
) -> None:
    """Draws two lines over one axis."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = figures.new_figure((7.0, 4.2))
    alone = figures.isolated(single[1])
    style: dict[str, Any] = {"marker": "o", "markevery": alone}
    style["color"] = figures.COLOURS[0]
    axes.plot(along[1], single[1], alpha=0.3, linewidth=1.0, label=single[0], **style)
    axes.plot(along[1], smooth[1], label=smooth[0], **style)
    axes.set_xlabel(along[0])
    axes.set_ylabel("return")
    figures.set_legend(figure)
    figures.save(figure, path)
