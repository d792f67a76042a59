"""The linear public-goods game with a pool that may fail."""

import dataclasses
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from paxenv import keys
from paxenv.environment import Environment
from paxenv.game import game
from paxenv.params import GameParams


class EnvParams(GameParams):
    """Numbers of the game.

    Attributes:
        factor: What each coin in the pool grows to, to be shared by all players.
        failure_prob: Probability that the pool of a step is lost.
    """

    factor: jax.Array | float = 1.6
    failure_prob: jax.Array | float = 0.1


@game
class PublicGoods(Environment):
    """Each player holds a coin and gives it to a pool (0) or keeps it (1).

    Observation:
        `[others who gave last, steps played]` as float32 shares of their maxima; the
        first is 1 at the opening.

    Reward:
        The coin if it was kept, plus an equal share of `factor` times the pool, which
        is lost with probability `failure_prob`.

    End:
        Only by time.

    Source:
        Ledyard, Public Goods: A Survey of Experimental Research (1995).
    """

    _: dataclasses.KW_ONLY
    players: int = 2

    name: ClassVar[str] = "PublicGoods"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.players < 2:
            raise ValueError(f"players must be at least 2, got {self.players}")

    @property
    def num_players(self) -> int:
        return self.players

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def make_observation_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)

    def make_action_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(2, dtype=np.int32)

    def draw(self, key: jax.Array) -> jax.Array:
        return keys.words(key, 1)

    def reset_game(self, draws: jax.Array, params: EnvParams) -> tuple[Any, Any]:
        opening = jnp.array([1.0, 0.0], jnp.float32)
        return (opening,) * self.players, jnp.zeros((), jnp.int32)

    def step_game(
        self, draws: jax.Array, game: Any, actions: Any, params: EnvParams
    ) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        gave = jnp.stack([(action == 0).astype(jnp.float32) for action in actions])
        lost = keys.uniform(draws[0]) < params.failure_prob
        pool = jnp.where(lost, 0.0, params.factor * gave.sum())
        rewards = tuple(1 - gave + pool / self.players)
        # A step after the end is a no-op, but its observation stays in the space.
        played = jnp.minimum(game + 1, self.num_inner_steps)
        others = (gave.sum() - gave) / (self.players - 1)
        time = (played / self.num_inner_steps).astype(jnp.float32)
        obs = tuple(jnp.stack([share, time]) for share in others)
        metrics = {"gave": gave.mean(), "pool_lost": lost.astype(jnp.float32)}
        return obs, played, rewards, jnp.zeros((), bool), metrics

    def render_ansi(self, frame: Any) -> str:
        step = int(frame.state.game)
        shares = [f"{float(obs[0]):.0%}" for obs in frame.obs]
        return f"step {step}: others gave {', '.join(shares)}"


def make(
    num_inner_steps: int = 20,
    num_outer_steps: int = 1,
    num_players: int = 2,
    random_ends: bool = False,
    horizon: str = "truncate",
    factor: float = 1.6,
    failure_prob: float = 0.1,
    continuation_prob: Any = 0.96,
) -> tuple[PublicGoods, EnvParams]:
    """Returns (env, params): options of the game, then fields of its params."""
    env = PublicGoods(
        num_inner_steps,
        num_outer_steps,
        players=num_players,
        random_ends=random_ends,
        horizon=horizon,
    )
    return env, EnvParams(factor, failure_prob, continuation_prob=continuation_prob)
