"""Model-free opponent shaping, the sampled form: a meta policy steers an inner one."""

import dataclasses
from typing import Annotated, Any, ClassVar, cast

import jax
import jax.numpy as jnp
from flax import linen as nn

from paxenv.options import documented, one_of, option
from paxenv_agents.learners.config import LearnerConfig
from paxenv_agents.learners.shaper import ContextConfig, ContextPPO
from paxenv_agents.networks.recurrent import ModelFreeShaperNetwork
from paxenv_agents.types import MemoryState, TrainingState

#: Hidden states of the policy, the value and the meta unit, then `th`.
NUM_PARTS = 4


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
class MFOS(ContextPPO):
    """A policy whose units are multiplied by what a meta policy says of the episode.

    In an inner episode the policy reads `th * GRU_policy` and the value `th *
    GRU_value`. At its end `th = sigmoid(W h_meta)`, where the third unit has read all
    steps; the other two are cleared, and with `meta_memory="episode"` the third too. In
    the first episode of a trial `th` is 1.

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

    config_class: ClassVar[type[LearnerConfig]] = MFOSConfig

    @property
    def hidden_size(self) -> int:
        return NUM_PARTS * self.config.gru_size

    @property
    def network(self) -> nn.Module:
        config, distribution = self.config, self.distribution
        return ModelFreeShaperNetwork(
            distribution.head_size,
            distribution.num_scales,
            config.gru_size,
            config.hidden_sizes,
            config.activation,
            image=self.image,
            context=config.context,
        )

    def init_hidden(self, num_envs: int) -> jax.Array:
        return jnp.tile(self._opening, (num_envs, 1))

    def reset_memory(self, memory: MemoryState, eval: bool = False) -> MemoryState:
        """Returns the memory with empty units and `th` of ones."""
        del eval
        return memory.replace(hidden=self._opening)

    @property
    def _opening(self) -> jax.Array:
        size = self.config.gru_size
        empty = jnp.zeros((NUM_PARTS - 1) * size, jnp.float32)
        return jnp.concatenate([empty, jnp.ones(size, jnp.float32)])

    def end_inner_episode(
        self, state: TrainingState, memory: MemoryState
    ) -> MemoryState:
        """Returns the memory with the next episode's `th` and cleared units."""
        variables = {"params": state.params}
        steered: Any = self.network.apply(variables, memory.hidden, method="steered")
        actor, critic, meta, _ = jnp.split(memory.hidden, NUM_PARTS, axis=-1)
        if self.config.meta_memory == "episode":
            meta = jnp.zeros_like(meta)
        parts = jnp.zeros_like(actor), jnp.zeros_like(critic), meta
        hidden = jnp.concatenate([*parts, cast(jax.Array, steered)], axis=-1)
        return memory.replace(hidden=hidden)

    @property
    def _value_torso(self) -> tuple[str, ...]:
        return "encoders_1", "cells_1", "contexts_1"
