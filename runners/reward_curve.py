"""The picture of one training: the return of every finished episode."""

from pathlib import Path

import numpy as np

from paxenv.wording import counted
from runners import figures

#: Episodes of the moving mean.
WINDOW = 100


def draw(path: Path, episode_returns: list[float]) -> bool:
    """Draws returns in order, with their moving mean.

    Args:
        path: The file; its folder is made if it is missing.
        episode_returns: The returns.

    Returns:
        Whether there was anything to draw.
    """
    returns = np.array(episode_returns)
    if not returns.size:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = figures.new_figure((7.0, 4.2))
    axes.plot(returns, color=figures.COLOURS[0], alpha=0.3, linewidth=1.0)
    window = min(WINDOW, returns.size)
    smooth = np.convolve(returns, np.full(window, 1 / window), mode="valid")
    axes.plot(
        np.arange(window - 1, returns.size),
        smooth,
        color=figures.COLOURS[0],
        label=f"mean of the last {counted(window, 'episode')}",
    )
    axes.set_xlabel("episode")
    axes.set_ylabel("return")
    figures.set_legend(figure)
    figures.save(figure, path)
    return True
