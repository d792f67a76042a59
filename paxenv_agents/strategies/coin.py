"""Fixed policies of the coin game: which coin a player goes for, and by which way."""

import abc
import dataclasses
import functools
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from paxenv import keys
from paxenv.environment import Environment
from paxenv.envs import coin_rules
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.coin_rules import Place
from paxenv_agents.agent import Agent
from paxenv_agents.registry import PairingError
from paxenv_agents.types import Acted, MemoryState, TrainingState

NUM_ACTIONS = 5
#: The player, the other player, the own coin and the other's coin.
NUM_THINGS = 4
RIGHT, LEFT, UP, DOWN, STAY = range(5)
#: (rows up, columns right) of each action.
MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0), (0, 0))
WALKS = ("pax", "column_first", "row_first")
TIES = ("own", "other", "random")

Offset = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class CoinSight:
    """Reads observations of a two-coin game at one seat.

    Attributes:
        game: The game.
        player: The seat; matters only where both players are shown the same.
    """

    game: CoinGame
    player: int

    @classmethod
    def of(cls, env: Any, player: int) -> "CoinSight":
        """Returns how to read a seat of `env`, a coin game or a wrapper around one.

        Raises:
            PairingError: If it is another game, or a coin game in which a policy of
                this package has no meaning.
        """
        name = env.name
        while not isinstance(env, CoinGame) and hasattr(env, "env"):
            player, env = getattr(env, "player", player), env.env
        if not isinstance(env, CoinGame):
            raise PairingError(f"it plays the coin game only, not {name}")
        if env.coins != "per_player":
            raise PairingError(
                "it needs a coin of each colour on the board, coins='per_player', got "
                f"coins={env.coins!r}"
            )
        if env.num_actions != NUM_ACTIONS:
            raise PairingError(
                f"it needs to be able to stay, num_actions={NUM_ACTIONS}, got "
                f"num_actions={env.num_actions}"
            )
        return cls(env, player)

    def coins(self, obs: PyTree) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Returns the cells of the own and of the other's coin, relative to oneself.

        A relative cell is `(rows up mod height) * width + (columns right mod width)`;
        cell 0 is the player's own. int32 scalars.
        """
        places = self._indexed if self.game.observation == "index" else self._planes
        own, other, own_coin, other_coin = places(jnp.asarray(obs))
        if self.game.view == "shared" and self.player == 1:
            own, own_coin, other_coin = other, other_coin, own_coin
        return self._relative(own_coin, own), self._relative(other_coin, own)

    def offset(self, cell: int) -> tuple[int, int]:
        """Returns the shortest way to a relative cell, (rows up, columns right)."""
        row, column = divmod(cell, self.game.width)
        return _shortest(row, self.game.height), _shortest(column, self.game.width)

    def _planes(self, obs: jax.Array) -> list[Place]:
        """Returns (row, column) of the four things in a one-hot observation."""
        cells = self.game.rules.num_cells
        rows, columns = divmod(np.arange(cells, dtype=np.int32), self.game.width)
        if self.game.layout in ("flat", "HWC"):
            planes = obs.reshape(cells, -1).T
        else:
            planes = obs.reshape(-1, cells)
        things = planes[:NUM_THINGS].astype(jnp.int32)
        return [(jnp.sum(x * rows), jnp.sum(x * columns)) for x in things]

    def _indexed(self, obs: jax.Array) -> list[Place]:
        """Returns (row, column) of the four things in an index, leading digit first."""
        cells, width = self.game.rules.num_cells, self.game.width
        code = obs.astype(jnp.uint32)
        digits = [code // cells**i % cells for i in range(NUM_THINGS)]
        if self.game.egocentric:
            middle = (self.game.height // 2) * width + width // 2
            digits[-1] = jnp.asarray(middle, jnp.uint32)
        return [
            ((x // width).astype(jnp.int32), (x % width).astype(jnp.int32))
            for x in reversed(digits)
        ]

    def _relative(self, place: Place, own: Place) -> jax.Array:
        row = coin_rules.wrap(place[0] - own[0], self.game.height)
        column = coin_rules.wrap(place[1] - own[1], self.game.width)
        return row * self.game.width + column


@dataclasses.dataclass(frozen=True)
class CoinPolicy(Agent):
    """A rule that looks at where both coins lie, seen from the player.

    Works from every observation of a two-coin game with five actions: egocentric,
    absolute or shared views, one-hot in any layout or an index. Made by
    `from_env(env, player=player)`.

    Attributes:
        sight: How to read the seat's observations.

    Raises:
        PairingError: From `from_env`, if it is not such a game.
    """

    _: dataclasses.KW_ONLY
    sight: CoinSight

    @classmethod
    def for_seat(cls, env: Environment, player: int, **fields: Any) -> Self:
        """Reads where coins and players are in the seat's observations."""
        return super().for_seat(
            env, player, **{"sight": CoinSight.of(env, player), **fields}
        )

    @abc.abstractmethod
    def choices(self, own: Offset, other: Offset) -> tuple[int, ...]:
        """Returns the one or two actions that the rule takes with equal chance.

        Args:
            own: The shortest way to the own coin, (rows up, columns right), signed.
            other: The shortest way to the other's coin.
        """

    @functools.cached_property
    def _table(self) -> np.ndarray:
        """All choices, int32 `[own coin's relative cell, other's, 2]`."""
        cells = range(self.sight.game.rules.num_cells)
        offsets = [self.sight.offset(cell) for cell in cells]
        rows = [[self.choices(own, other) for other in offsets] for own in offsets]
        return np.array([[(c[0], c[-1]) for c in row] for row in rows], np.int32)

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        own, other = self.sight.coins(obs)
        table = self._table
        if self.greedy or (table[..., 0] == table[..., 1]).all():
            return jnp.asarray(table[..., 0])[own, other], state, memory
        coin_flip = keys.below(keys.words(memory.key, 1)[0], 2)
        action = jnp.asarray(table)[own, other, coin_flip]
        return action, state, memory.replace(key=keys.fold_in(memory.key, 1))


