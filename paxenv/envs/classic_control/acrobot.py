"""Acrobot: two links swing up by a motor between them."""

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

MAX_VELOCITY_1 = 4 * np.pi
MAX_VELOCITY_2 = 9 * np.pi
RESET_BOUND = 0.1


class EnvParams(GameParams):
    """Numbers of an acrobot, in SI units; link 1 hangs on the fixed joint.

    Attributes:
        gravity: m/s^2.
        link_length_1: m.
        link_mass_1: kg.
        link_mass_2: kg.
        link_centre_1: From the fixed joint to link 1's centre of mass, m.
        link_centre_2: From the motor to link 2's centre of mass, m.
        link_inertia: Moment of inertia of each link, kg m^2.
        torque: Size of the motor's torque, N m.
        time_step: s.
        max_velocity_1: Bound of link 1's angular velocity, rad/s.
        max_velocity_2: Bound of link 2's angular velocity, rad/s.
        goal_height: The free end must rise above this, in lengths of one link over
            the fixed joint, both links counted as equally long.
    """

    gravity: problem.Scalar = 9.8  # type: ignore[assignment]
    link_length_1: problem.Scalar = 1.0  # type: ignore[assignment]
    link_mass_1: problem.Scalar = 1.0  # type: ignore[assignment]
    link_mass_2: problem.Scalar = 1.0  # type: ignore[assignment]
    link_centre_1: problem.Scalar = 0.5  # type: ignore[assignment]
    link_centre_2: problem.Scalar = 0.5  # type: ignore[assignment]
    link_inertia: problem.Scalar = 1.0  # type: ignore[assignment]
    torque: problem.Scalar = 1.0  # type: ignore[assignment]
    time_step: problem.Scalar = 0.2  # type: ignore[assignment]
    max_velocity_1: problem.Scalar = MAX_VELOCITY_1  # type: ignore[assignment]
    max_velocity_2: problem.Scalar = MAX_VELOCITY_2  # type: ignore[assignment]
    goal_height: problem.Scalar = 1.0  # type: ignore[assignment]


@game
class Acrobot(problem.ControlProblem):
    """A chain of two links swings its free end above a bar.

    Description:
        Link 1 hangs on a fixed joint, link 2 on link 1, and a motor turns the joint
        between them. Both open almost hanging: angles and angular velocities are
        uniform in [-0.1, 0.1). The state is float32 `[4]`: the angle of link 1 from
        hanging, the angle of link 2 from link 1, both in [-pi, pi], and their
        angular velocities.

    Observation:
        float32 `[6]`: cosine and sine of the first angle, of the second, and both
        angular velocities, within the default bounds.

    Action:
        `Discrete(3)`: torque -1, 0 or 1.

    Reward:
        -1 for every step, 0 for one that reaches the goal.

    End:
        Terminated where the free end is above the goal; by time after 500 steps.

    Versions:
        v1.

    Source:
        Sutton, Generalization in Reinforcement Learning: Successful Examples Using
        Sparse Coarse Coding (1996), with the equations of Sutton & Barto,
        Reinforcement Learning (1998), section 11.3; numbers as in Gymnasium's
        Acrobot-v1, integrated by one step of Runge-Kutta of order 4.

    Differences from Gymnasium:
        The state is float32, and the goal on the last step is not truncated as well.
    """

    num_inner_steps: int = 500

    name: ClassVar[str] = "Acrobot"
    coordinates = {
        **dict.fromkeys(("cos 1", "sin 1", "cos 2", "sin 2"), (-1.0, 1.0)),
        "velocity 1": (-MAX_VELOCITY_1, MAX_VELOCITY_1),
        "velocity 2": (-MAX_VELOCITY_2, MAX_VELOCITY_2),
    }
    actions = ("torque -", "no torque", "torque +")
    num_draws = 4

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def opening(self, draws: Float[Array, " draws"]) -> problem.State:
        return (2 * draws - 1) * jnp.float32(RESET_BOUND)

    def observe(self, state: problem.State) -> Float[Array, "6"]:
        cos, sin = jnp.cos(state[:2]), jnp.sin(state[:2])
        return jnp.stack([cos[0], sin[0], cos[1], sin[1], state[2], state[3]])

    def transition(
        self, state: problem.State, action: Int[Array, ""], params: EnvParams
    ) -> problem.Outcome:
        torque = (action - 1) * params.torque
        theta_1, theta_2, velocity_1, velocity_2 = _integrated(state, torque, params)
        after = (
            problem.wrapped(theta_1),
            problem.wrapped(theta_2),
            jnp.clip(velocity_1, -params.max_velocity_1, params.max_velocity_1),
            jnp.clip(velocity_2, -params.max_velocity_2, params.max_velocity_2),
        )
        height = -jnp.cos(theta_1) - jnp.cos(theta_1 + theta_2)
        terminated = height > params.goal_height
        return after, jnp.where(terminated, 0.0, -1.0), terminated

    def render_rgb(self, frame: Frame) -> Picture:
        theta_1, theta_2 = (float(angle) for angle in frame.state.game[:2])
        elbow = (float(np.sin(theta_1)), -float(np.cos(theta_1)))
        tip = (
            elbow[0] + float(np.sin(theta_1 + theta_2)),
            elbow[1] - float(np.cos(theta_1 + theta_2)),
        )
        bar = float(frame.params.goal_height)
        lines = (
            strokes.Stroke((-2.2, bar), (2.2, bar), pixels.GREY),
            strokes.Stroke((0.0, 0.0), elbow, pixels.PLAYERS[0], 0.15),
            strokes.Stroke(elbow, tip, pixels.PLAYERS[1], 0.15),
        )
        return strokes.rgb(lines, centre=(0.0, 0.0), reach=2.2)


