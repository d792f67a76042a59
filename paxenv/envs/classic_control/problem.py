"""What the classic control problems have in common."""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from paxenv import keys
from paxenv.environment import Environment, Frame
from paxenv.rendering import strokes
from paxenv.types import Flag, Info, Reward

Scalar = Float[Array, ""]
State = Float[Array, " coordinates"]
#: Discrete, or a torque.
Action = Int[Array, ""] | Float[Array, "1"]
#: Coordinates of the next state, reward, and whether it is an end by the rules.
Outcome = tuple[tuple[Scalar, ...], Reward, Flag]


class ControlProblem(Environment):
    """The base of the classic control problems: one player, states of a few floats.

    A problem writes its constants and its rules: `opening`, `transition`, and `observe`
    where the player does not see the state itself.

    Attributes:
        coordinates: Name, least and greatest value of each observed number.
        actions: The names of the actions, in order; () where actions are continuous.
        num_draws: How many random numbers an opening takes.
    """

    coordinates: ClassVar[Mapping[str, tuple[float, float]]]
    actions: ClassVar[tuple[str, ...]] = ()
    num_draws: ClassVar[int]

    @property
    def num_players(self) -> int:
        return 1

    def action_names(self, player: int = 0) -> tuple[str, ...]:
        """Returns the names of the actions, in order; () for continuous ones."""
        return self.actions

    def make_observation_space(self, player: int) -> gymnasium.Space:
        low, high = np.array(list(self.coordinates.values()), np.float32).T
        return gymnasium.spaces.Box(low, high, dtype=np.float32)

    def make_action_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(len(self.actions), dtype=np.int32)

    @abc.abstractmethod
    def opening(self, draws: Float[Array, " draws"]) -> State:
        """Returns the state that opens an episode, from numbers uniform in [0, 1)."""

    @abc.abstractmethod
    def transition(self, state: State, action: Action, params: Any) -> Outcome:
        """Plays one action and returns (coordinates, reward, terminated)."""

    def observe(self, state: State) -> Float[Array, " observed"]:
        """Returns what the player sees of a state; by default all of it."""
        return state

    def draw(self, key: Key[Array, ""]) -> Float[Array, " draws"]:
        return keys.uniform(keys.words(key, self.num_draws))

    def reset_game(
        self, draws: Float[Array, " draws"], params: Any
    ) -> tuple[Float[Array, " observed"], State]:
        state = self.opening(draws)
        return self.observe(state), state

    def step_game(
        self, draws: Any, game: State, actions: Action, params: Any
    ) -> tuple[Float[Array, " observed"], State, Reward, Flag, Info]:
        coordinates, reward, terminated = self.transition(game, actions, params)
        state = jnp.stack(coordinates).astype(jnp.float32)
        return self.observe(state), state, reward, terminated, {}

    def render_ansi(self, frame: Frame) -> str:
        return strokes.text(self, frame, tuple(self.coordinates))


def wrapped(angle: Scalar) -> Scalar:
    """Returns an angle in [-pi, pi]; those that are there already do not change."""
    return angle - 2 * jnp.pi * jnp.floor((angle + jnp.pi) / (2 * jnp.pi))
