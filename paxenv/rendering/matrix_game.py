"""Pictures of two-player matrix games: the payoff table with the last play marked."""

import numpy as np

from paxenv.environment import Frame
from paxenv.rendering import frames, pixels
from paxenv.types import Picture

CELL_HEIGHT, CELL_WIDTH = 56, 152
MARGIN = 48
LINE = 26
SCALE = 4
TEXT_HEIGHT = pixels.GLYPH_HEIGHT * SCALE
MIN_WIDTH = 304
#: Larger tables get small cells without numbers.
MAX_NUMBERED = 8
SMALL_CELL = 24


def ansi(frame: Frame, num_actions: tuple[int, int], clock: tuple[int, int]) -> str:
    """Returns one game as text: the payoff table, the last play, and the clock.

    Args:
        frame: One moment of one game.
        num_actions: (A_0, A_1).
        clock: (num_inner_steps, num_outer_steps).

    Raises:
        ValueError: If the frame holds a batch of games.
    """
    frames.check_single(frame)
    cells = _cells(frame, num_actions)
    played = _played(frame)
    rows, columns = num_actions
    texts = [
        [
            f"[{cells[r][c]}]" if (r, c) == played else f" {cells[r][c]} "
            for c in range(columns)
        ]
        for r in range(rows)
    ]
    width = max(len(text) for row in texts for text in row)
    heading = "".join(
        f"{frames.action_name(c, columns):^{width}}" for c in range(columns)
    )
    lines = ["player 1 \\ player 2", f"   {heading}".rstrip()]
    for r, row in enumerate(texts):
        name = frames.action_name(r, rows)
        lines.append(f"{name:>2} " + "".join(f"{text:^{width}}" for text in row))
    lines += _last_play(frame, num_actions)
    lines.append(frames.clock(frame, *clock))
    return "\n".join(line.rstrip() for line in lines)


def rgb(frame: Frame, num_actions: tuple[int, int], clock: tuple[int, int]) -> Picture:
    """Returns one game as a picture, uint8 `[height, width, 3]`; see `ansi`."""
    frames.check_single(frame)
    rows, columns = num_actions
    cells = _cells(frame, num_actions)
    high, wide = _cell_size(cells)
    one, two = pixels.PLAYERS[:2]
    width = MARGIN + max(columns * wide, MIN_WIDTH) + MARGIN // 2
    picture = pixels.blank(MARGIN + rows * high + 4 * LINE, width)
    _draw_table(picture, cells, _played(frame), (high, wide))
    for r in range(rows):
        top = MARGIN + r * high + (high - TEXT_HEIGHT) // 2
        name = frames.action_name(r, rows)
        pixels.write_centred(picture, top, 0, MARGIN, name, one, SCALE)
    for c in range(columns):
        left = MARGIN + c * wide
        name = frames.action_name(c, columns)
        pixels.write_centred(picture, 14, left, wide, name, two, SCALE)
    top = MARGIN + rows * high + LINE // 2
    for line, colour in zip(_last_play(frame, num_actions), (one, two), strict=True):
        pixels.write(picture, top, MARGIN, line, colour)
        top += LINE
    pixels.write(picture, top, MARGIN, frames.clock(frame, *clock))
    return picture


def _cell_size(cells: list[list[str]]) -> tuple[int, int]:
    """Returns (height, width) of a cell in pixels."""
    if max(len(cells), len(cells[0])) > MAX_NUMBERED:
        return SMALL_CELL, SMALL_CELL
    widest = max(pixels.text_width(text, SCALE) for row in cells for text in row)
    return CELL_HEIGHT, max(CELL_WIDTH, widest + 2 * LINE)


def _draw_table(
    picture: np.ndarray,
    cells: list[list[str]],
    played: tuple[int, ...] | None,
    cell_size: tuple[int, int],
) -> None:
    high, wide = cell_size
    for r, row in enumerate(cells):
        for c, text in enumerate(row):
            top, left = MARGIN + r * high, MARGIN + c * wide
            _draw_cell(picture, top, left, high, wide, (r, c) == played)
            if high > SMALL_CELL:
                top += (high - TEXT_HEIGHT) // 2
                _write_rewards(picture, top, left, wide, text)


def _draw_cell(
    picture: np.ndarray, top: int, left: int, high: int, wide: int, marked: bool
) -> None:
    pixels.fill(picture, top, left, high, wide, pixels.INK if marked else pixels.GREY)
    edge = 4 if marked else 1
    colour = pixels.HIGHLIGHT if marked else pixels.PALE
    pixels.fill(
        picture, top + edge, left + edge, high - 2 * edge, wide - 2 * edge, colour
    )


def _write_rewards(
    picture: np.ndarray, top: int, left: int, wide: int, text: str
) -> None:
    """Writes `r1, r2`, each number in its player's colour."""
    first, second = text.split(", ")
    start = left + (wide - pixels.text_width(text, SCALE)) // 2
    pixels.write(picture, top, start, first + ",", pixels.PLAYERS[0], SCALE)
    start += pixels.text_width(first + ", ", SCALE) + SCALE
    pixels.write(picture, top, start, second, pixels.PLAYERS[1], SCALE)


def _cells(frame: Frame, num_actions: tuple[int, int]) -> list[list[str]]:
    payoff = np.asarray(frame.params.payoff_matrix).reshape(*num_actions, 2)
    return [[", ".join(map(frames.number, cell)) for cell in row] for row in payoff]


def _played(frame: Frame) -> tuple[int, ...] | None:
    if frame.actions is None:
        return None
    return tuple(int(action) for action in frame.actions)


def _last_play(frame: Frame, num_actions: tuple[int, int]) -> list[str]:
    """Returns one line for each player: its last action and what it paid."""
    if frame.actions is None:
        return [f"player {p + 1}: -" for p in range(2)]
    return [
        f"player {p + 1}: {frames.action_name(action, num_actions[p])}   "
        f"reward {frames.number(frame.rewards[p])}"
        for p, action in enumerate(frame.actions)
    ]
