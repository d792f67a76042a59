"""SHAPER: a recurrent policy that remembers its co-player's learning."""

import dataclasses
from typing import ClassVar

from paxenv_agents.context_ppo import ContextConfig, ContextPPO
from paxenv_agents.learner_config import LearnerConfig
from paxenv_agents.types import MemoryState, TrainingState


@dataclasses.dataclass(frozen=True)
class ShaperConfig(ContextConfig):
    """Options of the shaper: those of `RecurrentPPOConfig`, and `context`."""


@dataclasses.dataclass(frozen=True)
class Shaper(ContextPPO):
    """PPO with one memory for a whole trial.

    Its hidden state is 0 only at the opening of a trial. It is kept across inner
    episodes and across the co-player's updates, so the policy can read how the
    co-player changes, and change it. Its learning is that of `RecurrentPPO` over the
    trial as one sequence (clock `"trial"`), or evolution of `policy_params`.

    Source: Khan et al., Scaling Opponent Shaping to High Dimensional Games (2024).

    Example:
        >>> agent = Shaper.from_env(env, context="avg")
        >>> slots = Slot(agent, (0,)), Slot(naive, (1,), clock="inner", reset="trial")
    """

    config: ShaperConfig = ShaperConfig()

    config_class: ClassVar[type[LearnerConfig]] = ShaperConfig

    def end_inner_episode(
        self, state: TrainingState, memory: MemoryState
    ) -> MemoryState:
        """Returns the memory as it is."""
        del state
        return memory
