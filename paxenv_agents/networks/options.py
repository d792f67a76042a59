"""The options of networks that learners share."""

import dataclasses
from typing import Annotated

from paxenv.options import Count, Widths, check, one_of
from paxenv_agents.networks import distributions, feed_forward

Activation = Annotated[str, one_of(*feed_forward.ACTIVATIONS)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Options of networks that all actor-critics have; `PPOConfig` explains each one.

    Their widths, `hidden_sizes`, have a default of each learner's own.
    """

    activation: Activation = "tanh"
    shared_torso: bool = False
    tabular: bool = False
    action_scale: Annotated[str, one_of(*distributions.SCALES)] = "state_independent"
    action_bound: Annotated[str, one_of(*distributions.BOUNDS)] = "squashed"
    conv_channels: Widths = (16, 16)
    kernel_size: Count = 3

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "conv_channels", tuple(self.conv_channels))

    def check_plan(self) -> None:
        """Raises ValueError if something ends with a plan and there is no plan."""
