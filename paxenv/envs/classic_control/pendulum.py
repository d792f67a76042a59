"""Pendulum: a torque too weak to lift it swings a pendulum up and holds it there."""

from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from paxenv import keys
from paxenv.environment import Environment, Frame
from paxenv.envs.classic_control.angles import wrapped
from paxenv.envs.classic_control.making import make_problem
from paxenv.game import game
from paxenv.params import GameParams

MAX_SPEED = 8.0
MAX_TORQUE = 2.0
RESET_SPEED = 1.0
COORDINATES = ("cos", "sin", "angular velocity")


class EnvParams(GameParams):
    """Numbers of a pendulum, in SI units.

    Attributes:
        gravity: m/s^2.
        mass: kg.
        length: m.
        time_step: s.
        max_speed: Bound of the angular velocity's size, rad/s.
        max_torque: Torques are clipped to this size, N m.
    """

    gravity: jax.Array = 10.0  # type: ignore[assignment]
    mass: jax.Array = 1.0  # type: ignore[assignment]
    length: jax.Array = 1.0  # type: ignore[assignment]
    time_step: jax.Array = 0.05  # type: ignore[assignment]
    max_speed: jax.Array = MAX_SPEED  # type: ignore[assignment]
    max_torque: jax.Array = MAX_TORQUE  # type: ignore[assignment]


@game
class Pendulum(Environment):
    """A pendulum is swung up and balanced by a bounded torque.

    Description:
        The pendulum opens at any angle, uniformly, with an angular velocity uniform
        in [-1, 1). Its state is float32 `[2]`: the angle from upright in [-pi, pi],
        and the angular velocity.

    Observation:
        float32 `[3]`: cosine and sine of the angle, and the angular velocity.

    Action:
        `Box(-2, 2, (1,), float32)`: the torque.

    Reward:
        `-(angle^2 + 0.1 * velocity^2 + 0.001 * torque^2)`, before the step.

    End:
        Only by time, after 200 steps, or at random with `random_ends`.

    Versions:
        v1.

    Source:
        Numbers as in Gymnasium's Pendulum-v1.

    Differences from Gymnasium:
        The state is float32, and its angle is kept in [-pi, pi].
    """

    num_inner_steps: int = 200

    name: ClassVar[str] = "Pendulum"

    @property
    def num_players(self) -> int:
        return 1

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def make_observation_space(self, player: int) -> gymnasium.Space:
        high = np.array([1.0, 1.0, MAX_SPEED], np.float32)
        return gymnasium.spaces.Box(-high, high, dtype=np.float32)

    def make_action_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32)

    def draw(self, key: jax.Array) -> jax.Array:
        return keys.uniform(keys.words(key, 2))

    def reset_game(
        self, draws: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, jax.Array]:
        state = (2 * draws - 1) * jnp.array([jnp.pi, RESET_SPEED], jnp.float32)
        return _observe(state), state

    def step_game(
        self, draws: Any, game: jax.Array, actions: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        theta, velocity = game
        torque = jnp.clip(actions[0], -params.max_torque, params.max_torque)
        cost = theta**2 + 0.1 * velocity**2 + 0.001 * torque**2
        fall = 1.5 * params.gravity / params.length * jnp.sin(theta)
        turn = 3 * torque / (params.mass * params.length**2)
        velocity += (fall + turn) * params.time_step
        velocity = jnp.clip(velocity, -params.max_speed, params.max_speed)
        theta = wrapped(theta + velocity * params.time_step)
        state = jnp.stack([theta, velocity]).astype(jnp.float32)
        return _observe(state), state, -cost, jnp.zeros((), bool), {}

    def render_ansi(self, frame: Frame) -> str:
        from paxenv.rendering import strokes

        return strokes.text(self, frame, COORDINATES)

    def render_rgb(self, frame: Frame) -> np.ndarray:
        from paxenv.rendering import pixels, strokes

        theta = float(frame.state.game[0])
        # Positive angles turn to the left.
        tip = (-float(np.sin(theta)), float(np.cos(theta)))
        rod = strokes.Stroke((0.0, 0.0), tip, pixels.PLAYERS[1], 0.2)
        joint = strokes.Stroke((0.0, 0.0), (0.0, 0.0), pixels.INK, 0.1)
        return strokes.rgb((rod, joint), centre=(0.0, 0.0), reach=1.2)


def make(**options: Any) -> tuple[Pendulum, EnvParams]:
    """Returns a pendulum and its numbers, from options of `making.make_problem`."""
    return make_problem(Pendulum, EnvParams, options)


def _observe(state: jax.Array) -> jax.Array:
    return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])
