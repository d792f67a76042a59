"""Rules of the coin game: boards and one transition, all of it pure.

All random numbers are arguments, as `Draws`, so a game recorded elsewhere can be
replayed by writing down its draws.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, UInt32

from paxenv import scalars
from paxenv.params import as_array

ACTION_NAMES = ("right", "left", "up", "down", "stay")
COINS = ("per_player", "single")
SPAWNS = ("any", "off_agents")
TIES = ("both", "first", "random")
RED, BLUE = 0, 1
MIN_CELLS = 3
MAX_SIDE = 16
MAX_BITS = 30

Scalar = Int[Array, ""]
Place = tuple[Scalar, Scalar]
Takes = tuple[tuple[Bool[Array, ""], ...], ...]


@dataclasses.dataclass(frozen=True)
class CoinRules:
    """The options that decide what happens on the board.

    Attributes:
        height: Rows of the torus.
        width: Columns of the torus.
        coins: `"per_player"`, a red and a blue coin; `"single"`, one coin that
            changes its colour whenever it is taken.
        spawn: Where coins appear: `"any"` cell, or `"off_agents"`, uniformly over
            the cells without a player.
        start_overlap: Whether the players may open on the same cell.
        tie: Who takes a coin that both reach: `"both"`, `"first"` (red), or one of
            them at `"random"`.
    """

    height: int = 3
    width: int = 3
    coins: str = "per_player"
    spawn: str = "any"
    start_overlap: bool = True
    tie: str = "both"

    def __post_init__(self) -> None:
        scalars.settle(self)
        sides = (self.height, self.width)
        if any(isinstance(side, bool) or not isinstance(side, int) for side in sides):
            raise ValueError(f"height and width must be whole numbers, got {sides}")
        if min(sides) < 1 or max(sides) > MAX_SIDE or self.num_cells < MIN_CELLS:
            raise ValueError(
                f"a grid of {self.height}x{self.width} does not fit: the game needs "
                f"{MIN_CELLS} cells or more, two for the players and a free one, and "
                f"at most {MAX_SIDE} a side"
            )
        for name, known in (("coins", COINS), ("spawn", SPAWNS), ("tie", TIES)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be one of {known}, got {getattr(self, name)!r}"
                )

    @property
    def num_cells(self) -> int:
        """The number of cells; cell `row * width + column`."""
        return self.height * self.width

    @property
    def num_coins(self) -> int:
        """The number of coins on the board."""
        return 2 if self.coins == "per_player" else 1

    @property
    def num_bits(self) -> int:
        """The number of bits that hold a coordinate in a packed board."""
        return (max(self.height, self.width) - 1).bit_length()


class Board(NamedTuple):
    """Where everything is, as (row, column) of int32 scalars.

    Attributes:
        players: Red's place and blue's.
        coins: The red coin's place and the blue one's, or the single coin's.
        colour: Colour of the single coin, 0 red and 1 blue; 0 with two coins.
    """

    players: tuple[Place, Place]
    coins: tuple[Place, ...]
    colour: Scalar


class Draws(NamedTuple):
    """The random numbers of an opening and of a step; int32 scalars.

    A coin that appears goes to the first of its candidates without a player, or to
    the only candidate under `spawn="any"`. Candidates are distinct, so three are
    enough with two players, and the result is uniform over the free cells.

    Attributes:
        starts: Opening cells of red and blue.
        start_coins: For each coin, its candidates at the opening.
        start_colour: Colour of the single coin at the opening; 0 with two coins.
        coins: For each coin, its candidates should it be taken in this step.
        tie: The player who wins a tie under `tie="random"`; 0 otherwise.
    """

    starts: tuple[Scalar, Scalar]
    start_coins: tuple[tuple[Scalar, ...], ...]
    start_colour: Scalar
    coins: tuple[tuple[Scalar, ...], ...]
    tie: Scalar


def opening(rules: CoinRules, draws: Draws) -> Board:
    """Returns the board on which an inner episode opens."""
    players = _place(rules, draws.starts[RED]), _place(rules, draws.starts[BLUE])
    return Board(
        players=players,
        coins=tuple(_spawn(rules, c, players) for c in draws.start_coins),
        colour=draws.start_colour,
    )


def transition(
    rules: CoinRules, draws: Draws, board: Board, actions: tuple[Scalar, Scalar]
) -> tuple[Board, Takes]:
    """Plays one joint action: both move, coins are taken, taken coins reappear.

    A player takes every coin on the cell that it is on after its move; staying on a
    coin takes it. Players may share a cell.

    Args:
        rules: The options.
        draws: The random numbers.
        board: The board before.
        actions: Red's and blue's action, int32 scalars; one outside [0, 5) stays.

    Returns:
        (board, takes): the board after, and for red and for blue whether it took
        (a red coin, a blue coin).
    """
    players = (
        _move(rules, board.players[RED], actions[RED]),
        _move(rules, board.players[BLUE], actions[BLUE]),
    )
    # [player][coin] whether the player gets the coin.
    gets = [[same(player, coin) for coin in board.coins] for player in players]
    for k in range(rules.num_coins):
        tie = gets[RED][k] & gets[BLUE][k]
        if rules.tie == "first":
            gets[BLUE][k] = gets[BLUE][k] & ~tie
        elif rules.tie == "random":
            for p in (RED, BLUE):
                gets[p][k] = gets[p][k] & (~tie | (draws.tie == p))
    coins, colour = [], board.colour
    for k, coin in enumerate(board.coins):
        taken = gets[RED][k] | gets[BLUE][k]
        new = _spawn(rules, draws.coins[k], players)
        coins.append(
            (jnp.where(taken, new[0], coin[0]), jnp.where(taken, new[1], coin[1]))
        )
        if rules.coins == "single":
            colour = colour ^ taken
    if rules.coins == "single":
        gets = [[g[0] & (board.colour == c) for c in (RED, BLUE)] for g in gets]
    after = Board(players=players, coins=tuple(coins), colour=colour)
    return after, tuple(tuple(g) for g in gets)


def rewards(
    payoff: Num[Array, "..."], takes: Takes
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns red's and blue's reward for what was taken.

    Args:
        payoff: `[2, 3]`, row of red, row of blue: what it earns by a red coin, by a
            blue coin, and when the other takes a coin of its colour.
        takes: From `transition`.

    Raises:
        ValueError: At trace time, if `payoff` is not of shape (2, 3).
    """
    payoff = check_payoff(payoff)
    rows = []
    for p in (RED, BLUE):
        events = (takes[p][RED], takes[p][BLUE], takes[1 - p][p])
        parts = [jnp.where(e, payoff[p, i], 0) for i, e in enumerate(events)]
        rows.append(parts[0] + parts[1] + parts[2])
    return rows[RED], rows[BLUE]


