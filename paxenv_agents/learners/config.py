"""The options of policy-gradient learners, and the checks of their values."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from paxenv_agents.learners.losses import Loss, Plain
from paxenv_agents.networks import options
from paxenv_agents.networks.options import NetworkConfig

#: By option; `options.check` reads those that a config has.
RULES: dict[str, options.Rule] = {
    **options.RULES,
    "learning_rate": options.WEIGHT,
    "n_steps": options.COUNT,
    "hidden_sizes": options.WIDTHS,
    "num_envs": options.COUNT.or_none(),
    "num_epochs": options.COUNT,
    "num_minibatches": options.COUNT,
    "gamma": options.SHARE,
    "gae_lambda": options.SHARE,
    "value_coeff": options.WEIGHT,
    "max_grad_norm": options.POSITIVE.or_none(),
    "entropy_coeff": options.WEIGHT,
    "entropy_coeff_end": options.WEIGHT.or_none(),
    "entropy_coeff_horizon": options.COUNT.or_none(),
    "learning_rate_end": options.WEIGHT.or_none(),
    "num_updates": options.COUNT.or_none(),
    "adam_eps": options.POSITIVE,
    "normalise_advantages": options.FLAG,
    "gru_size": options.COUNT,
    "context": options.one_of(("nothing", "avg", "att")),
    "meta_memory": options.one_of(("trial", "episode")),
    "clip_epsilon": options.POSITIVE,
    "clip_value": options.FLAG,
}


@dataclasses.dataclass(frozen=True)
class LearnerConfig(NetworkConfig):
    """Options that policy-gradient learners share; `PPOConfig` explains each one."""

    learning_rate: float = 3e-4
    n_steps: int = 128
    hidden_sizes: tuple[int, ...] = (64, 64)
    num_envs: int | None = None
    num_epochs: int = 4
    num_minibatches: int = 4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    value_coeff: float = 0.5
    max_grad_norm: float | None = 0.5
    entropy_coeff: float = 0.01
    entropy_coeff_end: float | None = None
    entropy_coeff_horizon: int | None = None
    learning_rate_end: float | None = None
    num_updates: int | None = None
    adam_eps: float = 1e-5
    normalise_advantages: bool = True

    rules: ClassVar[Mapping[str, options.Rule]] = RULES

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))
        if self.entropy_coeff_horizon is not None and self.entropy_coeff_end is None:
            raise ValueError(
                f"entropy_coeff_horizon={self.entropy_coeff_horizon} needs "
                "entropy_coeff_end, the weight at its end"
            )

    @property
    def loss(self) -> Loss:
        """What an update minimises."""
        return Plain()

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
