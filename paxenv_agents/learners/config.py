"""The options of policy-gradient learners."""

import dataclasses

from paxenv.options import Count, Positive, Share, Weight, Widths, option
from paxenv_agents.learners.losses import Loss, Plain
from paxenv_agents.networks.options import NetworkConfig


@dataclasses.dataclass(frozen=True)
class LearnerConfig(NetworkConfig):
    """Options that policy-gradient learners share; `PPOConfig` explains each one."""

    learning_rate: Weight = option(
        3e-4, "Adam's step size at the first optimiser step."
    )
    n_steps: Count = option(128, "Steps of a rollout in endless play.")
    hidden_sizes: Widths = option(
        (64, 64), "Widths of the hidden layers; `()` is a linear policy."
    )
    num_envs: Count | None = option(
        None, "Games played at once; None: as the runner says."
    )
    num_epochs: Count = option(4, "Passes over each batch.")
    num_minibatches: Count = option(4, "Minibatches of a pass, an optimiser step each.")
    gamma: Share = option(0.99, "Discount of a step.")
    gae_lambda: Share = option(0.95, "Lambda of generalised advantage estimation.")
    value_coeff: Weight = option(0.5, "Weight of the value error.")
    max_grad_norm: Positive | None = option(
        0.5, "Norm at which gradients are clipped; None: not clipped."
    )
    entropy_coeff: Weight = option(0.01, "Weight of the entropy in the loss, at first.")
    entropy_coeff_end: Weight | None = option(
        None, "Weight of the entropy at the end of a linear schedule; None: constant."
    )
    entropy_coeff_horizon: Count | None = option(
        None, "Timesteps of that schedule; None: those of the planned updates."
    )
    learning_rate_end: Weight | None = option(
        None, "Learning rate at the last planned step, linearly; None: constant."
    )
    num_updates: Count | None = option(
        None, "Number of planned updates, at which linear schedules end."
    )
    adam_eps: Positive = option(1e-5, "Adam's epsilon.")
    normalise_advantages: bool = option(
        True, "Whether advantages are normalised to mean 0 and standard deviation 1."
    )

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

    @property
    def loss(self) -> Loss:
        """What an update minimises."""
        return Plain()
