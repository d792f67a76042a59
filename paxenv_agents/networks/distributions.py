"""How the outputs of a policy's network become actions, chosen by the action space.

A distribution is static and hashable. It reads outputs `[..., head_size +
num_scales]`: what the network computes from features, then numbers that are learnt but
depend on nothing. The leading axes are those of a batch.
"""

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Key, Num

from paxenv import keys
from paxenv_agents.ops import categorical, gaussian
from paxenv_agents.ops.categorical import look_up
from paxenv_agents.registry import PairingError

#: Standard deviation of a fresh policy over a Box, in half-widths of the Box (before
#: the squash, if there is one).
INITIAL_SCALE = 0.5
#: Least standard deviation of a head: it never takes the gradient away.
MIN_SCALE = 1e-3
_SOFTPLUS_OFFSET = math.log(math.expm1(INITIAL_SCALE - MIN_SCALE))


#: What a network gives, of one action and of a batch of them.
Outputs = Float[Array, " outputs"]
ManyOutputs = Float[Array, "*batch outputs"]
#: What it gives in each of a few states.
StateOutputs = Float[Array, "S outputs"]
#: An action in its space, a batch of them, and a number of each.
Action = Num[Array, "*space"]
Actions = Num[Array, "..."]
OfActions = Float[Array, "*batch"]


class Distribution(abc.ABC):
    """A distribution of actions, given by a network's outputs."""

    @property
    @abc.abstractmethod
    def head_size(self) -> int:
        """The outputs that the network computes from features."""

    @property
    def num_scales(self) -> int:
        """The outputs after them: learnt numbers that depend on no feature."""
        return 0

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], outputs: Outputs) -> Action:
        """Returns an action in its space, drawn from `fold_in(key, 0)`. Not batched."""

    @abc.abstractmethod
    def mode(self, outputs: Outputs) -> Action:
        """Returns the action of a deterministic policy. Not batched."""

    @abc.abstractmethod
    def log_prob(self, outputs: ManyOutputs, actions: Actions) -> OfActions:
        """Returns the log-likelihood `[...]` of actions `[..., *space]`."""

    @abc.abstractmethod
    def entropy(self, outputs: ManyOutputs) -> OfActions:
        """Returns the entropy `[...]` in nats."""

    def sample_at(
        self, key: Key[Array, ""], outputs: StateOutputs, states: Float[Array, " S"]
    ) -> Action:
        """Returns `sample` in one of a few states.

        Args:
            key: As in `sample`.
            outputs: Those of every state, `[S, outputs]`.
            states: One-hot `[S]`.
        """
        return self.sample(key, look_up(states, outputs))

    def log_prob_at(
        self, outputs: StateOutputs, states: Float[Array, "*batch S"], actions: Actions
    ) -> OfActions:
        """Returns `log_prob` in some of a few states.

        Args:
            outputs: Those of every state, `[S, outputs]`.
            states: One-hot `[..., S]`.
            actions: `[..., *space]`.
        """
        return self.log_prob(look_up(states, outputs), actions)


@dataclasses.dataclass(frozen=True)
class Categorical(Distribution):
    """Finitely many actions; the outputs are logits.

    Attributes:
        num_actions: How many.
        start: The first action.
        dtype: Name of the actions' dtype.
    """

    num_actions: int
    start: int = 0
    dtype: str = "int32"

    @property
    def head_size(self) -> int:
        return self.num_actions

    def sample(self, key: Key[Array, ""], outputs: Outputs) -> Action:
        return self._action(categorical.sample(keys.words(key, 1)[0], outputs))

    def mode(self, outputs: Outputs) -> Action:
        return self._action(categorical.mode(outputs))

    def log_prob(self, outputs: ManyOutputs, actions: Actions) -> OfActions:
        return categorical.log_prob(outputs, actions.astype(jnp.int32) - self.start)

    def entropy(self, outputs: ManyOutputs) -> OfActions:
        return categorical.entropy(outputs)

    def sample_at(
        self, key: Key[Array, ""], outputs: StateOutputs, states: Float[Array, " S"]
    ) -> Action:
        bounds = look_up(states, categorical.bounds(outputs))
        return self._action(categorical.pick(keys.words(key, 1)[0], bounds))

    def log_prob_at(
        self, outputs: StateOutputs, states: Float[Array, "*batch S"], actions: Actions
    ) -> OfActions:
        index = actions.astype(jnp.int32) - self.start
        chosen = index[..., None] == jnp.arange(self.num_actions)
        # A table of states and actions has one number each: [..., S, A] -> [..., S A].
        joint = states[..., :, None] * chosen[..., None, :]
        joint = joint.reshape(*index.shape, states.shape[-1] * self.num_actions)
        return look_up(joint, jax.nn.log_softmax(outputs).reshape(-1))

    def _action(self, index: jax.Array) -> jax.Array:
        return (index + self.start).astype(jax.dtypes.canonicalize_dtype(self.dtype))