@dataclasses.dataclass(frozen=True)
class OwnCoin(CoinPolicy):
    """Walks to its own coin by a shortest path and never looks at the other's.

    Attributes:
        walk: The way, see `first_move`.
    """

    _: dataclasses.KW_ONLY
    walk: str = "column_first"

    def __post_init__(self) -> None:
        _check("walk", self.walk, WALKS)

    def choices(self, own: Offset, other: Offset) -> tuple[int, ...]:
        return (first_move(own, self.walk),)


@dataclasses.dataclass(frozen=True)
class Dodger(CoinPolicy):
    """Walks to its own coin by a shortest path round the other's coin.

    Takes the first action in the order right, left, up, down, stay that is on a
    shortest path and does not land on the other's coin; if there is none, the first
    on a shortest path.
    """

    def choices(self, own: Offset, other: Offset) -> tuple[int, ...]:
        best = [a for a in range(len(MOVES)) if self._is_shortest(a, own)]
        dodging = [a for a in best if not self._is_at(MOVES[a], other)]
        return ((dodging or best)[0],)

    def _is_shortest(self, action: int, target: Offset) -> bool:
        if target == (0, 0):
            return action == STAY
        return action != STAY and self._distance(MOVES[action], target) < distance(
            target
        )

    def _is_at(self, place: Offset, target: Offset) -> bool:
        return self._distance(place, target) == 0

    def _distance(self, place: Offset, target: Offset) -> int:
        """Returns the number of steps from `place` to `target` on the torus."""
        game = self.sight.game
        row = (target[0] - place[0]) % game.height
        column = (target[1] - place[1]) % game.width
        return distance(self.sight.offset(row * game.width + column))


@dataclasses.dataclass(frozen=True)
class NearestCoin(CoinPolicy):
    """Walks to whichever coin is nearer, and takes it.

    Attributes:
        tie: Which coin it goes for at equal distances: `"own"` (`AnyCoin`,
            `GoodGreedy`), `"other"` (`EvilGreedy`), or either at `"random"`
            (`RandomGreedy`), anew in every step; with `greedy` the own one.
        walk: The way, see `first_move`.
    """

    _: dataclasses.KW_ONLY
    tie: str = "own"
    walk: str = "pax"

    def __post_init__(self) -> None:
        _check("tie", self.tie, TIES)
        _check("walk", self.walk, WALKS)

    def choices(self, own: Offset, other: Offset) -> tuple[int, ...]:
        to_own, to_other = first_move(own, self.walk), first_move(other, self.walk)
        if distance(own) != distance(other):
            return (to_own if distance(own) < distance(other) else to_other,)
        return {
            "own": (to_own,),
            "other": (to_other,),
            "random": (to_own, to_other),
        }[self.tie]


@dataclasses.dataclass(frozen=True)
class Stay(CoinPolicy):
    """Never moves; takes the coins that appear under it."""

    def choices(self, own: Offset, other: Offset) -> tuple[int, ...]:
        return (STAY,)


def distance(offset: Offset) -> int:
    """Returns the number of steps of a way."""
    return abs(offset[0]) + abs(offset[1])


def first_move(target: Offset, walk: str) -> int:
    """Returns the first action of a shortest path to an offset.

    Args:
        target: (rows up, columns right), signed; (0, 0) stays.
        walk: What to do where both a row and a column must change: `"column_first"`,
            `"row_first"`, or `"pax"`, up for (+, +), left for (+, -), right for (-, +)
            and down for (-, -).
    """
    row, column = target
    if column == 0 and row == 0:
        return STAY
    by_column = RIGHT if column > 0 else LEFT
    by_row = UP if row > 0 else DOWN
    if row == 0:
        return by_column
    if column == 0:
        return by_row
    changes_row = (row > 0) == (column > 0) if walk == "pax" else walk == "row_first"
    return by_row if changes_row else by_column


def _check(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{option} must be one of {known}, got {value!r}")


def _shortest(steps: int, n: int) -> int:
    """Returns `steps` round a ring of n as the shorter way, negative if backwards."""
    return steps if 2 * steps <= n else steps - n
