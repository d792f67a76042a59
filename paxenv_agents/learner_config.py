"""The options of policy-gradient learners, and the checks of their values."""

import dataclasses
from collections.abc import Iterable

from paxenv_agents import distributions, options


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
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
    activation: str = "tanh"
    shared_torso: bool = True
    tabular: bool = False
    action_scale: str = "state_independent"
    action_bound: str = "squashed"
    conv_channels: tuple[int, ...] = (16, 16)
    kernel_size: int = 3

    def __post_init__(self) -> None:
        options.check(self, RULES)
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))
        object.__setattr__(self, "conv_channels", tuple(self.conv_channels))
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
        """Raises ValueError if a schedule ends with the plan and there is no plan."""
        by_plan = self.learning_rate_end is not None or (
            self.entropy_coeff_end is not None and self.entropy_coeff_horizon is None
        )
        if by_plan and self.num_updates is None:
            raise ValueError(
                "learning_rate_end and entropy_coeff_end are reached at the last "
                "planned update, but num_updates is None: set it in the config, or "
                "call agent.planned(num_updates)"
            )


def _one_of(names: Iterable[str]) -> options.Rule:
    known = tuple(names)
    return options.Rule(lambda x: x in known, f"one of {known}")


#: By option; `options.check` reads those that a config has.
RULES: dict[str, options.Rule] = {
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
    "activation": options.ACTIVATION,
    "shared_torso": options.FLAG,
    "tabular": options.FLAG,
    "action_scale": _one_of(distributions.SCALES),
    "action_bound": _one_of(distributions.BOUNDS),
    "conv_channels": options.WIDTHS,
    "kernel_size": options.COUNT,
    "gru_size": options.COUNT,
    "context": _one_of(("nothing", "avg", "att")),
    "meta_memory": _one_of(("trial", "episode")),
    "clip_epsilon": options.POSITIVE,
    "clip_value": options.FLAG,
}
