"""Strategies that never look: one action for ever, one logit vector, or a draw."""

import dataclasses
from typing import Any, Self

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from paxenv import keys, spaces
from paxenv.environment import Environment
from paxenv_agents.agent import Agent, num_players
from paxenv_agents.registry import PairingError
from paxenv_agents.strategies import memory_one
from paxenv_agents.strategies.memory_one import Automaton
from paxenv_agents.types import Acted, MemoryState, TrainingState

NUM_LOGITS = 5


@dataclasses.dataclass(frozen=True)
class Constant(Agent):
    """Plays one action for ever, in any matrix or tensor game of two actions.

    Attributes:
        action: 0 to cooperate (`Altruistic`, `AllC`), 1 to defect (`Defect`, `AllD`).

    Raises:
        PairingError: If the seat does not have exactly these two actions.
        ValueError: If `action` is neither 0 nor 1.
    """

    _: dataclasses.KW_ONLY
    action: int

    def __post_init__(self) -> None:
        memory_one.require_two_actions(self.action_space)
        if self.action not in (0, 1):
            raise ValueError(
                f"action must be 0, cooperate, or 1, defect, got {self.action!r}"
            )

    @classmethod
    def for_seat(cls, env: Environment, player: int, **fields: Any) -> Self:
        """Refuses a game of one player: it has nobody to cooperate with."""
        if num_players(env) < 2:
            raise PairingError("there is nobody to cooperate with in a one-player game")
        return super().for_seat(env, player, **fields)

    @property
    def vector(self) -> tuple[float, ...]:
        """P(cooperate) after CC, CD, DC, DD and at the start."""
        return (1.0 - self.action,) * memory_one.MEMORY_ONE_STATES

    @property
    def automaton(self) -> Automaton:
        """One state."""
        return Automaton(outputs=(self.action,), transitions=((0, 0),))

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        return jnp.asarray(self.action, jnp.int32), state, memory


@dataclasses.dataclass(frozen=True)
class ConstantLogits(Agent):
    """Plays one memory-one policy for ever, in the infinite matrix game.

    Attributes:
        logits: Five logits of P(cooperate), after CC, CD, DC, DD and at the start;
            clipped to the bounds of the action space.

    Raises:
        PairingError: If the seat's action is not a vector of five numbers.
        ValueError: If there are not five logits.
    """

    _: dataclasses.KW_ONLY
    logits: tuple[float, ...]

    def __post_init__(self) -> None:
        space = self.action_space
        if not isinstance(space, gymnasium.spaces.Box) or space.shape != (NUM_LOGITS,):
            raise PairingError(
                "it needs the infinite matrix game, whose action is a vector of "
                f"{NUM_LOGITS} logits, got the action space {space}"
            )
        object.__setattr__(self, "logits", tuple(float(x) for x in self.logits))
        if len(self.logits) != NUM_LOGITS:
            raise ValueError(f"expected {NUM_LOGITS} logits, got {self.logits}")

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        space = self.action_space
        assert isinstance(space, gymnasium.spaces.Box)
        action = np.clip(np.asarray(self.logits, space.dtype), space.low, space.high)
        return jnp.asarray(action), state, memory


@dataclasses.dataclass(frozen=True)
class Random(Agent):
    """Draws each action uniformly, in any game with Discrete or bounded Box actions.

    With `greedy` it plays the first action, or the middle of the Box: a uniform
    policy has no best action, and acting greedily is by contract deterministic.

    Raises:
        PairingError: If one cannot draw uniformly from the action space.
    """

    def __post_init__(self) -> None:
        if isinstance(self.action_space, gymnasium.spaces.Box):
            _require_finite_box(self.action_space)
        elif not isinstance(self.action_space, gymnasium.spaces.Discrete):
            raise PairingError(
                f"it needs Discrete or Box actions, got {self.action_space}"
            )

    @property
    def vector(self) -> tuple[float, ...]:
        """P(cooperate) after CC, CD, DC, DD and at the start, with two actions."""
        memory_one.require_two_actions(self.action_space)
        return (0.5,) * memory_one.MEMORY_ONE_STATES

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        space = self.action_space
        if isinstance(space, gymnasium.spaces.Box):
            share = self._shares(memory.key, space)
            action = jnp.asarray(space.low + share * (space.high - space.low))
            action = action.astype(spaces.dtype_of(space))
        else:
            assert isinstance(space, gymnasium.spaces.Discrete)
            index = 0 if self.greedy else _below(memory.key, int(space.n))
            action = jnp.asarray(int(space.start) + index, spaces.dtype_of(space))
        if self.greedy:
            return action, state, memory
        return action, state, memory.replace(key=keys.fold_in(memory.key, 1))

    def _shares(self, key: jax.Array, space: gymnasium.spaces.Box) -> Any:
        """Returns where in the Box the action lies, 0 at `low` and 1 at `high`."""
        if self.greedy:
            return np.full(space.shape, 0.5, np.float32)
        words = keys.words(keys.fold_in(key, 0), int(np.prod(space.shape)))
        return keys.uniform(words).reshape(space.shape)


def _below(key: jax.Array, n: int) -> jax.Array:
    return keys.below(keys.words(key, 1)[0], n)


def _require_finite_box(space: gymnasium.spaces.Box) -> None:
    """Raises PairingError unless a Box is of floats between finite bounds."""
    finite = np.isfinite(space.low).all() and np.isfinite(space.high).all()
    if not np.issubdtype(space.dtype, np.floating) or not finite:
        raise PairingError(
            f"it needs a Box of floats with finite bounds to draw from, got {space}"
        )
