"""The options of policy-gradient learners."""

import dataclasses

from paxenv.options import Count, Positive, Share, Weight, Widths
from paxenv_agents.networks.options import NetworkConfig


@dataclasses.dataclass(frozen=True)
class LearnerConfig(NetworkConfig):
    """Options that policy-gradient learners share; `PPOConfig` explains each one."""

    learning_rate: Weight = 3e-4
    n_steps: Count = 128
    hidden_sizes: Widths = (64, 64)
    num_envs: Count | None = None
    num_epochs: Count = 4
    num_minibatches: Count = 4
    gamma: Share = 0.99
    gae_lambda: Share = 0.95
    value_coeff: Weight = 0.5
    max_grad_norm: Positive | None = 0.5
    entropy_coeff: Weight = 0.01
    entropy_coeff_end: Weight | None = None
    entropy_coeff_horizon: Count | None = None
    learning_rate_end: Weight | None = None
    num_updates: Count | None = None
    adam_eps: Positive = 1e-5
    normalise_advantages: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))
        if self.entropy_coeff_horizon is not None and self.entropy_coeff_end is None:
            raise ValueError(
                f"entropy_coeff_horizon={self.entropy_coeff_horizon} needs "
                "entropy_coeff_end, the weight at its end"
            )

    @property
    def num_steps_of_update(self) -> int:
        """The optimiser steps of an update."""
        return self.num_epochs * self.num_minibatches

    def check_plan(self) -> None:
        by_plan = self.learning_rate_end is not None or (
            self.entropy_coeff_end is not None and self.entropy_coeff_horizon is None
        )
        if by_plan and self.num_updates is None:
            raise ValueError(
                "learning_rate_end and entropy_coeff_end are reached at the last "
                "planned update, but num_updates is None: set it in the config, or "
                "call agent.planned(num_updates)"
            )
