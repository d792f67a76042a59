"""What all pictures have in common: size, colours, bands, and no need of a display."""

from pathlib import Path
from typing import Any

import numpy as np

from runners.summary import t_quantile

# Blue, orange, green, purple, ...: told apart by colour-blind eyes and in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#8E5EA2", "#E69F00", "#56B4E9")
STYLES = ("-", "--", "-.", ":")
DPI = 150
GREY = "#555555"


def new_figure(size: tuple[float, float]) -> tuple[Any, Any]:
    """Returns a figure of a size in inches, and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)
    return figure, axes


def draw_curve(
    axes: Any, number: int, x: np.ndarray, values: np.ndarray, label: str
) -> None:
    """Draws the mean over seeds as a line, its 95 % confidence interval as a band.

    Args:
        axes: Where.
        number: Which curve it is, from 0: gives colour and line style.
        x: Where the values stand, `[points]`.
        values: `[seeds, points]`; the line has a gap where one is not finite.
        label: The curve's name in the legend.
    """
    mean, half = confidence_band(values)
    colour = COLOURS[number % len(COLOURS)]
    axes.plot(
        *(x, mean),
        color=colour,
        linestyle=STYLES[number % len(STYLES)],
        linewidth=1.8,
        label=label,
        marker="o" if len(x) == 1 else None,
    )
    axes.fill_between(
        x, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0
    )


def confidence_band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns means and half-widths over seeds of values `[seeds, points]`.

    Half the width of the 95 % confidence interval of the mean, by Student's t; zero
    for one seed, of which no interval is known.
    """
    seeds = values.shape[0]
    mean = values.mean(axis=0)
    if seeds == 1:
        return mean, np.zeros_like(mean)
    half = t_quantile(seeds - 1) * values.std(axis=0, ddof=1) / np.sqrt(seeds)
    return mean, half


def set_titles(axes: Any, title: str, subtitle: str) -> None:
    """Writes a title, and beneath it in grey what the picture shows."""
    axes.set_title(title, loc="left", fontsize=11, pad=20)
    axes.text(0, 1.02, subtitle, transform=axes.transAxes, fontsize=8.5, color=GREY)


def set_legend(figure: Any, columns: int = 3) -> None:
    """Puts the legend beneath the axes, where it hides no data."""
    figure.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=columns)


def save(figure: Any, path: Path) -> None:
    """Writes the picture; the format follows from the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI)
