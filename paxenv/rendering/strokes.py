"""Pictures of mechanical systems: thick strokes in the units of the system."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from paxenv.environment import Environment, Frame
from paxenv.rendering import frames, pixels
from paxenv.types import Picture

SIZE = 240

Point = tuple[float, float]


class Stroke(NamedTuple):
    """A line with round ends; points are (x, y) with y upwards.

    Attributes:
        start: Where it starts.
        end: Where it ends; `start` draws a dot.
        colour: Its colour.
        width: Its thickness, in the units of the points.
    """

    start: Point
    end: Point
    colour: pixels.Colour
    width: float = 0.03


def rgb(strokes: Iterable[Stroke], centre: Point, reach: float) -> Picture:
    """Returns a picture, uint8 `[SIZE, SIZE, 3]`, later strokes over earlier ones.

    Args:
        strokes: What to draw.
        centre: The point in the middle of the picture.
        reach: From there to each edge.
    """
    picture = pixels.blank(SIZE, SIZE)
    offsets = np.linspace(-reach, reach, SIZE)
    x, y = np.meshgrid(centre[0] + offsets, centre[1] - offsets)
    for stroke in strokes:
        picture[_distance(x, y, stroke) <= stroke.width / 2] = stroke.colour
    return picture


def text(env: Environment, frame: Frame, names: Sequence[str]) -> str:
    """Returns the clock, the named observations, and what was played and paid."""
    frames.check_single(frame)
    clock = frames.clock(frame, env.num_inner_steps, env.num_outer_steps)
    values = [
        f"{name} {value:.3f}" for name, value in zip(names, frame.obs, strict=True)
    ]
    lines = [clock, "  ".join(values)]
    if frame.actions is not None:
        action = " ".join(f"{float(a):.4g}" for a in np.ravel(frame.actions))
        lines.append(f"action {action}  reward {frames.number(frame.rewards)}")
    return "\n".join(lines)


def _distance(x: np.ndarray, y: np.ndarray, stroke: Stroke) -> np.ndarray:
    """Returns how far points are from a stroke's line."""
    dx, dy = np.subtract(stroke.end, stroke.start)
    px, py = x - stroke.start[0], y - stroke.start[1]
    along = np.clip((px * dx + py * dy) / max(dx**2 + dy**2, 1e-12), 0, 1)
    return np.hypot(px - along * dx, py - along * dy)
