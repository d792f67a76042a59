"""Pictures of N-player games: everyone's last action, and the counts table."""

import numpy as np

from paxenv.environment import Frame
from paxenv.rendering import frames, pixels
from paxenv.types import Picture

MARGIN = 24
LINE = 34
SCALE = 3
COLUMN = 150
PLAYERS_WIDTH = 400


def ansi(frame: Frame, num_actions: tuple[int, ...], clock: tuple[int, int]) -> str:
    """Returns one game as text: everyone's last action and reward, and the clock.

    Args:
        frame: One moment of one game.
        num_actions: The number of actions of each player.
        clock: (num_inner_steps, num_outer_steps).

    Raises:
        ValueError: If the frame holds a batch of games.
    """
    frames.check_single(frame)
    lines = [
        f"player {p + 1}: {name}   reward {reward}".replace("-   reward -", "-")
        for p, (name, reward) in enumerate(_plays(frame, num_actions))
    ]
    for k, (cells, marked) in enumerate(_counts(frame, num_actions)):
        texts = [
            f"[{c}]" if m else f" {c} " for c, m in zip(cells, marked, strict=True)
        ]
        lines.append(f"{k} others defect:  C {texts[0]:>8}  D {texts[1]:>8}")
    lines.append(frames.clock(frame, *clock))
    return "\n".join(line.rstrip() for line in lines)


def rgb(frame: Frame, num_actions: tuple[int, ...], clock: tuple[int, int]) -> Picture:
    """Returns one game as a picture, uint8 `[height, width, 3]`; see `ansi`."""
    frames.check_single(frame)
    counts = _counts(frame, num_actions)
    num_lines = max(len(num_actions), len(counts) + 1) + 2
    width = PLAYERS_WIDTH + (3 * COLUMN if counts else 0)
    picture = pixels.blank(2 * MARGIN + num_lines * LINE - LINE // 2, width)
    for p, (name, reward) in enumerate(_plays(frame, num_actions)):
        top = MARGIN + p * LINE
        colour = {"C": pixels.COOPERATE, "D": pixels.DEFECT}.get(name, pixels.GREY)
        pixels.write(picture, top, MARGIN, f"player {p + 1}", scale=SCALE)
        pixels.fill(picture, top - 7, 160, LINE - 4, LINE - 4, colour)
        pixels.write_centred(picture, top, 160, LINE - 4, name, pixels.WHITE, SCALE)
        pixels.write(picture, top, 212, f"reward {reward}", scale=SCALE)
    if counts:
        _draw_counts(picture, counts)
    top = MARGIN + (num_lines - 1) * LINE - LINE // 2
    pixels.write(picture, top, MARGIN, frames.clock(frame, *clock), scale=SCALE)
    return picture


def _draw_counts(
    picture: np.ndarray, counts: list[tuple[list[str], list[bool]]]
) -> None:
    left = PLAYERS_WIDTH
    pixels.write(picture, MARGIN, left, "others D", scale=SCALE)
    for a, name in enumerate("CD"):
        colour = (pixels.COOPERATE, pixels.DEFECT)[a]
        start = left + (a + 1) * COLUMN - 20
        pixels.write_centred(picture, MARGIN, start, COLUMN, name, colour, SCALE)
    for k, (cells, marked) in enumerate(counts):
        top = MARGIN + (k + 1) * LINE
        pixels.write(picture, top, left, f"{k}", scale=SCALE)
        for a in range(2):
            start = left + (a + 1) * COLUMN - 20
            colour = pixels.HIGHLIGHT if marked[a] else pixels.PALE
            pixels.fill(picture, top - 8, start, LINE - 2, COLUMN - 4, colour)
            pixels.write_centred(picture, top, start, COLUMN - 4, cells[a], scale=SCALE)


def _plays(frame: Frame, num_actions: tuple[int, ...]) -> list[tuple[str, str]]:
    """Returns everyone's last action and what it paid, `-` right after a reset."""
    if frame.actions is None:
        return [("-", "-")] * len(num_actions)
    return [
        (frames.action_name(action, n), frames.number(reward))
        for action, n, reward in zip(
            frame.actions, num_actions, frame.rewards, strict=True
        )
    ]


def _counts(
    frame: Frame, num_actions: tuple[int, ...]
) -> list[tuple[list[str], list[bool]]]:
    """Returns, by number of others who defect, the rewards of C and D and marks.

    A cell is marked if somebody was paid by it in the last step. Empty where the
    payoff is a tensor.
    """
    table = np.asarray(frame.params.payoff_table)
    num_players = len(num_actions)
    if table.shape != (num_players + 1, 2):
        return []
    played = [] if frame.actions is None else [int(a) for a in frame.actions]
    paid = {(sum(played) - own, own) for own in played}
    return [
        (
            [frames.number(table[k, 0]), frames.number(table[k + 1, 1])],
            [(k, 0) in paid, (k, 1) in paid],
        )
        for k in range(num_players)
    ]
