"""What a slot sees of a game: its `observe`, and the spaces that follow from it."""

import dataclasses
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from runners.interventions.payoffs import payoff_of

#: Openings that are compared, to tell whether all are alike.
NUM_OPENINGS = 8


@dataclasses.dataclass(frozen=True)
class PayoffShown:
    """Appends the game's payoff, flattened, to the features of an observation."""

    def __call__(self, obs: Any, params: Any, game: jax.Array, player: int) -> Any:
        """Returns features and payoff, float32 `[n + m]`."""
        del game, player
        features = jnp.asarray(obs, jnp.float32).reshape(-1)
        return jnp.concatenate([features, payoff_of(params).reshape(-1)]).astype(
            jnp.float32
        )

    def space(self, space: gymnasium.Space, params: Any) -> gymnasium.Space:
        """Returns the space of what is seen of `space`.

        Raises:
            ValueError: If `space` is no vector of numbers.
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
    """Shows the opening observation instead of what is played in the first games.

    Attributes:
        num_games: In how many.
        opening: What the game shows at its opening, flattened: START.
    """

    num_games: int
    opening: tuple[float, ...]

    def __call__(self, obs: Any, params: Any, game: jax.Array, player: int) -> Any:
        """Returns the observation, or the opening in a blind game."""
        del params, player
        obs = jnp.asarray(obs)
        start = jnp.array(self.opening).astype(obs.dtype).reshape(obs.shape)
        return jnp.where(game < self.num_games, start, obs)

    def space(self, space: gymnasium.Space, params: Any) -> gymnasium.Space:
        """Returns `space`: the opening is one of its members."""
        del params
        return space


@dataclasses.dataclass(frozen=True)
class InTurn:
    """Several ways of observing, each on what the one before it shows.

    Attributes:
        parts: In order.
    """

    parts: tuple[PayoffShown | BlindGames, ...]

    def __call__(self, obs: Any, params: Any, game: jax.Array, player: int) -> Any:
        """Returns what the last part shows."""
        for part in self.parts:
            obs = part(obs, params, game, player)
        return obs

    def space(self, space: gymnasium.Space, params: Any) -> gymnasium.Space:
        """Returns the space of what the last part shows."""
        for part in self.parts:
            space = part.space(space, params)
        return space


class ObservedGame:
    """A game as the maker of an agent reads it, with other observation spaces.

    Args:
        env: The game; everything but the observation spaces is its own.
        space_of: `space_of(player)`, the space of what a player sees.
    """

    def __init__(self, env: Any, space_of: Any) -> None:
        self.env, self._space_of = env, space_of

    def observation_space(self, player: int = 0) -> gymnasium.Space:
        """Returns the space of what a player sees."""
        return self._space_of(player)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


def blind_games(num_games: int, env: Any, params: Any, player: int) -> BlindGames:
    """Returns the observer that is blind in the first `num_games` games.

    Raises:
        ValueError: If the game opens in different ways, so that an opening tells
            something.
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


def as_tuple(observations: Any) -> tuple[Any, ...]:
    """Returns observations as a tuple; a one-player game has a bare one."""
    return observations if isinstance(observations, tuple) else (observations,)
