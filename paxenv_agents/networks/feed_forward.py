"""Networks of policies and values, and the features that they read.

A network maps features `[..., F]` to the outputs `[..., A]` that give a policy (logits
of A actions, or the numbers that a `Distribution` over a Box reads), a value `[...]`,
or both. Which one an agent has follows from its spaces and its config, never from a
game's name.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.nn.initializers import Initializer
from jaxtyping import Array, Float, Num, PyTree

from paxenv import spaces
from paxenv.options import one_of
from paxenv_agents.ops.categorical import look_up
from paxenv_agents.types import KeyLike

#: What keeps a reflection finite where its Gaussian vector is 0.
_TINY = 1e-12


def orthogonal(scale: float = 1.0) -> Initializer:
    """Returns an initialiser of `scale` times a uniform orthogonal matrix.

    A kernel `[..., outputs]` is a matrix of all its other axes times `outputs`. Its
    columns are orthonormal, or its rows if it has fewer rows than columns; such
    matrices are drawn from the uniform (Haar) distribution, as by
    `jax.nn.initializers.orthogonal`, but without LAPACK and with other bits.

    Args:
        scale: Length of the vectors.
    """

    def init(
        key: jax.Array,
        shape: Sequence[int],
        dtype: Any = None,
        out_sharding: Any = None,
    ) -> jax.Array:
        dtype = dtype or jnp.result_type(float)
        columns = shape[-1]
        rows = math.prod(shape) // columns
        vectors = _orthonormal(key, min(rows, columns), max(rows, columns), dtype)
        matrix = vectors if rows < columns else vectors.T
        return jnp.asarray(scale, dtype) * matrix.reshape(shape)

    return init


# One compile for each shape, not for each operation, where nothing else is compiled.
@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _orthonormal(key: jax.Array, num_vectors: int, size: int, dtype: Any) -> jax.Array:
    """Returns uniformly distributed orthonormal vectors `[num_vectors, size]`.

    They are the Q of a Gaussian matrix whose R has a positive diagonal, as a product of
    Householder reflections: what the k-th of them does not fix is again a Gaussian
    vector, of the last `size - k` entries, and independent of those before it.

    Source: Stewart, The efficient generation of random orthogonal matrices (1980).
    """
    gaussian = jax.random.normal(key, (num_vectors, size), dtype)
    gaussian = jnp.triu(gaussian)
    sign = jnp.where(jnp.diagonal(gaussian) < 0, -1.0, 1.0).astype(dtype)
    length = jnp.maximum(_length(gaussian), _TINY)
    unit = jnp.eye(num_vectors, size, dtype=dtype)
    normals = gaussian + (sign * length)[:, None] * unit
    # With normals of length root two a reflection is x - <x, v> v.
    normals = normals * (math.sqrt(2.0) / _length(normals))[:, None]
    return jax.lax.scan(_reflect, -sign[:, None] * unit, normals, reverse=True)[0]


def _reflect(vectors: jax.Array, normal: jax.Array) -> tuple[jax.Array, None]:
    along = jnp.dot(vectors, normal, precision="highest")
    return vectors - along[:, None] * normal, None


def _length(vectors: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(jnp.square(vectors), axis=-1))


#: Where convolutional layers of a relu network start.
_GAIN = 2.0**0.5


@dataclasses.dataclass(frozen=True)
class Image:
    """How a network reads an image.

    Attributes:
        shape: Height, width, channels.
        scale: The number by which a pixel is divided.
        channels: Output channels of each convolution.
        kernel_size: Height and width of each convolution; edges are padded.
    """

    shape: tuple[int, int, int]
    scale: float
    channels: tuple[int, ...]
    kernel_size: int


def image(
    space: gymnasium.Space, channels: tuple[int, ...], kernel_size: int
) -> Image | None:
    """Returns how observations of a space are seen if they are images, else None.

    A Box of three axes is an image, height first and channels last. Pixels of uint8
    are divided by 255. Without convolutions an image is a flat list of numbers.
    """
    is_box = isinstance(space, gymnasium.spaces.Box)
    if not is_box or len(space.shape) != 3 or not channels:
        return None
    height, width, depth = space.shape
    scale = 255.0 if space.dtype == np.uint8 else 1.0
    return Image((height, width, depth), scale, tuple(channels), kernel_size)


class OnImage(nn.Module):
    """A network that reads the outputs of convolutions over an image.

    Reads the pixels as features `[..., H * W * C]`, as `networks.features` gives them.

    Attributes:
        network: What reads the features `[..., H * W * channels[-1]]`.
        image: How the image is seen.
    """

    network: nn.Module
    image: Image

    @nn.compact
    def __call__(
        self, features: Float[Array, "*batch F"]
    ) -> PyTree[Float[Array, "..."]]:
        batch = features.shape[:-1]
        # [..., F] -> [..., H, W, C]
        seen = features.reshape(*batch, *self.image.shape) / self.image.scale
        for channels in self.image.channels:
            kernel = (self.image.kernel_size,) * 2
            init = orthogonal(_GAIN)
            seen = nn.relu(nn.Conv(channels, kernel, kernel_init=init)(seen))
        return self.network(seen.reshape(*batch, -1))  # type: ignore[operator]


def seen(network: nn.Module, image: Image | None) -> nn.Module:
    """Returns the network, behind convolutions if what it reads is an image."""
    return network if image is None else OnImage(network, image)


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": nn.tanh,
    "relu": nn.relu,
    "silu": nn.silu,
}
#: An option of which one is chosen.
Activation = Annotated[str, one_of(*ACTIVATIONS)]
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
    def __call__(self, features: Float[Array, "*batch F"]) -> Float[Array, "*batch W"]:
        for width in self.hidden_dims:
            init = orthogonal(HIDDEN_SCALE)
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
    def __call__(self, features: Float[Array, "*batch F"]) -> Float[Array, "*batch A"]:
        hidden = MLPTorso(self.hidden_dims, self.activation)(features)
        return head(self.num_actions, POLICY_SCALE, bool(self.hidden_dims))(hidden)


class MLPCritic(nn.Module):
    """Features to a value `[...]`; attributes as in `MLPActor`."""

    hidden_dims: Sequence[int] = (64, 64)
    activation: str = "tanh"

    @nn.compact
    def __call__(self, features: Float[Array, "*batch F"]) -> Float[Array, "*batch"]:
        hidden = MLPTorso(self.hidden_dims, self.activation)(features)
        return head(1, VALUE_SCALE, bool(self.hidden_dims))(hidden)[..., 0]


class SeparateActorCritic(nn.Module):
    """Features to (logits, value) by two networks that share nothing."""

    actor: nn.Module
    critic: nn.Module

    def __call__(
        self, features: Float[Array, "*batch F"]
    ) -> tuple[Float[Array, "*batch A"], Float[Array, "*batch"]]:
        return self.actor(features), self.critic(features)  # type: ignore[operator]


class SharedActorCritic(nn.Module):
    """Features to (logits, value) by two heads on one torso, as in `MLPActor`."""

    num_actions: int
    hidden_dims: Sequence[int] = (64, 64)
    activation: str = "tanh"

    @nn.compact
    def __call__(
        self, features: Float[Array, "*batch F"]
    ) -> tuple[Float[Array, "*batch A"], Float[Array, "*batch"]]:
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
    def __call__(
        self, state: Num[Array, "..."]
    ) -> tuple[Float[Array, "*batch A"], Float[Array, "*batch"]]:
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
    def __call__(
        self, features: Float[Array, "*batch F"]
    ) -> tuple[Float[Array, "*batch A"], Float[Array, "*batch"]]:
        outputs, value = self.network(features)  # type: ignore[operator]
        zeros = nn.initializers.zeros_init()
        scales = self.param("scales", zeros, (self.num_scales,), jnp.float32)
        return followed_by(outputs, scales), value


def followed_by(
    outputs: Float[Array, "*batch A"], scales: Float[Array, " n"]
) -> Float[Array, "*batch outputs"]:
    """Returns outputs `[..., A]` and then `scales` `[n]`, the same everywhere."""
    everywhere = jnp.broadcast_to(scales, (*outputs.shape[:-1], *scales.shape))
    return jnp.concatenate([outputs, everywhere], axis=-1)


def init(
    network: nn.Module, key: KeyLike, observation_space: gymnasium.Space
) -> dict[str, Any]:
    """Returns fresh parameters of a network that reads this space."""
    space = observation_space
    example = jnp.full(space.shape or (), getattr(space, "start", 0), jnp.int32)
    variables = network.init(key, _encode(network, example, space))
    # A network of one's own may have nothing to learn.
    return variables.get("params", {})  # type: ignore[return-value]


def apply(
    network: nn.Module,
    params: PyTree,
    observations: Num[Array | np.ndarray, "..."],
    observation_space: gymnasium.Space,
) -> PyTree[Float[Array, "..."]]:
    """Returns the outputs of a network at observations `[..., *space]`.

    An actor-critic gives (outputs `[..., A]`, values `[...]`), an actor the outputs
    alone.
    """
    space = observation_space
    if few_states(space):
        states = features(observations, space)
        every = tables(network, params, space)
        return jax.tree.map(lambda table: look_up(states, table), every)
    encoded = _encode(network, observations, space)
    return network.apply({"params": params}, encoded)


def few_states(space: gymnasium.Space) -> bool:
    """Returns whether a network is evaluated on all states of a space."""
    states = isinstance(space, gymnasium.spaces.Discrete | spaces.OneHot)
    return states and num_features(space) <= MAX_TABULATED


def tables(
    network: nn.Module, params: PyTree, space: gymnasium.Space
) -> PyTree[Float[Array, "S ..."]]:
    """Returns the outputs of a network in every state of a space, leaves `[S, ...]`."""
    every = jnp.eye(num_features(space), dtype=jnp.float32)
    return network.apply({"params": params}, every)


def head(width: int, scale: float, bias: bool) -> nn.Dense:
    """Returns a last layer of orthogonal weights, `scale` times as long."""
    init = orthogonal(scale)
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


def features(observations: PyTree, space: gymnasium.Space) -> Float[Array, "*batch F"]:
    """Returns float32 `[..., F]`: flat numbers of a Box, a one-hot of a `Discrete`."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return _one_hot(_index(observations, space), int(space.n))
    # [..., *space] -> [..., F]
    batch = observations.shape[: observations.ndim - len(space.shape or ())]
    flat = jnp.reshape(observations, (*batch, num_features(space)))
    return jnp.asarray(flat, jnp.float32)


def _encode(
    network: nn.Module, observations: PyTree, space: gymnasium.Space
) -> jax.Array:
    if isinstance(space, gymnasium.spaces.Discrete) and isinstance(
        network, TabularActorCritic
    ):
        return _index(observations, space)
    return features(observations, space)


def _index(observations: PyTree, space: gymnasium.spaces.Discrete) -> jax.Array:
    return spaces.decode_state(observations, space) - int(space.start)


def _one_hot(index: jax.Array, num_states: int) -> jax.Array:
    return (jnp.arange(num_states) == index[..., None]).astype(jnp.float32)
