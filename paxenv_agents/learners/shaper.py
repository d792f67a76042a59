"""SHAPER: a recurrent policy that remembers its co-player's learning."""

import dataclasses
from typing import Annotated, Any, ClassVar, Self, cast

import jax

from paxenv.options import documented, one_of, option
from paxenv_agents.agent import GAMES
from paxenv_agents.learners.config import LearnerConfig
from paxenv_agents.learners.recurrent_ppo import RecurrentPPO, RecurrentPPOConfig
from paxenv_agents.types import MemoryState, TrainingState


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


@dataclasses.dataclass(frozen=True)
class ContextPPO(RecurrentPPO):
    """Recurrent PPO over groups of games that see each other's hidden states.

    A group is what `batch_policy` plays at once, and never spans co-players. A loss
    puts the groups together again, so its minibatches are of whole groups. Called by
    `policy`, one game is alone.

    Attributes:
        num_games: Games of a group; None: all games of a batch are one.
    """

    config: ContextConfig = ContextConfig()
    _: dataclasses.KW_ONLY
    num_games: int | None = None

    config_class: ClassVar[type[LearnerConfig]] = ContextConfig

    @property
    def context(self) -> str:
        return self.config.context

    @property
    def mixes_games(self) -> bool:
        return self.context != "nothing"

    def grouped(self, num_games: int) -> Self:
        if not self.mixes_games:
            return self
        return dataclasses.replace(self, num_games=num_games)

    def group_size(self, num_games: int) -> int:
        return (self.num_games or num_games) if self.mixes_games else 1

    def batch_value(self, state: TrainingState, obs: Any, memory: MemoryState) -> Any:
        """`value` over games; a batch of several groups keeps them apart."""
        num_games = memory.hidden.shape[0]
        size = self.group_size(num_games)
        if size in (1, num_games):
            return super().batch_value(state, obs, memory)
        values = jax.vmap(super().batch_value, in_axes=(None, 0, 0))
        obs, memory = (_in_groups(x, size) for x in (obs, memory))
        return values(state, obs, memory).reshape(num_games)

    def _stepped(self, params: Any, hidden: jax.Array, encoded: Any) -> jax.Array:
        if not self.mixes_games:
            return super()._stepped(params, hidden, encoded)

        def one_game(hidden: jax.Array, encoded: Any) -> jax.Array:
            after = self.network.apply(
                {"params": params}, hidden, encoded, method="step"
            )
            return cast(jax.Array, after)

        size = self.group_size(hidden.shape[0])
        groups = _in_groups((hidden, encoded), size)
        after = jax.vmap(jax.vmap(one_game, axis_name=GAMES))(*groups)
        return after.reshape(hidden.shape)

    def policy_params(self, params: Any) -> Any:
        """Returns the parameters without those that only the value reads."""
        skipped = {"value_head", *self._value_torso}
        return {name: x for name, x in params.items() if name not in skipped}

    @property
    def _value_torso(self) -> tuple[str, ...]:
        """Names of the layers before the value's head that the policy does not read."""
        if self.config.shared_torso:
            return ()
        return "encoders_1", "cells_1", "contexts_1"


def _in_groups(tree: Any, size: int) -> Any:
    """Folds leaves `[E, ...]` to `[groups, size, ...]`."""
    return jax.tree.map(
        lambda x: x.reshape(x.shape[0] // size, size, *x.shape[1:]), tree
    )


@documented
@dataclasses.dataclass(frozen=True)
class ShaperConfig(ContextConfig):
    """Options of the shaper: those of `RecurrentPPOConfig`, and `context`."""


@dataclasses.dataclass(frozen=True)
class Shaper(ContextPPO):
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

    config_class: ClassVar[type[LearnerConfig]] = ShaperConfig

    def end_inner_episode(
        self, state: TrainingState, memory: MemoryState
    ) -> MemoryState:
        """Returns the memory as it is."""
        del state
        return memory
