"""The naive learner: a policy gradient that treats its co-players as fixed."""

import dataclasses

from paxenv.options import documented
from paxenv_agents.learners.policy_gradient import LearnerConfig, PolicyGradient


@documented
@dataclasses.dataclass(frozen=True)
class NaiveConfig(LearnerConfig):
    """Options of the naive learner: those of `PPOConfig` but for the clips.

    Defaults that differ from PPO's: one optimiser step per batch, and a linear policy,
    which on one-hot observations is a softmax over one row of logits per state.
    """

    learning_rate: float = 0.1
    hidden_sizes: tuple[int, ...] = ()
    num_epochs: int = 1
    num_minibatches: int = 1
    gamma: float = 0.96
    value_coeff: float = 1.0


@dataclasses.dataclass(frozen=True)
class Naive(PolicyGradient):
    """REINFORCE with a learnt baseline.

    Loss = -mean rho A + value_coeff * mean (R - V)^2 - entropy_coeff * mean entropy,
    where rho is the ratio to the behaviour, 1 in the first optimiser step. With
    `gae_lambda=1` the targets R are the discounted rewards to go.

    Source: Williams, Simple Statistical Gradient-Following Algorithms (1992); in games
    with other learners: Foerster et al., Learning with Opponent-Learning Awareness
    (2018), section 3.
    """

    config: NaiveConfig = NaiveConfig()
