"""Cart-pole: a pole is balanced on a cart."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from paxenv.environment import Frame
from paxenv.envs.classic_control import problem
from paxenv.game import game, make_game, makes
from paxenv.params import GameParams
from paxenv.rendering import pixels, strokes
from paxenv.types import Picture

THETA_THRESHOLD = 12 * np.pi / 180
X_THRESHOLD = 2.4
RESET_BOUND = 0.05


class EnvParams(GameParams):
    """Numbers of a cart-pole, in SI units.

    Attributes:
        gravity: m/s^2.
        cart_mass: kg.
        pole_mass: kg.
        pole_half_length: From the joint to the pole's centre of mass, m.
        force: Size of the push, N.
        time_step: s.
        x_threshold: The cart must stay within this distance of the middle, m.
        theta_threshold: The pole must stay within this angle of upright, rad.
    """

    gravity: problem.Scalar = 9.8  # type: ignore[assignment]
    cart_mass: problem.Scalar = 1.0  # type: ignore[assignment]
    pole_mass: problem.Scalar = 0.1  # type: ignore[assignment]
    pole_half_length: problem.Scalar = 0.5  # type: ignore[assignment]
    force: problem.Scalar = 10.0  # type: ignore[assignment]
    time_step: problem.Scalar = 0.02  # type: ignore[assignment]
    x_threshold: problem.Scalar = X_THRESHOLD  # type: ignore[assignment]
    theta_threshold: problem.Scalar = THETA_THRESHOLD  # type: ignore[assignment]


@game
class CartPole(problem.ControlProblem):
    """A cart on a track is pushed so that the pole on it does not fall.

    Description:
        The pole hangs on an unactuated joint and opens almost upright: all four
        coordinates are uniform in [-0.05, 0.05). Its state is float32 `[4]`, equal to
        the observation.

    Observation:
        float32 `[4]`: position of the cart, its velocity, angle of the pole from
        upright, its angular velocity. The bounds are twice the default thresholds.

    Action:
        `Discrete(2)`: 0 pushes left, 1 pushes right.

    Reward:
        1 for every step, the last one too.

    End:
        Terminated where the cart or the pole leaves its threshold; by time after 500
        steps.

    Versions:
        v1.

    Source:
        Barto, Sutton & Anderson, Neuronlike Adaptive Elements That Can Solve
        Difficult Learning Control Problems (1983); numbers as in Gymnasium's
        CartPole-v1, integrated by Euler's method.

    Differences from Gymnasium:
        The state is float32, and a fall on the last step is not truncated as well.
    """

    num_inner_steps: int = 500

    name: ClassVar[str] = "CartPole"
    coordinates = {
        "x": (-2 * X_THRESHOLD, 2 * X_THRESHOLD),
        "x velocity": (-np.inf, np.inf),
        "angle": (-2 * THETA_THRESHOLD, 2 * THETA_THRESHOLD),
        "angular velocity": (-np.inf, np.inf),
    }
    actions = ("left", "right")
    num_draws = 4

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def opening(self, draws: Float[Array, " draws"]) -> problem.State:
        return (2 * draws - 1) * jnp.float32(RESET_BOUND)

    def transition(
        self, state: problem.State, action: Int[Array, ""], params: EnvParams
    ) -> problem.Outcome:
        x, x_velocity, theta, theta_velocity = state
        push = jnp.where(action == 1, params.force, -params.force)
        velocities = jnp.stack([x_velocity, theta_velocity])
        x_velocity, theta_velocity = velocities + params.time_step * jnp.stack(
            _accelerations(push, theta, theta_velocity, params)
        )
        x, theta = jnp.stack([x, theta]) + params.time_step * velocities
        fell = jnp.abs(theta) > params.theta_threshold
        terminated = fell | (jnp.abs(x) > params.x_threshold)
        return (x, x_velocity, theta, theta_velocity), jnp.ones(()), terminated

    def render_rgb(self, frame: Frame) -> Picture:
        x, _, theta, _ = frame.state.game
        length = 2 * float(frame.params.pole_half_length)
        tip = (x + length * np.sin(theta), length * np.cos(theta))
        track = strokes.Stroke((-X_THRESHOLD, 0.0), (X_THRESHOLD, 0.0), pixels.GREY)
        cart = strokes.Stroke((x - 0.2, 0.0), (x + 0.2, 0.0), pixels.INK, 0.25)
        pole = strokes.Stroke((x, 0.0), tip, pixels.PLAYERS[1], 0.08)
        return strokes.rgb((track, cart, pole), centre=(0.0, 0.5), reach=X_THRESHOLD)


@makes(CartPole, EnvParams)
def make(**options: Any) -> tuple[CartPole, EnvParams]:
    """Returns a cart-pole and its numbers; options are the fields of both."""
    return make_game(CartPole, EnvParams, options)


def _accelerations(
    push: jax.Array, theta: jax.Array, theta_velocity: jax.Array, params: EnvParams
) -> tuple[jax.Array, jax.Array]:
    """Returns the accelerations of the cart and of the pole's angle."""
    sin, cos = jnp.sin(theta), jnp.cos(theta)
    mass = params.cart_mass + params.pole_mass
    moment = params.pole_mass * params.pole_half_length
    drive = (push + moment * theta_velocity**2 * sin) / mass
    inertia = params.pole_half_length * (4 / 3 - params.pole_mass * cos**2 / mass)
    theta_acceleration = (params.gravity * sin - cos * drive) / inertia
    return drive - moment * theta_acceleration * cos / mass, theta_acceleration
