"""Networks of policies and values, and what they read.

A network maps features `[..., F]` to the outputs `[..., A]` that give a policy (logits
of A actions, or the numbers that a `Distribution` over a Box reads), a value `[...]`,
or both. Which one an agent has follows from its spaces and its config, never from a
game's name.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from paxenv import spaces
from paxenv_agents import initial_weights
from paxenv_agents.images import Image, OnImage, image, seen
from paxenv_agents.ops.lookup import look_up

__all__ = ["Image", "OnImage", "image", "seen"]

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": nn.tanh,
    "relu": nn.relu,
    "silu": nn.silu,
}
HIDDEN_SCALE, POLICY_SCALE, VALUE_SCALE = 2.0**0.5, 0.01, 1.0
#: Up to here a network is evaluated on all states of a `Discrete` or `OneHot` space,
#: and the outputs are looked up: many games then cost about as much as one.
MAX_TABULATED = 32


class MLPTorso(nn.Module):
    """Dense layers with orthogonal weights.

    Attributes:
        hidden_dims: Widths of the layers; none returns the features themselves.
        activation: A name in `ACTIVATIONS`.
    """

    hidden_dims: Sequence[int] = (64, 64)
    activation: str = "tanh"

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        for width in self.hidden_dims:
            init = initial_weights.orthogonal(HIDDEN_SCALE)
            features = nn.Dense(width, kernel_init=init)(features)
            features = ACTIVATIONS[self.activation](features)
        return features


class MLPActor(nn.Module):
    """Features to logits `[..., A]`, nearly uniform at first.

    Attributes:
        num_actions: A.
        hidden_dims: Widths of the hidden layers; none gives a linear policy, without
            bias, which on one-hot observations is one row of logits per state.
        activation: A name in `ACTIVATIONS`.
    """

    num_actions: int
    hidden_dims: Sequence[int] = (64, 64)
    activation: str = "tanh"

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        hidden = MLPTorso(self.hidden_dims, self.activation)(features)
        return head(self.num_actions, POLICY_SCALE, bool(self.hidden_dims))(hidden)


class MLPCritic(nn.Module):
    """Features to a value `[...]`; attributes as in `MLPActor`."""

    hidden_dims: Sequence[int] = (64, 64)
    activation: str = "tanh"

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        hidden = MLPTorso(self.hidden_dims, self.activation)(features)
        return head(1, VALUE_SCALE, bool(self.hidden_dims))(hidden)[..., 0]


class SeparateActorCritic(nn.Module):
    """Features to (logits, value) by two networks that share nothing."""

    actor: nn.Module
    critic: nn.Module

    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.actor(features), self.critic(features)  # type: ignore[operator]


class SharedActorCritic(nn.Module):
    """Features to (logits, value) by two heads on one torso, as in `MLPActor`."""

    num_actions: int
    hidden_dims: Sequence[int] = (64, 64)
    activation: str = "tanh"

    @nn.compact
    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array]:
        hidden = MLPTorso(self.hidden_dims, self.activation)(features)
        bias = bool(self.hidden_dims)
        logits = head(self.num_actions, POLICY_SCALE, bias)(hidden)
        return logits, head(1, VALUE_SCALE, bias)(hidden)[..., 0]


class TabularActorCritic(nn.Module):
    """One row of logits and one value for each state, all 0: a uniform start.

    Reads states (int32 `[...]`) or one-hot features `[..., num_states]`.
    """

    num_states: int
    num_actions: int

    @nn.compact
    def __call__(self, state: jax.Array) -> tuple[jax.Array, jax.Array]:
        zeros, shape = nn.initializers.zeros_init(), (self.num_states, self.num_actions)
        logits = self.param("logits", zeros, shape, jnp.float32)
        values = self.param("values", zeros, shape[:1], jnp.float32)
        if jnp.issubdtype(state.dtype, jnp.integer):
            return logits[state], values[state]
        return look_up(state, logits), look_up(state, values)


class WithScales(nn.Module):
    """A network whose outputs are followed by learnt numbers, 0 at first.

    They depend on no feature, such as the scales of a policy over a Box.

    Attributes:
        network: Features to (outputs, value).
        num_scales: How many numbers.
    """

    network: nn.Module
    num_scales: int

    @nn.compact
    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array]:
        outputs, value = self.network(features)  # type: ignore[operator]
        zeros = nn.initializers.zeros_init()
        scales = self.param("scales", zeros, (self.num_scales,), jnp.float32)
        return followed_by(outputs, scales), value


def followed_by(outputs: jax.Array, scales: jax.Array) -> jax.Array:
    """Returns outputs `[..., A]` and then `scales` `[n]`, the same everywhere."""
    everywhere = jnp.broadcast_to(scales, (*outputs.shape[:-1], *scales.shape))
    return jnp.concatenate([outputs, everywhere], axis=-1)


def init(
    network: nn.Module, key: jax.Array, observation_space: gymnasium.Space
) -> dict[str, Any]:
    """Returns fresh parameters of a network that reads this space."""
    space = observation_space
    example = jnp.full(space.shape or (), getattr(space, "start", 0), jnp.int32)
    variables = network.init(key, _encode(network, example, space))
    # A network of one's own may have nothing to learn.
    return variables.get("params", {})  # type: ignore[return-value]


def apply(
    network: nn.Module,
    params: Any,
    observations: jax.Array,
    observation_space: gymnasium.Space,
) -> tuple[jax.Array, jax.Array]:
    """Returns (outputs `[..., A]`, values `[...]`) of observations `[..., *space]`."""
    space = observation_space
    if few_states(space):
        states = features(observations, space)
        every = tables(network, params, space)
        return jax.tree.map(lambda table: look_up(states, table), every)
    encoded = _encode(network, observations, space)
    return network.apply({"params": params}, encoded)  # type: ignore[return-value]


def few_states(space: gymnasium.Space) -> bool:
    """Returns whether a network is evaluated on all states of a space."""
    states = isinstance(space, gymnasium.spaces.Discrete | spaces.OneHot)
    return states and num_features(space) <= MAX_TABULATED


def tables(
    network: nn.Module, params: Any, space: gymnasium.Space
) -> tuple[jax.Array, jax.Array]:
    """Returns (outputs `[S, A]`, values `[S]`) of every state of a space."""
    every = jnp.eye(num_features(space), dtype=jnp.float32)
    return network.apply({"params": params}, every)  # type: ignore[return-value]


def head(width: int, scale: float, bias: bool) -> nn.Dense:
    """Returns a last layer of orthogonal weights, `scale` times as long."""
    init = initial_weights.orthogonal(scale)
    return nn.Dense(width, use_bias=bias, kernel_init=init)


def num_features(space: gymnasium.Space) -> int:
    """Returns the number of features that networks see of an observation.

    Raises:
        ValueError: If the space is neither a `Box` nor `Discrete`.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(space.n)
    if isinstance(space, gymnasium.spaces.Box):
        return int(np.prod(space.shape))
    raise ValueError(
        f"networks read Box and Discrete observations, got {space}: flatten them, for "
        "instance with a wrapper"
    )


def features(observations: Any, space: gymnasium.Space) -> jax.Array:
    """Returns float32 `[..., F]`: flat numbers of a Box, a one-hot of a `Discrete`."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return _one_hot(_index(observations, space), int(space.n))
    # [..., *space] -> [..., F]
    batch = observations.shape[: observations.ndim - len(space.shape or ())]
    flat = jnp.reshape(observations, (*batch, num_features(space)))
    return flat.astype(jnp.float32)


def _encode(network: nn.Module, observations: Any, space: gymnasium.Space) -> jax.Array:
    if isinstance(space, gymnasium.spaces.Discrete) and isinstance(
        network, TabularActorCritic
    ):
        return _index(observations, space)
    return features(observations, space)


def _index(observations: Any, space: gymnasium.spaces.Discrete) -> jax.Array:
    return spaces.decode_state(observations, space) - int(space.start)


def _one_hot(index: jax.Array, num_states: int) -> jax.Array:
    return (jnp.arange(num_states) == index[..., None]).astype(jnp.float32)
