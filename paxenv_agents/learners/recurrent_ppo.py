"""Proximal policy optimisation with a memory, trained through time."""

import dataclasses
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
from flax import linen as nn

from paxenv import keys
from paxenv.options import Count, documented, option
from paxenv_agents import structure
from paxenv_agents.learners.config import LearnerConfig
from paxenv_agents.learners.ppo import PPO, PPOConfig
from paxenv_agents.networks import feed_forward
from paxenv_agents.networks.distributions import ActionDistribution
from paxenv_agents.networks.recurrent import RecurrentActorCritic
from paxenv_agents.types import MemoryState, Sample, TrainingState


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
        "Gated recurrent units, of the policy and the value each if `shared_torso` is"
        " off.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tabular:
            raise ValueError(
                "tabular must be False for a recurrent policy: it is no table of states"
            )


@dataclasses.dataclass(frozen=True)
class RecurrentPPO(PPO):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.actor is not None:
            raise ValueError(
                "a recurrent learner makes its own network: use hidden_sizes, gru_size "
                "and activation instead of an own actor and critic"
            )

    @property
    def hidden_size(self) -> int:
        return self.config.gru_size * (1 if self.config.shared_torso else 2)

    @property
    def network(self) -> nn.Module:
        """The network from (hidden, features) to (outputs, value, next hidden)."""
        config, distribution = self.config, self.distribution
        return RecurrentActorCritic(
            distribution.head_size,
            distribution.num_scales,
            config.gru_size,
            config.hidden_sizes,
            config.activation,
            config.shared_torso,
            self.image,
            self.context,
        )

    @property
    def context(self) -> str:
        """What a hidden state becomes before each step: itself."""
        return "nothing"

    def init_params(self, key: jax.Array) -> Any:
        features = jnp.zeros(feed_forward.num_features(self.observation_space))
        hidden = jnp.zeros(self.hidden_size)
        return self.network.init(keys.typed(key), hidden, features)["params"]

    def forward(
        self, params: Any, obs: Any, hidden: jax.Array
    ) -> tuple[ActionDistribution, jax.Array, jax.Array]:
        features = feed_forward.features(obs, self.observation_space)
        read = self.network.apply({"params": params}, hidden, features)
        outputs, value, after = cast(tuple[jax.Array, jax.Array, jax.Array], read)
        return ActionDistribution(self.distribution, outputs), value, after

    def end_inner_episode(
        self, state: TrainingState, memory: MemoryState
    ) -> MemoryState:
        """Returns the memory with a cleared hidden state."""
        return memory.replace(hidden=jnp.zeros_like(memory.hidden))

    @structure.compiled_method
    def evaluate(
        self, state: TrainingState, sample: Sample
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns (log_probs, values, entropies), each `[T, E]`, of a sequence.

        Reads `hiddens[0]`, `valid` and `inner_ends`. Where a step was not played the
        numbers have no meaning.
        """
        network, variables = self.network, {"params": state.params}
        features = feed_forward.features(sample.observations, self.observation_space)
        encoded = network.apply(variables, features, method="encode")

        def step(hidden: jax.Array, t: Any) -> tuple[jax.Array, jax.Array]:
            encoded, valid, inner_end = t
            after = self._stepped(state.params, hidden, encoded)
            kept = jnp.where(valid, after, hidden)
            opened = self.batch_end_inner(state, MemoryState(hidden=kept)).hidden
            return jnp.where(inner_end, opened, kept), after

        flags = [
            jnp.broadcast_to(missing if given is None else given, features.shape[:-1])
            for given, missing in ((sample.valid, True), (sample.inner_ends, False))
        ]
        # [T, E] -> [T, E, 1]
        flags = [flag[..., None] for flag in flags]
        _, hiddens = jax.lax.scan(step, sample.hiddens[0], (encoded, *flags))
        read = network.apply(variables, hiddens, method="outputs")
        outputs, values = cast(tuple[jax.Array, jax.Array], read)
        law = ActionDistribution(self.distribution, outputs)
        return law.log_prob(sample.actions), values, law.entropy()

    def _stepped(self, params: Any, hidden: jax.Array, encoded: Any) -> jax.Array:
        """Returns the hidden states `[E, H]` of E games after one more step."""
        step = self.network.apply({"params": params}, hidden, encoded, method="step")
        return cast(jax.Array, step)

    def loss_sample(self, traj: Sample) -> Sample:
        read = super().loss_sample(traj)
        return read._replace(
            hiddens=traj.hiddens, valid=traj.valid, inner_ends=traj.inner_ends
        )