@dataclasses.dataclass(frozen=True)
class BoxGaussian(Distribution):
    """Independent normal numbers, brought into a Box; outputs are means, raw scales.

    Everything is in the Box's own units: densities, and entropies.

    Attributes:
        low: Lower bound of each coordinate.
        high: Upper bound of each coordinate.
        shape: Shape of an action.
        dtype: Name of its dtype.
        action_scale: How a raw scale becomes a standard deviation; a key of `SCALES`.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]
    dtype: str
    action_scale: str

    @property
    def num_scales(self) -> int:
        return SCALES[self.action_scale].num_free * len(self.low)

    @property
    def head_size(self) -> int:
        return 2 * len(self.low) - self.num_scales

    @property
    def _bounds(self) -> tuple[jax.Array, jax.Array]:
        return jnp.asarray(self.low, jnp.float32), jnp.asarray(self.high, jnp.float32)

    @property
    def _centre(self) -> jax.Array:
        return self._bounds[0] + self._half

    @property
    def _half(self) -> jax.Array:
        low, high = self._bounds
        return high / 2 - low / 2

    def sample(self, key: Key[Array, ""], outputs: Outputs) -> Action:
        # Blocks of `key` itself would run into `fold_in(key, 1)`, the next step's key.
        words = keys.words(keys.fold_in(key, 0), len(self.low))
        mean, scale = self._moments(outputs)
        return self._action(mean + scale * gaussian.standard_normal(words))

    def mode(self, outputs: Outputs) -> Action:
        return self._action(self._moments(outputs)[0])

    def _moments(self, outputs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns (mean, standard deviation), `[..., n]`, with half-width 1."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        return mean, SCALES[self.action_scale].positive(raw)

    def _action(self, inner: jax.Array) -> jax.Array:
        action = self._centre + self._half * self._bounded(inner)
        action = jnp.clip(action, *self._bounds)
        dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        return jnp.reshape(action, self.shape).astype(dtype)

    def _flat(self, outputs: jax.Array, actions: jax.Array) -> jax.Array:
        # [..., *space] -> [..., n]
        shape = (*outputs.shape[:-1], len(self.low))
        return jnp.reshape(actions, shape).astype(jnp.float32)

    def _bounded(self, inner: jax.Array) -> jax.Array:
        """Returns what a number becomes before it is clipped to [-1, 1]."""
        return inner


class SquashedGaussian(BoxGaussian):
    """Normal numbers through tanh, then scaled to the Box.

    The log-density takes account of the squash. The entropy is that of the action, by
    a quadrature (`gaussian.squashed_entropy`); its mode is the squashed mean.
    """

    def log_prob(self, outputs: ManyOutputs, actions: Actions) -> OfActions:
        unit = (self._flat(outputs, actions) - self._centre) / self._half
        log_density = gaussian.squashed_log_prob(unit, *self._moments(outputs))
        return jnp.sum(log_density - jnp.log(self._half), axis=-1)

    def entropy(self, outputs: ManyOutputs) -> OfActions:
        unit = gaussian.squashed_entropy(*self._moments(outputs))
        return jnp.sum(unit + jnp.log(self._half), axis=-1)

    def _bounded(self, inner: jax.Array) -> jax.Array:
        return jnp.tanh(inner)


class ClippedGaussian(BoxGaussian):
    """Normal numbers scaled to the Box, then clipped to it.

    The log-likelihood is that of the action as played: at a bound, of all numbers that
    are clipped to it. The entropy is that of the numbers before the clip.
    """

    def log_prob(self, outputs: ManyOutputs, actions: Actions) -> OfActions:
        mean, scale = self._moments(outputs)
        likelihood = gaussian.clipped_log_prob(
            self._flat(outputs, actions),
            self._centre + self._half * mean,
            self._half * scale,
            *self._bounds,
        )
        return jnp.sum(likelihood, axis=-1)

    def entropy(self, outputs: ManyOutputs) -> OfActions:
        _, scale = self._moments(outputs)
        return jnp.sum(gaussian.entropy(self._half * scale), axis=-1)


@dataclasses.dataclass(frozen=True)
class Scale:
    """How a standard deviation is parametrised.

    Attributes:
        positive: Makes it of a raw number; 0 gives `INITIAL_SCALE`.
        num_free: 1 if the raw number depends on no feature, 0 if a head computes it.
    """

    positive: Callable[[jax.Array], jax.Array]
    num_free: int


def _exponential(raw: jax.Array) -> jax.Array:
    return INITIAL_SCALE * jnp.exp(raw)


def _softplus(raw: jax.Array) -> jax.Array:
    return jax.nn.softplus(raw + _SOFTPLUS_OFFSET) + MIN_SCALE


SCALES: dict[str, Scale] = {
    "state_independent": Scale(_exponential, num_free=1),
    "softplus": Scale(_softplus, num_free=0),
}
BOUNDS: dict[str, type[BoxGaussian]] = {
    "squashed": SquashedGaussian,
    "scaled": ClippedGaussian,
}


def for_space(
    space: gymnasium.Space, action_scale: str, action_bound: str
) -> Distribution:
    """Returns the distribution of a policy over an action space.

    Args:
        space: `Discrete`, or a `Box` of floats.
        action_scale: A key of `SCALES`, read for a `Box`.
        action_bound: A key of `BOUNDS`, read for a `Box`.

    Raises:
        PairingError: If the space is neither, or a bound of the Box is infinite.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return Categorical(int(space.n), int(space.start), np.dtype(space.dtype).name)
    is_box = isinstance(space, gymnasium.spaces.Box)
    if not is_box or not np.issubdtype(space.dtype, np.floating):
        raise PairingError(
            f"its policy is over Discrete actions or a Box of floats, got {space}"
        )
    low, high = (_bound(space, name) for name in ("low", "high"))
    if not np.less(low, high).all():
        raise PairingError(f"the bounds of {space} leave some coordinate no room")
    return BOUNDS[action_bound](
        low, high, space.shape, np.dtype(space.dtype).name, action_scale
    )


