"""The options of an actor-critic's networks, and the checks of their values."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from paxenv_agents import distributions, options

RULES: dict[str, options.Rule] = {
    "activation": options.ACTIVATION,
    "shared_torso": options.FLAG,
    "tabular": options.FLAG,
    "action_scale": options.one_of(distributions.SCALES),
    "action_bound": options.one_of(distributions.BOUNDS),
    "conv_channels": options.WIDTHS,
    "kernel_size": options.COUNT,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Options of networks that all actor-critics have; `PPOConfig` explains each one.

    Their widths, `hidden_sizes`, have a default of each learner's own.
    """

    activation: str = "tanh"
    shared_torso: bool = False
    tabular: bool = False
    action_scale: str = "state_independent"
    action_bound: str = "squashed"
    conv_channels: tuple[int, ...] = (16, 16)
    kernel_size: int = 3

    #: By option, those of subclasses too.
    rules: ClassVar[Mapping[str, options.Rule]] = RULES

    def __post_init__(self) -> None:
        options.check(self, self.rules)
        object.__setattr__(self, "conv_channels", tuple(self.conv_channels))

    def check_plan(self) -> None:
        """Raises ValueError if something ends with a plan and there is no plan."""
