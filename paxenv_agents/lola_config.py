"""The options of LOLA, and the checks of their values."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from paxenv_agents import learner_config, options
from paxenv_agents.network_config import NetworkConfig

OPTIMIZERS = ("adam", "sgd")

RULES: dict[str, options.Rule] = {
    **learner_config.RULES,
    "lr_in": options.WEIGHT,
    "optimizer": options.one_of(OPTIMIZERS),
    "num_lookaheads": options.Rule(
        lambda x: x == 0 or options.is_count(x), "a whole number >= 0"
    ),
    "use_baseline": options.FLAG,
    "shaping": options.FLAG,
    "opponent_modelling": options.FLAG,
    "model_steps": options.COUNT,
    "model_lr": options.POSITIVE,
    "num_rollout_games": options.COUNT.or_none(),
}


@dataclasses.dataclass(frozen=True)
class LOLAConfig(NetworkConfig):
    """Options of `LOLA`.

    The default network is linear in the observation: on one-hot observations a softmax
    over one row of logits per state. The other options of networks are those of
    `PPOConfig`.

    Attributes:
        learning_rate: Step size of the outer optimiser.
        lr_in: Step size of the co-players' look-ahead, plain gradient ascent. It is
            that of the logit of a probability: a softmax over two logits moves their
            difference by twice a step, so there each logit is moved by half of it.
        optimizer: The outer one, `"adam"` or `"sgd"`.
        num_lookaheads: Steps that the co-players are expected to take; 0: the naive
            learner.
        gamma: Discount of a step, of everybody's objective.
        use_baseline: Whether objectives have a baseline; it takes away variance only.
        shaping: Whether the own gradient flows through the look-ahead. Off: a naive
            learner against the co-players of the next step.
        opponent_modelling: Whether the co-players' policies are fitted from their
            actions; their parameters are then never read.
        model_steps: Adam's steps of a fit.
        model_lr: Adam's step size in a fit.
        num_rollout_games: Games of each rollout; none: as many as are played.
        value_coeff: Weight of the value error.
        max_grad_norm: Longest gradient; none: any.
        adam_eps: Adam's epsilon. A small one turns the noise in the gradients of
            states that are hardly visited into whole steps.
        n_steps: Steps of a rollout in endless streams (runners).
        hidden_sizes: Widths of hidden layers; `()` is a linear policy.
    """

    learning_rate: float = 0.2
    lr_in: float = 0.6
    optimizer: str = "adam"
    num_lookaheads: int = 1
    gamma: float = 0.96
    use_baseline: bool = True
    shaping: bool = True
    opponent_modelling: bool = False
    model_steps: int = 100
    model_lr: float = 0.1
    num_rollout_games: int | None = None
    value_coeff: float = 1.0
    max_grad_norm: float | None = None
    adam_eps: float = 0.1
    n_steps: int = 128
    hidden_sizes: tuple[int, ...] = ()

    rules: ClassVar[Mapping[str, options.Rule]] = RULES

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))
