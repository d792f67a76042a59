"""SHAPER: a recurrent policy that remembers its co-player's learning."""

import dataclasses
from typing import ClassVar

from jaxtyping import PyTree

from paxenv_agents.learners.config import LearnerConfig
from paxenv_agents.learners.policy_gradient import PolicyGradient
from paxenv_agents.learners.recurrent_ppo import RecurrentPPOConfig
from paxenv_agents.networks.actor_critic import Recurrent, make_recurrent
from paxenv_agents.networks.recurrent import OfTrial


@dataclasses.dataclass(frozen=True)
class ContextConfig(RecurrentPPOConfig):
    """Options of recurrent PPO, and how games that are played at once share context.

    Attributes:
        context: What a hidden state becomes before each recurrent step: itself
            (`"nothing"`), half of it the mean over the games against the same
            co-player (`"avg"`), or half of it what attention reads there (`"att"`).
        shared_torso: On, as in the networks of the shapers' papers.
    """

    gru_size: int = 16
    shared_torso: bool = dataclasses.field(default=True, kw_only=True)
    context: str = "nothing"


@dataclasses.dataclass(frozen=True)
class ShaperConfig(ContextConfig):
    """Options of the shaper: those of `RecurrentPPOConfig`, and `context`."""


@dataclasses.dataclass(frozen=True)
class Shaper(PolicyGradient):
    """PPO with one memory for a whole trial.

    Its hidden state is 0 only at the opening of a trial. It is kept across inner
    episodes and across the co-player's updates, so the policy can read how the
    co-player changes, and change it. Its learning is that of `RecurrentPPO` over the
    trial as one sequence (clock `"trial"`), or evolution of `policy_params`.

    Source: Khan et al., Scaling Opponent Shaping to High Dimensional Games (2024).

    Example:
        >>> agent = Shaper.from_env(env, context="avg")
        >>> slots = Slot(agent, (0,)), Slot(naive, (1,), clock="inner", reset="trial")
    """

    config: ShaperConfig = ShaperConfig()

    recurrent: ClassVar[bool] = True
    stores_hiddens: ClassVar[str] = "first"
    config_class: ClassVar[type[LearnerConfig]] = ShaperConfig

    @property
    def actor_critic(self) -> Recurrent:
        return make_recurrent(
            self.observation_space,
            self.distribution,
            self.config,
            OfTrial(),
            context=self.config.context,
            num_games=self.num_games,
        )

    def policy_params(self, params: PyTree) -> PyTree:
        """Returns the parameters without those that only the value reads."""
        return self.actor_critic.policy_params(params)
