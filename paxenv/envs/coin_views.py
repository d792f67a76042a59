"""What players of the coin game see: the board from a seat, as planes or an index."""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Int8

from paxenv.envs import coin_rules
from paxenv.envs.coin_rules import Board, CoinRules, Scalar

LAYOUTS = ("flat", "HWC", "CHW", "flat_CHW")
NUM_PLANES = 4

Planes = TypeVar("Planes", jax.Array, np.ndarray)


class View(NamedTuple):
    """The board as one player sees it; cells are `row * width + column`.

    Attributes:
        own: The player's own cell.
        other: The other player's cell.
        coins: The cells of the own coin and of the other's, or of the single coin.
        foreign: 1 if the single coin has the other's colour; 0 with two coins.
    """

    own: Scalar
    other: Scalar
    coins: tuple[Scalar, ...]
    foreign: Scalar


def look(rules: CoinRules, board: Board, player: int, egocentric: bool) -> View:
    """Returns the board from a player's seat.

    Args:
        rules: The options.
        board: The board, in absolute places.
        player: Whose seat: 0 red, 1 blue.
        egocentric: Whether the torus is shifted so that the player stands in the
            cell (height // 2, width // 2).
    """
    own = board.players[player]

    def cell(place: coin_rules.Place) -> Scalar:
        row, column = place
        if egocentric:
            centre = rules.height // 2, rules.width // 2
            row = coin_rules.wrap(row - own[0] + centre[0], rules.height)
            column = coin_rules.wrap(column - own[1] + centre[1], rules.width)
        return row * rules.width + column

    coins = board.coins if player == 0 else board.coins[::-1]
    return View(
        own=cell(own),
        other=cell(board.players[1 - player]),
        coins=tuple(cell(coin) for coin in coins),
        foreign=board.colour ^ player if len(coins) == 1 else board.colour,
    )


def one_hot(rules: CoinRules, view: View) -> Int8[Array, "cells 4"]:
    """Returns the planes own, other, own coin, other's coin; cells first.

    One comparison of every entry with the four that are set: XLA makes it one loop,
    where four stacked planes would be several.
    """
    entries = jnp.arange(rules.num_cells * NUM_PLANES, dtype=jnp.int32)
    planes = (2 + view.foreign,) if len(view.coins) == 1 else (2, 3)
    lit = (entries == NUM_PLANES * view.own) | (entries == NUM_PLANES * view.other + 1)
    for cell, plane in zip(view.coins, planes, strict=True):
        lit = lit | (entries == NUM_PLANES * cell + plane)
    return lit.astype(jnp.int8).reshape(rules.num_cells, NUM_PLANES)


def arrange(rules: CoinRules, planes: Planes, layout: str) -> Planes:
    """Returns planes `[cells, C]`, a JAX or NumPy array, in a layout.

    `"HWC"` and `"CHW"` are pictures with channels last and first, and `"flat"` and
    `"flat_CHW"` the same numbers as one axis.
    """
    if layout == "flat":
        return planes.reshape(-1)
    if layout == "flat_CHW":
        return planes.T.reshape(-1)
    if layout == "HWC":
        return planes.reshape(rules.height, rules.width, -1)
    return planes.T.reshape(-1, rules.height, rules.width)


def num_indices(rules: CoinRules, egocentric: bool) -> int:
    """Returns how many different views there are."""
    placed = (1 if egocentric else 2) + rules.num_coins
    return rules.num_cells**placed * (2 if rules.coins == "single" else 1)


def index(rules: CoinRules, view: View, egocentric: bool) -> Int[Array, ""]:
    """Returns a view as one number, different for different views.

    Digits in base `height * width`, leading first: the own cell (left out when
    egocentric, where it is always the same), the other's cell, the own coin, the
    other's coin. With a single coin: whether it is foreign (0 or 1), the own cell,
    the other's, the coin.
    """
    digits = (view.other, *view.coins)
    code = view.foreign if len(view.coins) == 1 else jnp.zeros_like(view.own)
    for digit in digits if egocentric else (view.own, *digits):
        code = code * rules.num_cells + digit
    return code
