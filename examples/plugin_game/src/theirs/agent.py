"""A conditional cooperator."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from paxenv_agents import Agent, MemoryState, TrainingState


@dataclasses.dataclass(frozen=True)
class Conditional(Agent):
    """Gives if at least `threshold` of the others gave in the last step.

    Source: Fischbacher, Gaechter & Fehr, Are People Conditionally Cooperative? (2001).
    """

    threshold: float = 0.5

    def policy(
        self, state: TrainingState, obs: Any, memory: MemoryState
    ) -> tuple[Any, TrainingState, MemoryState]:
        return (obs[0] < self.threshold).astype(jnp.int32), state, memory
