"""Proximal policy optimisation, without a memory and with one."""

import dataclasses

from paxenv.options import Count, Positive, documented, option
from paxenv_agents.learners.losses import Clipped
from paxenv_agents.learners.policy_gradient import LearnerConfig, PolicyGradient
from paxenv_agents.networks.actor_critic import Recurrent, make_recurrent
from paxenv_agents.networks.recurrent import OfEpisode


@documented
@dataclasses.dataclass(frozen=True)
class PPOConfig(LearnerConfig):
    """Options of PPO. A value out of range is a ValueError that names it."""

    clip_epsilon: Positive = option(
        0.2, "Range in which probability ratios and values are clipped."
    )
    clip_value: bool = option(True, "Whether the value error is clipped too.")

    @property
    def loss(self) -> Clipped:
        return Clipped(self.clip_value)


@dataclasses.dataclass(frozen=True)
class PPO(PolicyGradient):
    """Maximises a clipped surrogate over several passes of minibatches.

    Loss = -mean min(rho A, clip(rho, 1 - eps, 1 + eps) A) + value_coeff * mean value
    error - entropy_coeff * mean entropy. Advantages are normalised once over the batch.
    `state.hyper` also holds `clip_epsilon`.

    Source: Schulman et al., Proximal Policy Optimization Algorithms (2017).

    Example:
        >>> agent = PPO.from_env(env, PPOConfig(hidden_sizes=(16, 16)), player=0)
        >>> state, memory = agent.batch_init(key, agent.init_hidden(num_envs))
    """

    config: PPOConfig = PPOConfig()


@documented
@dataclasses.dataclass(frozen=True)
class RecurrentPPOConfig(PPOConfig):
    """Options of recurrent PPO: those of `PPOConfig` except `tabular`, and one more.

    `hidden_sizes` are the widths of the encoder before the recurrent units (`()`: the
    units read the features), and a minibatch is of whole games.
    """

    hidden_sizes: tuple[int, ...] = (64,)
    gru_size: Count = option(
        64,
        "Number of gated recurrent units; without `shared_torso` the policy and the "
        "value have this number each.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tabular:
            raise ValueError(
                "tabular must be False for a recurrent policy: it is no table of states"
            )


@dataclasses.dataclass(frozen=True)
class RecurrentPPO(PolicyGradient):
    """PPO whose policy and value read a gated recurrent unit.

    `memory.hidden` is the unit's state, 0 at the opening of every inner episode. A loss
    plays its sequence again from the first stored state, clears the state where an
    inner episode ends, passes over steps that were not played, and is differentiated
    through all of it. An update keeps the memory: where a game goes on, its first state
    of the next batch was made by the parameters before the update.

    Source: Schulman et al. (2017) for the loss, as `PPO`; Hausknecht & Stone, Deep
    Recurrent Q-Learning for Partially Observable MDPs (2015), for sequences that open
    with a stored state.
    """

    config: RecurrentPPOConfig = RecurrentPPOConfig()

    @property
    def actor_critic(self) -> Recurrent:
        return make_recurrent(
            self.observation_space, self.distribution, self.config, OfEpisode()
        )
