"""Common parts of pictures: size, colours, bands; no display is needed."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from paxenv.wording import counted
from runners.engine.statistics import confidence_band

# Blue, orange, green, purple, ...: told apart by colour-blind eyes and in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#8E5EA2", "#E69F00", "#56B4E9")
STYLES = ("-", "--", "-.", ":")
DPI = 150
GREY = "#555555"
#: Endings of the formats of pictures.
FORMATS = (".png", ".pdf", ".svg")
TITLE_SIZE, SUBTITLE_SIZE, LEGEND_SIZE = 11, 8.5, 9
#: Points of an inch; the mean width of a letter in parts of its size.
POINTS, LETTER = 72, 0.58
#: Inches of a legend's line and of the space beside it.
MARGIN = 0.7
#: Inches of a picture.
SIZE = (7.0, 4.2)

Points = Sequence[float] | Shaped[np.ndarray, " points"]


def new_figure(size: tuple[float, float] = SIZE) -> tuple[Any, Any]:
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
    axes: Any,
    number: int,
    x: Shaped[np.ndarray, " points"],
    values: Float[np.ndarray, "seeds points"],
    label: str,
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
    draw_line(axes, number, x, mean, label, linewidth=1.8)
    colour = COLOURS[number % len(COLOURS)]
    axes.fill_between(
        x, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0
    )


def draw_line(
    axes: Any, number: int, x: Points, y: Points, label: str, **style: Any
) -> None:
    """Draws a line, with a mark at each point that has no neighbour.

    Args:
        axes: Where.
        number: Which line it is, from 0: gives colour and line style.
        x: Where the values stand, `[points]`.
        y: `[points]`; the line has a gap where one is not finite.
        label: The line's name in the legend.
        style: More options of Matplotlib's `plot`.
    """
    axes.plot(
        *(x, y),
        color=COLOURS[number % len(COLOURS)],
        linestyle=STYLES[number % len(STYLES)],
        label=label,
        marker="o",
        markevery=isolated(y),
        **style,
    )


def mean_over(count: int, unit: str = "seed") -> str:
    """Returns a description of a curve and its band."""
    interval = " with 95 % intervals" if count > 1 else ""
    return f"mean over {counted(count, unit)}{interval}"


def isolated(values: Points) -> list[int]:
    """Returns which points of a line have no neighbour: a line alone hides them."""
    known = np.concatenate([[False], np.isfinite(np.asarray(values, float)), [False]])
    return np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:]).tolist()


def set_titles(axes: Any, title: str, subtitle: str) -> None:
    """Writes a title, and beneath it in grey what the picture shows."""
    width = axes.figure.get_figwidth()
    subtitle = _wrapped(subtitle, width, SUBTITLE_SIZE)
    lines = 1 + subtitle.count("\n")
    axes.set_title(
        _wrapped(title, width, TITLE_SIZE),
        loc="left",
        fontsize=TITLE_SIZE,
        pad=8 + 12 * lines,
    )
    axes.text(
        *(0, 1.02, subtitle),
        transform=axes.transAxes,
        fontsize=SUBTITLE_SIZE,
        color=GREY,
    )


def set_legend(figure: Any, columns: int = 3) -> None:
    """Puts the legend beneath the axes, whole, where it hides no data.

    It has as many columns as fit side by side; a name that is wider than the picture is
    broken into lines. The picture grows by the height of the legend beyond one line.
    """
    (axes,) = figure.axes
    handles, labels = axes.get_legend_handles_labels()
    width = figure.get_figwidth() - MARGIN
    labels = [_wrapped(label, width, LEGEND_SIZE) for label in labels]
    while True:
        legend = figure.legend(
            *(handles, labels),
            loc="outside lower left",
            frameon=False,
            fontsize=LEGEND_SIZE,
            ncols=columns,
        )
        extent = legend.get_window_extent(figure.canvas.get_renderer())
        if columns == 1 or extent.width <= figure.bbox.width:
            break
        legend.remove()
        columns -= 1
    line = 2 * LEGEND_SIZE / POINTS
    height = figure.get_figheight() + max(0.0, extent.height / figure.dpi - line)
    figure.set_figheight(height)


def save(figure: Any, path: Path) -> None:
    """Writes the picture; the format follows from the name: PNG, PDF or SVG.

    Letters of a PDF stay letters, so that they can be searched and edited.
    """
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
        figure.savefig(path, dpi=DPI)


def check_format(path: Path) -> Path:
    """Returns the path of a picture.

    Raises:
        ValueError: If its ending names no format that can be drawn.
    """
    if path.suffix.lower() not in FORMATS:
        raise ValueError(
            f"a picture's name must end in {', '.join(FORMATS)}, got {str(path)!r}"
        )
    return path


def _wrapped(text: str, width: float, size: float) -> str:
    """Returns text in lines that fit a width in inches at a size in points."""
    characters = int(width * POINTS / (size * LETTER))
    return "\n".join(textwrap.wrap(text, characters))
