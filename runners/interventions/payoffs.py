"""Payoffs drawn anew for every trial.

Source of the setting: Pax's runners with mixed payoffs. The draw of dilemmas is ours.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

#: Fields of params that hold a payoff.
FIELDS = ("payoff_matrix", "payoff_table")
#: Share of the unit interval that a draw keeps away from its ends, so that strict
#: inequalities stay strict in float32.
MARGIN = 0.01
#: Bounds closer than this, relative to their size, leave float32 no room for them.
NARROWEST = 0.01


@dataclasses.dataclass(frozen=True)
class _Bounds:
    """Two finite bounds, the lower one first."""

    low: float
    high: float

    def __post_init__(self) -> None:
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        if not finite or not self.low < self.high:
            raise ValueError(
                f"payoffs need finite bounds low < high, got low={self.low}, "
                f"high={self.high}"
            )


@dataclasses.dataclass(frozen=True)
class RandomPayoffs(_Bounds):
    """Every entry uniform in [low, high), by itself."""

    def __call__(self, key: jax.Array, payoff: jax.Array) -> jax.Array:
        """Returns a payoff of the same shape; consumes the key."""
        return jax.random.uniform(
            key, payoff.shape, payoff.dtype, minval=self.low, maxval=self.high
        )


@dataclasses.dataclass(frozen=True)
class PayoffNoise(_Bounds):
    """The game's own payoff plus a number uniform in [low, high) in every entry."""

    def __call__(self, key: jax.Array, payoff: jax.Array) -> jax.Array:
        """Returns a payoff of the same shape; consumes the key."""
        noise = jax.random.uniform(
            key, payoff.shape, payoff.dtype, minval=self.low, maxval=self.high
        )
        return payoff + noise


@dataclasses.dataclass(frozen=True)
class PrisonersDilemmas(_Bounds):
    """Symmetric prisoner's dilemmas: T > R > P > S and 2 R > T + S, all strict.

    Uniform over such quadruples in [low, high], but for a margin of 1 % of the range
    of each draw. For a payoff of two players with two actions each.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        size = max(abs(self.low), abs(self.high))
        if self.high - self.low < NARROWEST * size:
            raise ValueError(
                f"bounds of dilemmas must be {NARROWEST:.0%} of their size apart, got "
                f"low={self.low}, high={self.high}"
            )

    def __call__(self, key: jax.Array, payoff: jax.Array) -> jax.Array:
        """Returns a payoff of the same shape; consumes the key."""
        t, r, p, s = dilemma(jax.random.uniform(key, (4,), payoff.dtype))
        table = jnp.array([[r, r], [s, t], [t, s], [p, p]])
        return (self.low + (self.high - self.low) * table).reshape(payoff.shape)


def dilemma(
    u: Float[Array, " 4"],
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Returns T, R, P, S in (0, 1) from four uniform numbers, without rejection.

    The largest and the smallest of four uniform numbers are drawn as T and S, by the
    inverse of their distributions. Between them R and P are the larger and the
    smaller of two; that R lies above the middle has probability 3/4 whatever T and S
    are, and its distribution given that is inverted too.
    """
    u = MARGIN + (1.0 - 2.0 * MARGIN) * u
    t = u[0] ** 0.25
    s = t * (1.0 - u[1] ** (1.0 / 3.0))
    share = jnp.sqrt(0.25 + 0.75 * u[2])
    r = s + (t - s) * share
    p = s + (t - s) * share * u[3]
    return t, r, p, s


@dataclasses.dataclass(frozen=True)
class PayoffSampler:
    """An experiment's `params_sampler`: what the game pays in a trial.

    Attributes:
        draw: `draw(key, payoff) -> payoff`, what is paid to everybody.
        players: Whose payoff is drawn, from 0; the others keep the game's own. None:
            everybody's.
        axis: The payoff's axis of players, see `player_axis`; read with `players`.
    """

    draw: Callable[[jax.Array, jax.Array], jax.Array]
    players: tuple[int, ...] | None = None
    axis: int = -1

    def __call__(self, key: jax.Array, params: Any) -> Any:
        """Returns the game's numbers with another payoff; consumes the key."""
        field = payoff_field(params)
        payoff = jnp.asarray(getattr(params, field))
        payoff = payoff.astype(jnp.result_type(payoff.dtype, jnp.float32))
        drawn = self.draw(key, payoff)
        if self.players is not None:
            seats = jnp.arange(payoff.shape[self.axis])
            beside = [1] * payoff.ndim
            beside[self.axis] = -1
            chosen = jnp.isin(seats, jnp.array(self.players)).reshape(beside)
            drawn = jnp.where(chosen, drawn, payoff)
        return params.replace(**{field: drawn})


def payoff_field(params: Any) -> str:
    """Returns the name of the field that holds a game's payoff.

    Raises:
        ValueError: If the game has none.
    """
    for field in FIELDS:
        if getattr(params, field, None) is not None:
            return field
    raise ValueError(f"a game with {type(params).__name__} has no payoff table")


def payoff_of(params: Any) -> jax.Array:
    """Returns a game's payoff, also of a game that is shown as a one-player game."""
    params = getattr(params, "game", params)
    return jnp.asarray(getattr(params, payoff_field(params)))


def player_axis(num_players: int, params: Any) -> int:
    """Returns the axis of players of a game's payoff.

    Matrix games have a column for each player, the coin game a row.

    Raises:
        ValueError: If the payoff is the same for all players, such as one by counts.
    """
    shape = payoff_of(params).shape
    by_counts = payoff_field(params) == "payoff_table" and shape == (num_players + 1, 2)
    for axis in (-1, 0):
        if shape[axis] == num_players and not by_counts:
            return axis
    raise ValueError(
        f"a payoff of shape {shape} is the same for all {num_players} players: it "
        "cannot be drawn for some of them"
    )
