"""Shapers play for a whole trial: SHAPER and, in its sampled form, M-FOS.

Both are PPO over the trial as one sequence, with a memory that outlives the episodes in
which their co-players learn.
"""

import dataclasses
from typing import Annotated

from paxenv.options import documented, one_of, option
from paxenv_agents.learners.policy_gradient import PolicyGradient
from paxenv_agents.learners.ppo import RecurrentPPOConfig
from paxenv_agents.networks.actor_critic import Recurrent, make_recurrent
from paxenv_agents.networks.recurrent import (
    ModelFreeShaperNetwork,
    OfEpisode,
    OfTrial,
    Steered,
)


@documented
@dataclasses.dataclass(frozen=True)
class ContextConfig(RecurrentPPOConfig):
    """Options of recurrent PPO, and how games that are played at once share context."""

    gru_size: int = 16
    shared_torso: bool = dataclasses.field(default=True, kw_only=True)
    context: Annotated[str, one_of("nothing", "avg", "att")] = option(
        "nothing",
        "What a hidden state becomes before each recurrent step: itself "
        '(`"nothing"`), half of it the mean over the games against the same co-player'
        ' (`"avg"`), or half of it what attention reads there (`"att"`).',
    )


@documented
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


@documented
@dataclasses.dataclass(frozen=True)
class MFOSConfig(ContextConfig):
    """Options of M-FOS: those of `ContextConfig`; `shared_torso` stays on."""

    meta_memory: Annotated[str, one_of("trial", "episode")] = option(
        "trial",
        'How long the meta unit remembers: for the `"trial"`, or for an inner '
        '`"episode"`.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shared_torso:
            raise ValueError(
                "shared_torso must be True for M-FOS: its policy, its value and its "
                "meta policy always have an encoder and units each"
            )


@dataclasses.dataclass(frozen=True)
class MFOS(PolicyGradient):
    """A policy whose units a meta policy multiplies by a vector in every episode.

    In an inner episode the policy reads `th * GRU_policy` and the value `th *
    GRU_value`. At its end `th` becomes `sigmoid(W h_meta)`, where `h_meta` is the state
    of the third unit, which has read all steps. The other two are cleared, and with
    `meta_memory="episode"` the third too. In the first episode of a trial `th` is 1.

    A loss computes `th` again at every inner end of its sequence, so the gradient of
    later episodes reaches the meta policy through it.

    Source: Lu et al., Model-Free Opponent Shaping (2022), section 3. There, and in
    Pax, the stored `th` enters the loss as a number, and the meta policy learns by
    evolution only.

    Example:
        >>> agent = MFOS.from_env(env, meta_memory="episode")
        >>> slots = Slot(agent, (0,)), Slot(naive, (1,), clock="inner", reset="trial")
    """

    config: MFOSConfig = MFOSConfig()

    @property
    def actor_critic(self) -> Recurrent:
        of_trial = self.config.meta_memory == "trial"
        return make_recurrent(
            self.observation_space,
            self.distribution,
            self.config,
            Steered(OfTrial() if of_trial else OfEpisode()),
            context=self.config.context,
            num_games=self.num_games,
            module_class=ModelFreeShaperNetwork,
        )
