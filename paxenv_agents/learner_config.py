"""The options of policy-gradient learners, and the checks of their values."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from paxenv_agents import networks


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

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in _OPTIONAL:
                continue
            holds, claim = _RULES[field.name]
            if not holds(value):
                raise ValueError(f"{field.name} must be {claim}, got {value!r}")
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


def _is_real(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _are_widths(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(map(_is_count, value))


Rule = tuple[Callable[[Any], bool], str]
_COUNT: Rule = (_is_count, "a whole number >= 1")
_SHARE: Rule = (lambda x: _is_real(x) and 0 <= x <= 1, "a number in [0, 1]")
_WEIGHT: Rule = (lambda x: _is_real(x) and x >= 0, "a finite number >= 0")
_POSITIVE: Rule = (lambda x: _is_real(x) and x > 0, "a finite number > 0")
_FLAG: Rule = (lambda x: isinstance(x, bool), "True or False")
_NAMES = tuple(networks.ACTIVATIONS)

_OPTIONAL = (
    "num_envs",
    "max_grad_norm",
    "entropy_coeff_end",
    "entropy_coeff_horizon",
    "learning_rate_end",
    "num_updates",
)
_RULES: dict[str, Rule] = {
    "learning_rate": _WEIGHT,
    "n_steps": _COUNT,
    "hidden_sizes": (_are_widths, "a sequence of whole numbers >= 1"),
    "num_envs": _COUNT,
    "num_epochs": _COUNT,
    "num_minibatches": _COUNT,
    "gamma": _SHARE,
    "gae_lambda": _SHARE,
    "value_coeff": _WEIGHT,
    "max_grad_norm": _POSITIVE,
    "entropy_coeff": _WEIGHT,
    "entropy_coeff_end": _WEIGHT,
    "entropy_coeff_horizon": _COUNT,
    "learning_rate_end": _WEIGHT,
    "num_updates": _COUNT,
    "adam_eps": _POSITIVE,
    "normalise_advantages": _FLAG,
    "activation": (lambda x: x in _NAMES, f"one of {_NAMES}"),
    "shared_torso": _FLAG,
    "tabular": _FLAG,
    "clip_epsilon": _POSITIVE,
    "clip_value": _FLAG,
}
