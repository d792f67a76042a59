"""Interventions: drawn hyperparameters, hard stops, payoffs, observers, self-play."""

import dataclasses
import math
import zlib
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from paxenv.environment import Environment
from paxenv_agents.types import Hyperparameters

#: The entry of `hyper` that holds a drawn stop.
STOP = "stop_after"


@dataclasses.dataclass(frozen=True)
class Uniform:
    """A number between two bounds.

    Attributes:
        low: The lower bound; equal to `high`, it is the number itself.
        high: The upper bound.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(
                f"bounds must be [low, high], got [{self.low}, {self.high}]"
            )

    def __call__(self, key: jax.Array) -> jax.Array:
        """Returns a float32 scalar; consumes the key."""
        low, high = jnp.float32(self.low), jnp.float32(self.high)
        if self.low == self.high:
            return low
        return jnp.clip(jax.random.uniform(key, minval=low, maxval=high), low, high)


@dataclasses.dataclass(frozen=True)
class LogUniform(Uniform):
    """A number whose logarithm is uniform between those of two positive bounds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0:
            raise ValueError(f"log_uniform needs bounds > 0, got {self.low}")

    def __call__(self, key: jax.Array) -> jax.Array:
        """Returns a float32 scalar; consumes the key."""
        low, high = jnp.float32(self.low), jnp.float32(self.high)
        if self.low == self.high:
            return low
        exponent = jax.random.uniform(key, minval=jnp.log(low), maxval=jnp.log(high))
        return jnp.clip(jnp.exp(exponent), low, high)


@dataclasses.dataclass(frozen=True)
class UniformStop:
    """The number of inner episodes in which a learner learns, drawn from 1 to all.

    Attributes:
        num_outer_steps: Inner episodes of a trial.
    """

    num_outer_steps: int

    def __call__(self, key: jax.Array) -> jax.Array:
        """Returns a whole number in [1, num_outer_steps] as a float32 scalar."""
        stop = jax.random.randint(key, (), 1, self.num_outer_steps + 1)
        return stop.astype(jnp.float32)


@dataclasses.dataclass(frozen=True)
class DrawnNumbers:
    """A slot's `sampler`: hyperparameters drawn for every new training state.

    The key of each draw depends on its name, so that draws do not affect one another.

    Attributes:
        draws: Pairs (entry of `hyper`, its distribution).
    """

    draws: tuple[tuple[str, Uniform | UniformStop], ...]

    def __call__(self, key: jax.Array, hyper: Hyperparameters) -> Hyperparameters:
        """Returns `hyper` with the drawn numbers."""
        drawn = {
            name: draw(jax.random.fold_in(key, zlib.crc32(name.encode())))
            for name, draw in self.draws
        }
        return {**hyper, **drawn}


@dataclasses.dataclass(frozen=True)
class HardStop:
    """A slot's `schedule`: learning only in the first inner episodes of a trial.

    Attributes:
        after: Their number; None: the number that `UniformStop` drew into `hyper`.
    """

    after: int | None = None

    def __call__(self, hyper: Hyperparameters, k: jax.Array) -> Hyperparameters:
        """Returns the hyperparameters of inner episode `k`."""
        after = hyper[STOP] if self.after is None else self.after
        enabled = jnp.where(k < after, hyper["enabled"], 0.0)
        return {**hyper, "enabled": enabled}


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
    """Entries drawn independently and uniformly from [low, high)."""

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
    """An experiment's `params_sampler`: draws the payoff of a trial.

    Attributes:
        draw: `draw(key, payoff) -> payoff`, for all players.
        players: The players, from 0, whose payoff is drawn; the others keep the game's
            own. None: all players.
        axis: The payoff's axis of players, see `player_axis`; read with `players`.
    """

    draw: Callable[[jax.Array, jax.Array], jax.Array]
    players: tuple[int, ...] | None = None
    axis: int = -1

    def __call__(self, key: jax.Array, params: PyTree) -> PyTree:
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


def payoff_field(params: PyTree) -> str:
    """Returns the name of the field that holds a game's payoff.

    Raises:
        ValueError: If the game has none.
    """
    for field in FIELDS:
        if getattr(params, field, None) is not None:
            return field
    raise ValueError(f"a game with {type(params).__name__} has no payoff table")


def payoff_of(params: PyTree) -> jax.Array:
    """Returns a game's payoff, also that of a game inside a one-player game."""
    params = getattr(params, "game", params)
    return jnp.asarray(getattr(params, payoff_field(params)))


def player_axis(num_players: int, params: PyTree) -> int:
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


#: Openings that are compared, to tell whether all are equal.
NUM_OPENINGS = 8


