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

    activation: Activation = option("tanh", "Activation of the hidden layers.")
    shared_torso: bool = option(
        False, "Whether policy and value are heads of one torso, or two networks."
    )
    tabular: bool = option(
        False, "Whether each observed state has a row of logits and a value of its own."
    )
    action_scale: Annotated[str, one_of(*distributions.SCALES)] = option(
        "state_independent",
        "For a Box: standard deviations are a learnt vector, or the `softplus` of a "
        "head of the network.",
    )
    action_bound: Annotated[str, one_of(*distributions.BOUNDS)] = option(
        "squashed", "For a Box: actions are squashed by tanh, or `scaled` and clipped."
    )
    conv_channels: Widths = option(
        (16, 16),
        "For images: channels of each convolution; `()` flattens the image.",
    )
    kernel_size: Count = option(3, "For images: height and width of the kernels.")

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "conv_channels", tuple(self.conv_channels))

    def check_plan(self) -> None:
        """Raises ValueError if something ends with a plan and there is no plan."""
