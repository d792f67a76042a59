"""Proximal policy optimisation, without a memory and with one."""

import dataclasses
from typing import ClassVar

from paxenv_agents.learners.config import LearnerConfig
from paxenv_agents.learners.losses import Clipped
from paxenv_agents.learners.policy_gradient import PolicyGradient
from paxenv_agents.networks.actor_critic import Recurrent, make_recurrent
from paxenv_agents.networks.recurrent import OfEpisode


@dataclasses.dataclass(frozen=True)
class PPOConfig(LearnerConfig):
    """Options of PPO. A value out of range is a ValueError that names it.

    =====================  ===================  =======================================
    option                 default              meaning
    =====================  ===================  =======================================
    learning_rate          0.0003               Adam's first step size
    n_steps                128                  steps of a rollout in a stream (runners)
    hidden_sizes           (64, 64)             hidden widths; () is a linear policy
    num_envs               None                 games at once; None: the runner's
    num_epochs             4                    passes over each batch
    num_minibatches        4                    optimiser steps of a pass
    gamma                  0.99                 discount of a step
    gae_lambda             0.95                 decay of the advantages' trace
    value_coeff            0.5                  weight of the value error
    max_grad_norm          0.5                  longest gradient; None: any
    entropy_coeff          0.01                 first weight of the entropy
    entropy_coeff_end      None                 its last weight; None: constant
    entropy_coeff_horizon  None                 timesteps to there; None: as planned
    learning_rate_end      None                 last rate, as planned; None: constant
    num_updates            None                 the plan, for what ends with it
    adam_eps               1e-05                Adam's epsilon
    normalise_advantages   True                 to mean 0 and deviation 1
    activation             'tanh'               'tanh', 'relu' or 'silu'
    shared_torso           False                a torso with two heads, or two networks
    tabular                False                a row of logits and a value per state
    action_scale           'state_independent'  of a Box: or 'softplus', a head's
    action_bound           'squashed'           of a Box: or 'scaled', then clipped
    conv_channels          (16, 16)             of images: channels; () flattens them
    kernel_size            3                    of images: width of the convolutions
    clip_epsilon           0.2                  how far ratio and value move at once
    clip_value             True                 whether the value error is clipped too
    =====================  ===================  =======================================
    """

    clip_epsilon: float = 0.2
    clip_value: bool = True

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

    config_class: ClassVar[type[LearnerConfig]] = PPOConfig


@dataclasses.dataclass(frozen=True)
class RecurrentPPOConfig(PPOConfig):
    """Options of recurrent PPO: those of `PPOConfig` except `tabular`, and one more.

    `hidden_sizes` are the widths of the encoder before the recurrent units (`()`: the
    units read the features), and a minibatch is of whole games.

    Attributes:
        gru_size: Gated recurrent units, of the policy and the value each if
            `shared_torso` is off.
    """

    hidden_sizes: tuple[int, ...] = (64,)
    gru_size: int = 64

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

    recurrent: ClassVar[bool] = True
    stores_hiddens: ClassVar[str] = "first"
    config_class: ClassVar[type[LearnerConfig]] = RecurrentPPOConfig

    @property
    def actor_critic(self) -> Recurrent:
        return make_recurrent(
            self.observation_space, self.distribution, self.config, OfEpisode()
        )
