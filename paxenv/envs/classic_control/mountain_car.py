"""Mountain car: a car too weak for the hill gains speed by swinging."""

import itertools
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from paxenv import keys
from paxenv.environment import Environment, Frame
from paxenv.envs.classic_control.making import make_problem
from paxenv.game import game
from paxenv.params import GameParams

MIN_POSITION, MAX_POSITION = -1.2, 0.6
MAX_SPEED = 0.07
RESET_LOW, RESET_HIGH = -0.6, -0.4
ACTION_NAMES = ("left", "none", "right")
COORDINATES = ("position", "velocity")


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

    force: jax.Array = 0.001  # type: ignore[assignment]
    gravity: jax.Array = 0.0025  # type: ignore[assignment]
    max_speed: jax.Array = MAX_SPEED  # type: ignore[assignment]
    min_position: jax.Array = MIN_POSITION  # type: ignore[assignment]
    max_position: jax.Array = MAX_POSITION  # type: ignore[assignment]
    goal_position: jax.Array = 0.5  # type: ignore[assignment]
    goal_velocity: jax.Array = 0.0  # type: ignore[assignment]


@game
class MountainCar(Environment):
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

    @property
    def num_players(self) -> int:
        return 1

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def action_names(self, player: int = 0) -> tuple[str, ...]:
        """Returns the names of the actions, in order."""
        return ACTION_NAMES

    def make_observation_space(self, player: int) -> gymnasium.Space:
        low = np.array([MIN_POSITION, -MAX_SPEED], np.float32)
        high = np.array([MAX_POSITION, MAX_SPEED], np.float32)
        return gymnasium.spaces.Box(low, high, dtype=np.float32)

    def make_action_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(3, dtype=np.int32)

    def draw(self, key: jax.Array) -> jax.Array:
        return keys.uniform(keys.words(key, 1)[0])

    def reset_game(
        self, draws: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, jax.Array]:
        position = RESET_LOW + draws * jnp.float32(RESET_HIGH - RESET_LOW)
        state = jnp.stack([position, jnp.zeros_like(position)])
        return state, state

    def step_game(
        self, draws: Any, game: jax.Array, actions: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        position, velocity = game
        slope = jnp.cos(3 * position)
        velocity += (actions - 1) * params.force - slope * params.gravity
        velocity = jnp.clip(velocity, -params.max_speed, params.max_speed)
        position = jnp.clip(
            position + velocity, params.min_position, params.max_position
        )
        stopped = (position <= params.min_position) & (velocity < 0)
        velocity = jnp.where(stopped, 0.0, velocity)
        arrived = position >= params.goal_position
        terminated = arrived & (velocity >= params.goal_velocity)
        state = jnp.stack([position, velocity]).astype(jnp.float32)
        return state, state, -jnp.ones(()), terminated, {}

    def render_ansi(self, frame: Frame) -> str:
        from paxenv.rendering import strokes

        return strokes.text(self, frame, COORDINATES)

    def render_rgb(self, frame: Frame) -> np.ndarray:
        from paxenv.rendering import pixels, strokes

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


def make(**options: Any) -> tuple[MountainCar, EnvParams]:
    """Returns a mountain car and its numbers, from options of `making.make_problem`."""
    return make_problem(MountainCar, EnvParams, options)
