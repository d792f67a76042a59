"""Pendulum: a torque too weak to lift it swings a pendulum up and holds it there."""

from typing import Any, ClassVar

import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paxenv.environment import Frame
from paxenv.envs.classic_control import problem
from paxenv.game import game, make_game, makes
from paxenv.params import GameParams
from paxenv.rendering import pixels, strokes
from paxenv.types import Picture

MAX_SPEED = 8.0
MAX_TORQUE = 2.0
RESET_SPEED = 1.0


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

    gravity: problem.Scalar = 10.0  # type: ignore[assignment]
    mass: problem.Scalar = 1.0  # type: ignore[assignment]
    length: problem.Scalar = 1.0  # type: ignore[assignment]
    time_step: problem.Scalar = 0.05  # type: ignore[assignment]
    max_speed: problem.Scalar = MAX_SPEED  # type: ignore[assignment]
    max_torque: problem.Scalar = MAX_TORQUE  # type: ignore[assignment]


@game
class Pendulum(problem.ControlProblem):
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
    coordinates = {
        "cos": (-1.0, 1.0),
        "sin": (-1.0, 1.0),
        "angular velocity": (-MAX_SPEED, MAX_SPEED),
    }
    num_draws = 2

    def make_action_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32)

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def opening(self, draws: Float[Array, " draws"]) -> problem.State:
        return (2 * draws - 1) * jnp.array([jnp.pi, RESET_SPEED], jnp.float32)

    def observe(self, state: problem.State) -> Float[Array, "3"]:
        return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])

    def transition(
        self, state: problem.State, action: Float[Array, "1"], params: EnvParams
    ) -> problem.Outcome:
        theta, velocity = state
        torque = jnp.clip(action[0], -params.max_torque, params.max_torque)
        cost = theta**2 + 0.1 * velocity**2 + 0.001 * torque**2
        fall = 1.5 * params.gravity / params.length * jnp.sin(theta)
        turn = 3 * torque / (params.mass * params.length**2)
        velocity += (fall + turn) * params.time_step
        velocity = jnp.clip(velocity, -params.max_speed, params.max_speed)
        theta = problem.wrapped(theta + velocity * params.time_step)
        return (theta, velocity), -cost, jnp.zeros((), bool)

    def render_rgb(self, frame: Frame) -> Picture:
        theta = float(frame.state.game[0])
        # Positive angles turn to the left.
        tip = (-float(np.sin(theta)), float(np.cos(theta)))
        rod = strokes.Stroke((0.0, 0.0), tip, pixels.PLAYERS[1], 0.2)
        joint = strokes.Stroke((0.0, 0.0), (0.0, 0.0), pixels.INK, 0.1)
        return strokes.rgb((rod, joint), centre=(0.0, 0.0), reach=1.2)


@makes(Pendulum, EnvParams)
def make(**options: Any) -> tuple[Pendulum, EnvParams]:
    """Returns a pendulum and its numbers; options are the fields of both."""
    return make_game(Pendulum, EnvParams, options)