def _bound(space: gymnasium.spaces.Box, name: str) -> tuple[float, ...]:
    bound: Any = getattr(space, name)
    if not np.isfinite(bound).all():
        raise PairingError(
            f"its policy needs a Box with finite bounds, but {name}={bound} of {space}"
        )
    return tuple(float(x) for x in np.ravel(bound))


class ActionDistribution(struct.PyTreeNode):
    """The distribution of actions at observations `[...]`.

    Attributes:
        distribution: What the outputs mean.
        outputs: `[..., outputs]`.
    """

    distribution: Distribution = struct.field(pytree_node=False)
    outputs: jax.Array

    def sample(self, key: Key[Array, ""]) -> Action:
        """Returns an action, drawn from `fold_in(key, 0)`. Not batched."""
        return self.distribution.sample(key, self.outputs)

    def mode(self) -> Action:
        """Returns the action of a deterministic policy. Not batched."""
        return self.distribution.mode(self.outputs)

    def log_prob(self, actions: Actions) -> OfActions:
        """Returns the log-likelihood `[...]` of actions `[..., *space]`."""
        return self.distribution.log_prob(self.outputs, actions)

    def entropy(self) -> OfActions:
        """Returns the entropy `[...]` in nats."""
        return self.distribution.entropy(self.outputs)


class TabularDistribution(struct.PyTreeNode):
    """Action distributions over few states, computed once a state and looked up.

    Attributes:
        distribution: What the outputs mean.
        outputs: Those of every state, `[S, outputs]`.
        states: Which states were observed, one-hot float `[..., S]`.
    """

    distribution: Distribution = struct.field(pytree_node=False)
    outputs: jax.Array
    states: jax.Array

    def sample(self, key: Key[Array, ""]) -> Action:
        """Returns an action, drawn from `fold_in(key, 0)`. Not batched."""
        return self.distribution.sample_at(key, self.outputs, self.states)

    def mode(self) -> Action:
        """Returns the action of a deterministic policy. Not batched."""
        return self.distribution.mode(look_up(self.states, self.outputs))

    def log_prob(self, actions: Actions) -> OfActions:
        """Returns the log-likelihood `[...]` of actions `[..., *space]`."""
        return self.distribution.log_prob_at(self.outputs, self.states, actions)

    def entropy(self) -> OfActions:
        """Returns the entropy `[...]` in nats."""
        return look_up(self.states, self.distribution.entropy(self.outputs))
