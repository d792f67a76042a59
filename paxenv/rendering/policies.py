"""Pictures of two memory-one policies: bars of the probability of cooperating."""

from collections.abc import Sequence

import numpy as np

from paxenv.environment import Frame
from paxenv.rendering import frames, pixels
from paxenv.types import Picture

BAR_HEIGHT, BAR_WIDTH = 120, 36
GROUP = 110
MARGIN = 40
LINE = 26
CHARACTERS = 20


def ansi(frame: Frame, states: Sequence[str], clock: tuple[int, int]) -> str:
    """Returns one game as text: P(C | state) of both players, rewards, the clock.

    Args:
        frame: One moment of one game; player 1's observation holds both policies.
        states: The names of the five states.
        clock: (num_inner_steps, num_outer_steps).

    Raises:
        ValueError: If the frame holds a batch of games.
    """
    frames.check_single(frame)
    policies = _policies(frame, states)
    lines = ["probability of cooperating, own action first"]
    for s, state in enumerate(states):
        bars = [
            f"{'#' * round(CHARACTERS * p[s]):<{CHARACTERS}} {p[s]:.2f}"
            for p in policies
        ]
        lines.append(f"{state:>5}  1 |{bars[0]}  2 |{bars[1]}")
    lines += [_reward(frame, p) for p in range(2)]
    lines.append(frames.clock(frame, *clock))
    return "\n".join(lines)


def rgb(frame: Frame, states: Sequence[str], clock: tuple[int, int]) -> Picture:
    """Returns one game as a picture, uint8 `[height, width, 3]`; see `ansi`."""
    frames.check_single(frame)
    floor = MARGIN + BAR_HEIGHT
    width = 2 * MARGIN + len(states) * GROUP
    picture = pixels.blank(floor + 5 * LINE, width)
    for player, policy in enumerate(_policies(frame, states)):
        for s, probability in enumerate(policy):
            left = MARGIN + s * GROUP + 14 + player * (BAR_WIDTH + 6)
            bar = round(BAR_HEIGHT * float(probability))
            pixels.fill(picture, MARGIN, left, BAR_HEIGHT, BAR_WIDTH, pixels.PALE)
            colour = pixels.PLAYERS[player]
            pixels.fill(picture, floor - bar, left, bar, BAR_WIDTH, colour)
    for s, state in enumerate(states):
        left = MARGIN + s * GROUP
        pixels.write_centred(picture, floor + 8, left, GROUP, state)
    pixels.write(picture, 12, MARGIN, "P(cooperate) by state, own action first")
    for p in range(2):
        top = floor + (p + 1) * LINE + 14
        pixels.write(picture, top, MARGIN, _reward(frame, p), pixels.PLAYERS[p])
    text = frames.clock(frame, *clock)
    pixels.write(picture, floor + 3 * LINE + 14, MARGIN, text)
    return picture


def _policies(frame: Frame, states: Sequence[str]) -> np.ndarray:
    return np.asarray(frame.obs[0]).reshape(2, len(states))


def _reward(frame: Frame, player: int) -> str:
    paid = "-" if frame.rewards is None else frames.number(frame.rewards[player])
    return f"player {player + 1}: reward {paid}"
