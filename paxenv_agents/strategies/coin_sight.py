"""How a coin policy reads a board: where both coins lie, seen from the player."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from paxenv.envs import coin_rules
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.coin_rules import Place
from paxenv_agents.registry import PairingError

NUM_ACTIONS = 5
#: The player, the other player, the own coin and the other's coin.
NUM_THINGS = 4


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


def _shortest(steps: int, n: int) -> int:
    """Returns `steps` round a ring of n as the shorter way, negative if backwards."""
    return steps if 2 * steps <= n else steps - n
