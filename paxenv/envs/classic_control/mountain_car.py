"""Mountain car: a car too weak for the hill gains speed by swinging."""

import itertools
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from paxenv.environment import Frame
from paxenv.envs.classic_control import problem
from paxenv.game import game, make_game, makes
from paxenv.params import GameParams
from paxenv.rendering import pixels, strokes
from paxenv.types import Picture

MIN_POSITION, MAX_POSITION = -1.2, 0.6
MAX_SPEED = 0.07
RESET_LOW, RESET_HIGH = -0.6, -0.4


class EnvParams(GameParams):
    """Numbers of a mountain car; time is in steps.

    Attributes:
        force: What the motor adds to the velocity in a step.
        gravity: What the steepest slope adds to it.
        max_speed: Bound of the velocity's size.
        min_position: The wall on the left, where the car stops.
        max_position: The right end of the track.
        goal_position: The goal is here and to the right of it.
        goal_velocity: Least velocity at the goal.
    """

    force: problem.Scalar = 0.001  # type: ignore[assignment]
    gravity: problem.Scalar = 0.0025  # type: ignore[assignment]
    max_speed: problem.Scalar = MAX_SPEED  # type: ignore[assignment]
    min_position: problem.Scalar = MIN_POSITION  # type: ignore[assignment]
    max_position: problem.Scalar = MAX_POSITION  # type: ignore[assignment]
    goal_position: problem.Scalar = 0.5  # type: ignore[assignment]
    goal_velocity: problem.Scalar = 0.0  # type: ignore[assignment]


@game
class MountainCar(problem.ControlProblem):
    """A car in a valley reaches the top of the right hill by swinging.

    Description:
        The height of the track is proportional to `sin(3 * position)`. The car opens
        at rest, uniformly in [-0.6, -0.4). Its state is float32 `[2]`, equal to the
        observation.

    Observation:
        float32 `[2]`: position and velocity, within the default bounds.

    Action:
        `Discrete(3)`: 0 accelerates to the left, 1 not at all, 2 to the right.

    Reward:
        -1 for every step, the last one too.

    End:
        Terminated at the goal; by time after 200 steps.

    Versions:
        v0.

    Source:
        Moore, Efficient Memory-based Learning for Robot Control (1990); numbers as in
        Gymnasium's MountainCar-v0.

    Differences from Gymnasium:
        The state is float32, and the goal on the last step is not truncated as well.
    """

    num_inner_steps: int = 200

    name: ClassVar[str] = "MountainCar"
    coordinates = {
        "position": (MIN_POSITION, MAX_POSITION),
        "velocity": (-MAX_SPEED, MAX_SPEED),
    }
    actions = ("left", "none", "right")
    num_draws = 1

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def opening(self, draws: Float[Array, " draws"]) -> problem.State:
        position = RESET_LOW + draws[0] * jnp.float32(RESET_HIGH - RESET_LOW)
        return jnp.stack([position, jnp.zeros_like(position)])

    def transition(
        self, state: problem.State, action: Int[Array, ""], params: EnvParams
    ) -> problem.Outcome:
        position, velocity = state
        slope = jnp.cos(3 * position)
        velocity += (action - 1) * params.force - slope * params.gravity
        velocity = jnp.clip(velocity, -params.max_speed, params.max_speed)
        position = jnp.clip(
            position + velocity, params.min_position, params.max_position
        )
        stopped = (position <= params.min_position) & (velocity < 0)
        velocity = jnp.where(stopped, 0.0, velocity)
        arrived = position >= params.goal_position
        terminated = arrived & (velocity >= params.goal_velocity)
        return (position, velocity), -jnp.ones(()), terminated

    def render_rgb(self, frame: Frame) -> Picture:
        def on_track(x: float) -> tuple[float, float]:
            return float(x), 0.45 * float(np.sin(3 * x))

        xs = np.linspace(MIN_POSITION, MAX_POSITION, 41)
        track = [
            strokes.Stroke(on_track(a), on_track(b), pixels.GREY)
            for a, b in itertools.pairwise(xs)
        ]
        goal = on_track(float(frame.params.goal_position))
        car = on_track(float(frame.state.game[0]))
        marks = [
            strokes.Stroke(goal, (goal[0], goal[1] + 0.2), pixels.COOPERATE),
            strokes.Stroke(car, car, pixels.PLAYERS[1], 0.1),
        ]
        return strokes.rgb((*track, *marks), centre=(-0.3, 0.0), reach=1.0)


@makes(MountainCar, EnvParams)
def make(**options: Any) -> tuple[MountainCar, EnvParams]:
    """Returns a mountain car and its numbers; options are the fields of both."""
    return make_game(MountainCar, EnvParams, options)