@dataclasses.dataclass(frozen=True)
class PayoffShown:
    """Appends the game's payoff, flattened, to the features of an observation."""

    def __call__(
        self, obs: PyTree, params: PyTree, game: jax.Array, player: int
    ) -> PyTree:
        """Returns features and payoff, float32 `[n + m]`."""
        del game, player
        features = jnp.asarray(obs, jnp.float32).reshape(-1)
        return jnp.concatenate([features, payoff_of(params).reshape(-1)]).astype(
            jnp.float32
        )

    def space(self, space: gymnasium.Space, params: PyTree) -> gymnasium.Space:
        """Returns the space of the observations that the agent receives.

        Raises:
            ValueError: If `space` is not one of vectors of numbers.
        """
        if not isinstance(space, gymnasium.spaces.Box):
            raise ValueError(
                f"the payoff is appended to a vector, not to {space}: leave out "
                "observation=index"
            )
        many = np.full(payoff_of(params).size, np.inf, np.float32)
        low = np.concatenate([np.asarray(space.low, np.float32).ravel(), -many])
        high = np.concatenate([np.asarray(space.high, np.float32).ravel(), many])
        return gymnasium.spaces.Box(low, high, dtype=np.float32)


@dataclasses.dataclass(frozen=True)
class BlindGames:
    """Shows the opening observation in place of the last actions in the first games.

    Attributes:
        num_games: The number of blind games.
        opening: The game's observation at its opening, flattened: START.
    """

    num_games: int
    opening: tuple[float, ...]

    def __call__(
        self, obs: PyTree, params: PyTree, game: jax.Array, player: int
    ) -> PyTree:
        """Returns the observation, or the opening in a blind game."""
        del params, player
        obs = jnp.asarray(obs)
        start = jnp.array(self.opening).astype(obs.dtype).reshape(obs.shape)
        return jnp.where(game < self.num_games, start, obs)

    def space(self, space: gymnasium.Space, params: PyTree) -> gymnasium.Space:
        """Returns `space`: the opening is one of its members."""
        del params
        return space


@dataclasses.dataclass(frozen=True)
class InTurn:
    """Several observers, each of which reads the output of the one before it.

    Attributes:
        parts: The observers in order.
    """

    parts: tuple[PayoffShown | BlindGames, ...]

    def __call__(
        self, obs: PyTree, params: PyTree, game: jax.Array, player: int
    ) -> PyTree:
        """Returns the observation of the last part."""
        for part in self.parts:
            obs = part(obs, params, game, player)
        return obs

    def space(self, space: gymnasium.Space, params: PyTree) -> gymnasium.Space:
        """Returns the space of the last part's observations."""
        for part in self.parts:
            space = part.space(space, params)
        return space


class ObservedGame:
    """A game with other observation spaces, from which agents are made.

    Args:
        env: The game, of which everything but the observation spaces is kept.
        space_of: `space_of(player)`, the space of a player's observations.
    """

    def __init__(
        self, env: Environment, space_of: Callable[[int], gymnasium.Space]
    ) -> None:
        self.env, self._space_of = env, space_of

    def observation_space(self, player: int = 0) -> gymnasium.Space:
        """Returns the space of a player's observations."""
        return self._space_of(player)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


def blind_games(
    num_games: int, env: Environment, params: PyTree, player: int
) -> BlindGames:
    """Returns the observer that is blind in the first `num_games` games.

    Raises:
        ValueError: If openings of the game differ, so that an opening observation
            carries information.
    """
    openings = [
        np.asarray(as_tuple(env.reset(jax.random.key(i), params)[0])[player])
        for i in range(NUM_OPENINGS)
    ]
    if any(not np.array_equal(opening, openings[0]) for opening in openings):
        raise ValueError(
            f"{env.name} opens in different ways, so it shows no START that a blind "
            "player could see instead: blind_games is for matrix and tensor games"
        )
    opening = tuple(openings[0].ravel().tolist())
    return BlindGames(num_games, opening)


def as_tuple(observations: PyTree) -> tuple[PyTree, ...]:
    """Returns observations as a tuple, also those of a one-player game."""
    return observations if isinstance(observations, tuple) else (observations,)


@dataclasses.dataclass(frozen=True)
class FadingSelfPlay:
    """The probability of self-play: 1 in trial 0, then falling linearly to 0.

    Attributes:
        num_trials: The first trial without self-play.
    """

    num_trials: int

    def __call__(self, e: jax.Array) -> jax.Array:
        """Returns the probability in trial `e`."""
        return jnp.clip(1.0 - e / self.num_trials, 0.0, 1.0)
