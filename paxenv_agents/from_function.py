"""A plain function as an agent."""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Num, PyTree

from paxenv import keys, spaces
from paxenv_agents.agent import Agent
from paxenv_agents.types import MemoryState, TrainingState


@dataclasses.dataclass(frozen=True)
class FromFunction(Agent):
    """Plays what `function(obs, key)` returns; without memory, without learning.

    Attributes:
        function: Takes one observation and a typed key of its own for each step, and
            returns one action. It is compiled with the game, so it must be written
            in JAX: `jnp.where(obs[1], 1, 0)`, not `if obs[1]: ...`.

    Raises:
        ValueError: If JAX cannot trace the function, or its action has the wrong
            shape or is a fraction of a discrete action.
    """

    _: dataclasses.KW_ONLY
    function: Callable[[Any, jax.Array], Any]

    def __post_init__(self) -> None:
        name = getattr(self.function, "__name__", repr(self.function))
        action = self._traced(name)
        shape = self.action_space.shape
        if action.shape != shape:
            raise ValueError(
                f"{name}(obs, key) returned an action of shape {action.shape}, the "
                f"action space {self.action_space} needs {shape}"
            )
        discrete = isinstance(self.action_space, gymnasium.spaces.Discrete)
        if discrete and not jnp.issubdtype(action.dtype, jnp.integer):
            raise ValueError(
                f"{name}(obs, key) returned {action.dtype}, the action space "
                f"{self.action_space} needs whole numbers"
            )

    def policy(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> tuple[Num[Array, "*action"], TrainingState, MemoryState]:
        action = self.function(obs, keys.fold_in(memory.key, 0))
        after = memory.replace(key=keys.fold_in(memory.key, 1))
        return jnp.asarray(action, spaces.dtype_of(self.action_space)), state, after

    def _traced(self, name: str) -> Any:
        sample = self.observation_space.sample()
        obs = jax.tree.map(jnp.asarray, sample)

        def act(obs: PyTree, key: jax.Array) -> jax.Array:
            return jnp.asarray(self.function(obs, key))

        try:
            return jax.eval_shape(act, obs, jax.random.key(0))
        except Exception as error:
            raise ValueError(
                f"JAX cannot trace {name}(obs, key), which must be written in JAX to "
                f"be compiled with the game: {error}"
            ) from error