def check_payoff(payoff: object) -> Num[Array, "2 3"]:
    """Returns `payoff` as an array, or raises ValueError if it is not 2x3."""
    array = jnp.asarray(as_array(payoff))
    if array.shape != (2, 3):
        raise ValueError(
            f"payoff_matrix of shape {array.shape} does not fit the coin game: it "
            "expects 2x3, for each player its reward for a red coin, for a blue coin, "
            "and when the other takes a coin of its colour, such as "
            "[[1, 1, -2], [1, 1, -2]]"
        )
    return array


def pack(rules: CoinRules, board: Board) -> UInt32[Array, ""]:
    """Returns a board as one word: a few bits a coordinate, the colour on top."""
    numbers = [x for place in (*board.players, *board.coins) for x in place]
    if rules.coins == "single":
        numbers.append(board.colour)
    bits = rules.num_bits
    word = jnp.zeros((), jnp.uint32)
    for i, number in enumerate(numbers):
        word = word | (jnp.asarray(number).astype(jnp.uint32) << (bits * i))
    if bits * len(numbers) > MAX_BITS:
        return word
    # XLA copies cheap operations into each of their consumers, here the whole step
    # into each player's view, but computes a division once: CPUs gain a factor of 1.5.
    return jax.lax.div(3 * word, jnp.full_like(word, 3))


def unpack(
    rules: CoinRules, word: UInt32[Array, "..."] | UInt32[np.ndarray, "..."] | np.uint32
) -> Board:
    """Returns the board of a word (uint32, JAX or NumPy); leading axes are kept."""
    bits, count = rules.num_bits, 4 + 2 * rules.num_coins
    numbers = [
        ((word >> (bits * i)) & (2**bits - 1)).astype(jnp.int32)
        for i in range(count + 1 if rules.coins == "single" else count)
    ]
    places = [(numbers[i], numbers[i + 1]) for i in range(0, count, 2)]
    return Board(
        players=(places[0], places[1]),
        coins=tuple(places[2:]),
        colour=numbers[-1] if rules.coins == "single" else jnp.zeros_like(numbers[0]),
    )


def same(a: Place, b: Place) -> Bool[Array, ""]:
    """Returns whether two places are the same cell."""
    return (a[0] == b[0]) & (a[1] == b[1])


def wrap(x: Scalar, n: int) -> Scalar:
    """Returns `x` modulo `n`, for -n <= x < 2 n; signed division is far slower."""
    return jnp.where(x < 0, x + n, jnp.where(x >= n, x - n, x))


def _move(rules: CoinRules, place: Place, action: Scalar) -> Place:
    right, left, up, down = ((action == a).astype(jnp.int32) for a in range(4))
    row = wrap(place[0] + up - down, rules.height)
    return row, wrap(place[1] + right - left, rules.width)


def _place(rules: CoinRules, cell: Scalar) -> Place:
    cell = jnp.asarray(cell).astype(jnp.uint32)
    row = jax.lax.div(cell, jnp.full_like(cell, rules.width))
    return row.astype(jnp.int32), (cell - row * rules.width).astype(jnp.int32)


def _spawn(
    rules: CoinRules, candidates: tuple[Scalar, ...], players: tuple[Place, Place]
) -> Place:
    places = [_place(rules, cell) for cell in candidates]
    row, column = places[-1]
    for place in places[-2::-1]:
        free = ~(same(place, players[RED]) | same(place, players[BLUE]))
        row, column = jnp.where(free, place[0], row), jnp.where(free, place[1], column)
    return row, column
