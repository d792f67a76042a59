"""The picture of a search: fitness over generations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runners import figures

#: Curves, and what they are called.
CURVES = {
    "fitness/best": "best of a generation",
    "fitness/mean": "mean",
    "fitness/worst": "worst",
}


def draw_fitness(path: Path, rows: Sequence[Mapping[str, Any]], title: str) -> bool:
    """Draws the best, the mean and the worst fitness of every generation.

    Args:
        path: The picture.
        rows: The logged rows.
        title: What was searched.

    Returns:
        Whether there was anything to draw.
    """
    rows = [row for row in rows if "fitness/mean" in row]
    if not rows:
        return False
    figure, axes = figures.new_figure((7.0, 4.2))
    for number, (name, label) in enumerate(CURVES.items()):
        values = [row[name] for row in rows]
        axes.plot(
            [row["iteration"] for row in rows],
            values,
            marker="o",
            markevery=figures.isolated(values),
            color=figures.COLOURS[number],
            linestyle=figures.STYLES[number],
            label=label,
        )
    axes.set_xlabel("generation")
    axes.set_ylabel("mean return of an evaluation")
    figures.set_titles(axes, title, "fitness of the individuals of each generation")
    figures.set_legend(figure)
    figures.save(figure, path)
    return True
