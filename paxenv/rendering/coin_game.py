"""Pictures of the coin game, by NumPy alone; row 0 is at the bottom."""

from typing import TYPE_CHECKING

import jax
import numpy as np

from paxenv.envs import coin_rules
from paxenv.rendering import frames
from paxenv.types import Picture

if TYPE_CHECKING:
    from paxenv.environment import Frame

CELL = 32
WHITE, GRID = (255, 255, 255), (200, 200, 200)
PLAYERS = ((205, 40, 40), (40, 80, 205))
COINS = ((245, 130, 130), (130, 165, 245))


def rgb(rules: coin_rules.CoinRules, frame: "Frame") -> Picture:
    """Returns uint8 `[32 * height, 32 * width, 3]`.

    A cell has a quarter for each thing that may be in it: players are squares in its
    upper half, coins are discs in its lower half, red left and blue right.
    """
    picture = np.full((rules.height * CELL, rules.width * CELL, 3), WHITE, np.uint8)
    picture[::CELL], picture[:, ::CELL] = GRID, GRID
    players, coins = _things(rules, frame)
    square = np.ones((CELL // 2 - 4,) * 2, bool)
    for colour, place in players:
        _paint(picture, rules, place, (0, colour), square, PLAYERS[colour])
    across = np.arange(CELL // 2 - 4) - (CELL // 2 - 5) / 2
    disc = across[:, None] ** 2 + across**2 <= (CELL / 4 - 2) ** 2
    for colour, place in coins:
        _paint(picture, rules, place, (1, colour), disc, COINS[colour])
    return picture


def text(
    rules: coin_rules.CoinRules,
    frame: "Frame",
    clock: tuple[int, int],
    action_names: tuple[str, ...],
) -> str:
    """Returns the grid, with R and B for the players and r and b for the coins.

    Args:
        rules: The rules, which say how a board is packed.
        frame: What is shown.
        clock: Steps of an inner episode, and inner episodes of a trial.
        action_names: What each player's actions are called.
    """
    players, coins = _things(rules, frame)
    cells = np.full((rules.height, rules.width, 4), ".")
    for slot, letters, things in ((0, "RB", players), (2, "rb", coins)):
        for colour, (row, column) in things:
            cells[row, column, slot + colour] = letters[colour]
    border = "+" + ("-" * 4 + "+") * rules.width
    lines = [border]
    for row in cells[::-1]:
        lines += ["|" + "|".join("".join(cell) for cell in row) + "|", border]
    lines.append(frames.clock(frame, *clock))
    if frame.actions is not None:
        for p, player in enumerate(("red", "blue")):
            action = action_names[int(frame.actions[p])]
            lines.append(
                f"{player}: {action}, reward {frames.number(frame.rewards[p])}"
            )
    return "\n".join(lines)


def _things(rules: coin_rules.CoinRules, frame: "Frame") -> tuple[list, list]:
    """Returns players and coins, each as (colour, (row, column))."""
    frames.check_single(frame)
    board = coin_rules.unpack(rules, np.asarray(frame.state.game.board))
    board = jax.tree.map(int, board)
    first = board.colour if len(board.coins) == 1 else 0
    return list(enumerate(board.players)), list(enumerate(board.coins, start=first))


def _paint(
    picture: np.ndarray,
    rules: coin_rules.CoinRules,
    place: tuple[int, int],
    quarter: tuple[int, int],
    mask: np.ndarray,
    colour: tuple[int, int, int],
) -> None:
    top = (rules.height - 1 - place[0]) * CELL + quarter[0] * CELL // 2 + 2
    left = place[1] * CELL + quarter[1] * CELL // 2 + 2
    size = len(mask)
    picture[top : top + size, left : left + size][mask] = colour