@makes(Acrobot, EnvParams)
def make(**options: Any) -> tuple[Acrobot, EnvParams]:
    """Returns an acrobot and its numbers; options are the fields of both."""
    return make_game(Acrobot, EnvParams, options)


def _integrated(state: jax.Array, torque: jax.Array, params: EnvParams) -> jax.Array:
    """Returns the state one time step later, by Runge-Kutta of order 4."""
    h = params.time_step
    k1 = _derivative(state, torque, params)
    k2 = _derivative(state + h / 2 * k1, torque, params)
    k3 = _derivative(state + h / 2 * k2, torque, params)
    k4 = _derivative(state + h * k3, torque, params)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def _derivative(state: jax.Array, torque: jax.Array, params: EnvParams) -> jax.Array:
    """Returns the time derivative of a state."""
    theta_1, theta_2, velocity_1, velocity_2 = state
    m1, m2 = params.link_mass_1, params.link_mass_2
    l1, c1, c2 = params.link_length_1, params.link_centre_1, params.link_centre_2
    inertia, g = params.link_inertia, params.gravity
    sin, cos = jnp.sin(theta_2), jnp.cos(theta_2)
    d1 = m1 * c1**2 + m2 * (l1**2 + c2**2 + 2 * l1 * c2 * cos) + 2 * inertia
    d2 = m2 * (c2**2 + l1 * c2 * cos) + inertia
    coupling = m2 * l1 * c2 * sin
    phi2 = m2 * c2 * g * jnp.sin(theta_1 + theta_2)
    phi1 = phi2 + (m1 * c1 + m2 * l1) * g * jnp.sin(theta_1)
    phi1 -= coupling * velocity_2 * (velocity_2 + 2 * velocity_1)
    push = torque + d2 / d1 * phi1 - coupling * velocity_1**2 - phi2
    acceleration_2 = push / (m2 * c2**2 + inertia - d2**2 / d1)
    acceleration_1 = -(d2 * acceleration_2 + phi1) / d1
    return jnp.stack([velocity_1, velocity_2, acceleration_1, acceleration_2])
