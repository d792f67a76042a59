"""The options of networks that learners share."""

import dataclasses
from typing import Annotated

from paxenv.options import Count, Widths, check, one_of, option
from paxenv_agents.networks import distributions, feed_forward

Activation = Annotated[str, one_of(*feed_forward.ACTIVATIONS)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Options of networks that all actor-critics have; `PPOConfig` explains each one.

    Their widths, `hidden_sizes`, have a default of each learner's own.
    """

    activation: Activation = option("tanh", "`tanh`, `relu` or `silu`.")
    shared_torso: bool = option(False, "One torso with two heads, or two networks.")
    tabular: bool = option(
        False, "A row of logits and a value for each observed state."
    )
    action_scale: Annotated[str, one_of(*distributions.SCALES)] = option(
        "state_independent", "Of a Box: a learnt vector, or `softplus` of a head."
    )
    action_bound: Annotated[str, one_of(*distributions.BOUNDS)] = option(
        "squashed", "Of a Box: through tanh, or `scaled` and clipped."
    )
    conv_channels: Widths = option(
        (16, 16), "Of images: channels of each convolution; `()` flattens them."
    )
    kernel_size: Count = option(3, "Of images: height and width of the convolutions.")

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "conv_channels", tuple(self.conv_channels))

    def check_plan(self) -> None:
        """Raises ValueError if something ends with a plan and there is no plan."""
