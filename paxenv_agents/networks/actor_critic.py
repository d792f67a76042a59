"""A policy and a value as one function of an observation and a hidden state.

An `ActorCritic` is static and hashable, like the agent that holds it; parameters and
hidden states are given to it. `FeedForward` has no memory, `Recurrent` has gated
recurrent units and a rule for when they are cleared.
"""

import abc
import dataclasses
from typing import Annotated, Any, ClassVar, cast

import gymnasium
import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, PyTree

from paxenv import keys, spaces
from paxenv.options import Count, Widths, check, one_of, option
from paxenv_agents import structure
from paxenv_agents.agent import GAMES
from paxenv_agents.networks import distributions, feed_forward
from paxenv_agents.networks.distributions import (
    ActionDistribution,
    Distribution,
    TabularDistribution,
)
from paxenv_agents.networks.recurrent import Memory, RecurrentActorCritic
from paxenv_agents.ops.categorical import look_up
from paxenv_agents.registry import PairingError
from paxenv_agents.types import KeyLike, Sample, Terms


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Options of networks that all actor-critics have; `PPOConfig` explains each one.

    Their widths, `hidden_sizes`, have a default of each learner's own.
    """

    activation: feed_forward.Activation = option(
        "tanh", "Activation of the hidden layers."
    )
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


#: A policy at some observations: the distribution of the actions.
PolicyDistribution = ActionDistribution | TabularDistribution


@dataclasses.dataclass(frozen=True)
class ActorCritic(abc.ABC):
    """How a learner's policy and value are computed.

    Attributes:
        observation_space: What is seen.
        distribution: How the module's outputs become actions.
        module: The network.
    """

    observation_space: gymnasium.Space = dataclasses.field(hash=False)
    distribution: Distribution
    module: nn.Module

    #: Whether a hidden state goes from step to step.
    recurrent: ClassVar[bool] = False
    #: Fields of a sample that `evaluate` reads beside observations and actions.
    sequence_fields: ClassVar[tuple[str, ...]] = ()

    @property
    @abc.abstractmethod
    def hidden_size(self) -> int:
        """Length H of a hidden state."""

    @property
    def mixes_games(self) -> bool:
        """Whether its outputs in a game depend on the games that are played at once."""
        return False

    @abc.abstractmethod
    def init(self, key: KeyLike) -> PyTree:
        """Returns fresh parameters; consumes the key."""

    @abc.abstractmethod
    def opening(self) -> Float[Array, " H"]:
        """Returns the hidden state `[H]` with which a trial opens."""

    @abc.abstractmethod
    def next_episode(
        self, params: PyTree, hidden: Float[Array, " H"]
    ) -> Float[Array, " H"]:
        """Returns the hidden state `[H]` with which the next inner episode opens."""

    def policy_params(self, params: PyTree) -> PyTree:
        """Returns the parameters without those that only the value reads."""
        return params

    @abc.abstractmethod
    def forward(
        self, params: PyTree, obs: PyTree, hidden: Float[Array, " H"]
    ) -> tuple[PolicyDistribution, Float[Array, ""], Float[Array, " H"]]:
        """Returns (policy, value, next hidden `[H]`) at an observation."""

    @abc.abstractmethod
    def outputs(
        self, params: PyTree, sample: Sample
    ) -> tuple[PolicyDistribution, Float[Array, "T E"]]:
        """Returns (policy, values), both `[T, E]`, of experience."""

    def evaluate(self, params: PyTree, sample: Sample) -> Terms:
        """Returns (log_probs, values, entropies), each `[T, E]`, of experience."""
        policy, values = self.outputs(params, sample)
        return policy.log_prob(sample.actions), values, policy.entropy()


class FeedForward(ActorCritic):
    """A network that reads the observation alone; its hidden state is empty."""

    @property
    def hidden_size(self) -> int:
        return 0

    def init(self, key: KeyLike) -> PyTree:
        return feed_forward.init(self.module, key, self.observation_space)

    def opening(self) -> Float[Array, " H"]:
        return jnp.zeros(0, jnp.float32)

    def next_episode(
        self, params: PyTree, hidden: Float[Array, " H"]
    ) -> Float[Array, " H"]:
        return hidden

    def forward(
        self, params: PyTree, obs: PyTree, hidden: Float[Array, " H"]
    ) -> tuple[PolicyDistribution, Float[Array, ""], Float[Array, " H"]]:
        return *self._read(params, obs), hidden

    def outputs(
        self, params: PyTree, sample: Sample
    ) -> tuple[PolicyDistribution, Float[Array, "T E"]]:
        return self._read(params, sample.observations)

    def _read(
        self, params: PyTree, observations: PyTree
    ) -> tuple[PolicyDistribution, jax.Array]:
        """Returns (policy, values) at observations `[..., *space]`."""
        module, space = self.module, self.observation_space
        if not feed_forward.few_states(space):
            outputs, values = feed_forward.apply(module, params, observations, space)
            return ActionDistribution(self.distribution, outputs), values
        outputs, values = feed_forward.tables(module, params, space)
        states = feed_forward.features(observations, space)
        policy = TabularDistribution(self.distribution, outputs, states)
        return policy, look_up(states, values)


@dataclasses.dataclass(frozen=True)
class Recurrent(ActorCritic):
    """A network that reads observations into a hidden state, and acts on that state.

    A loss runs over a sequence again from its first stored state, applies the rule of
    the memory where an inner episode ends, skips steps that were not played, and is
    differentiated through the whole sequence.

    Attributes:
        memory: The rule that says when the hidden state is cleared.
        num_games: Games that are played together and may see each other's hidden
            states; None: all games of a batch.

    Source: Hausknecht & Stone, Deep Recurrent Q-Learning for Partially Observable MDPs
    (2015), for sequences that open with a stored state.
    """

    module: RecurrentActorCritic  # pyright: ignore[reportIncompatibleVariableOverride]
    memory: Memory
    num_games: int | None = None

    recurrent: ClassVar[bool] = True
    sequence_fields: ClassVar[tuple[str, ...]] = ("hiddens", "valid", "inner_ends")

    @property
    def hidden_size(self) -> int:
        return self.module.hidden_size

    @property
    def mixes_games(self) -> bool:
        return self.module.context != "nothing"

    def init(self, key: KeyLike) -> PyTree:
        features = jnp.zeros(feed_forward.num_features(self.observation_space))
        hidden = jnp.zeros(self.module.hidden_size)
        return self.module.init(keys.typed(key), hidden, features)["params"]

    def opening(self) -> Float[Array, " H"]:
        return self.memory.opening(self.module)

    def next_episode(
        self, params: PyTree, hidden: Float[Array, " H"]
    ) -> Float[Array, " H"]:
        return self.memory.next_episode(self.module, params, hidden)

    def policy_params(self, params: PyTree) -> PyTree:
        return self.module.policy_params(params)

    def forward(
        self, params: PyTree, obs: PyTree, hidden: Float[Array, " H"]
    ) -> tuple[PolicyDistribution, Float[Array, ""], Float[Array, " H"]]:
        features = feed_forward.features(obs, self.observation_space)
        read = self.module.apply({"params": params}, hidden, features)
        outputs, value, after = cast(tuple[jax.Array, jax.Array, jax.Array], read)
        return ActionDistribution(self.distribution, outputs), value, after

    @structure.compiled_method
    def evaluate(self, params: PyTree, sample: Sample) -> Terms:
        """Returns (log_probs, values, entropies), each `[T, E]`, of a sequence.

        Reads `hiddens[0]`, `valid` and `inner_ends`. Where a step was not played the
        numbers have no meaning.
        """
        return super().evaluate(params, sample)

    def outputs(
        self, params: PyTree, sample: Sample
    ) -> tuple[PolicyDistribution, Float[Array, "T E"]]:
        module, variables = self.module, {"params": params}
        features = feed_forward.features(sample.observations, self.observation_space)
        encoded = module.apply(variables, features, method="encode")
        next_episode = jax.vmap(self.next_episode, (None, 0), axis_name=GAMES)

        def step(hidden: jax.Array, t: Any) -> tuple[jax.Array, jax.Array]:
            encoded, valid, inner_end = t
            after = self._stepped(params, hidden, encoded)
            kept = jnp.where(valid, after, hidden)
            opened = next_episode(params, kept)
            return jnp.where(inner_end, opened, kept), after

        flags = [
            jnp.broadcast_to(missing if given is None else given, features.shape[:-1])
            for given, missing in ((sample.valid, True), (sample.inner_ends, False))
        ]
        # [T, E] -> [T, E, 1]
        flags = [flag[..., None] for flag in flags]
        _, hiddens = jax.lax.scan(step, sample.hiddens[0], (encoded, *flags))
        read = module.apply(variables, hiddens, method="outputs")
        outputs, values = cast(tuple[jax.Array, jax.Array], read)
        return ActionDistribution(self.distribution, outputs), values

    def _stepped(self, params: PyTree, hidden: jax.Array, encoded: Any) -> jax.Array:
        """Returns the hidden states `[E, H]` of E games after one more step."""

        def step(hidden: jax.Array, encoded: Any) -> jax.Array:
            variables = {"params": params}
            after = self.module.apply(variables, hidden, encoded, method="step")
            return cast(jax.Array, after)

        if not self.mixes_games:
            return step(hidden, encoded)
        groups = in_groups((hidden, encoded), self.num_games or hidden.shape[0])
        after = jax.vmap(jax.vmap(step, axis_name=GAMES))(*groups)
        return after.reshape(hidden.shape)


def in_groups(tree: PyTree, size: int) -> PyTree:
    """Folds leaves `[E, ...]` to `[groups, size, ...]`."""
    return jax.tree.map(
        lambda x: x.reshape(x.shape[0] // size, size, *x.shape[1:]), tree
    )


def make_feed_forward(
    observation_space: gymnasium.Space,
    distribution: Distribution,
    config: NetworkConfig,
    actor: nn.Module | None = None,
    critic: nn.Module | None = None,
) -> FeedForward:
    """Returns the actor-critic without a memory that options ask for.

    Args:
        observation_space: What is seen.
        distribution: How outputs become actions.
        config: Options of networks, with `hidden_sizes`.
        actor: Own network for the policy; needs `critic`. None: by `config`.
        critic: Own network for the value.

    Raises:
        PairingError: If networks cannot read the observations.
        ValueError: If one of `actor` and `critic` is missing, or `config` is tabular.
    """
    check_readable(observation_space, config.tabular)
    if (actor is None) != (critic is None):
        raise ValueError("actor and critic are given together, or neither is")
    if config.tabular and actor is not None:
        raise ValueError("tabular=True leaves no place for an own actor")
    if actor is not None and critic is not None:
        module: nn.Module = feed_forward.SeparateActorCritic(actor, critic)
    else:
        module = _heads(observation_space, distribution.head_size, config)
    if distribution.num_scales:
        module = feed_forward.WithScales(module, distribution.num_scales)
    return FeedForward(observation_space, distribution, module)


def make_recurrent(
    observation_space: gymnasium.Space,
    distribution: Distribution,
    config: Any,
    memory: Memory,
    *,
    context: str = "nothing",
    num_games: int | None = None,
    module_class: type[RecurrentActorCritic] = RecurrentActorCritic,
) -> Recurrent:
    """Returns the actor-critic with a memory that options ask for.

    Args:
        observation_space: What is seen.
        distribution: How outputs become actions.
        config: Options of networks, with `hidden_sizes` and `gru_size`.
        memory: The rule that says when the hidden state is cleared.
        context: What a hidden state becomes before each step; a key of
            `recurrent.CONTEXTS`.
        num_games: Games that see each other's hidden states; None: all of a batch.
        module_class: The network's class.

    Raises:
        PairingError: If networks cannot read the observations.
    """
    check_readable(observation_space)
    module = module_class(
        distribution.head_size,
        distribution.num_scales,
        config.gru_size,
        config.hidden_sizes,
        config.activation,
        config.shared_torso,
        _image(observation_space, config),
        context,
    )
    return Recurrent(observation_space, distribution, module, memory, num_games)


def check_readable(space: gymnasium.Space, tabular: bool = False) -> None:
    """Raises PairingError unless networks can read a space, row by row if `tabular`."""
    try:
        feed_forward.num_features(space)
        if tabular:
            spaces.num_states(space)
    except ValueError as error:
        raise PairingError(str(error)) from error


def _heads(space: gymnasium.Space, num_outputs: int, config: Any) -> nn.Module:
    """Returns the network from features to (outputs of the policy, value)."""
    if config.tabular:
        return feed_forward.TabularActorCritic(spaces.num_states(space), num_outputs)
    image = _image(space, config)
    widths = {"hidden_dims": config.hidden_sizes, "activation": config.activation}
    if config.shared_torso:
        heads = feed_forward.SharedActorCritic(num_outputs, **widths)
        return feed_forward.seen(heads, image)
    actor = feed_forward.MLPActor(num_outputs, **widths)
    critic = feed_forward.MLPCritic(**widths)
    return feed_forward.SeparateActorCritic(
        feed_forward.seen(actor, image), feed_forward.seen(critic, image)
    )


def _image(space: gymnasium.Space, config: NetworkConfig) -> feed_forward.Image | None:
    return feed_forward.image(space, config.conv_channels, config.kernel_size)
