"""Observation spaces of games whose observation is one of n states, and back."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8, Shaped

ENCODINGS = ("one_hot", "index")


class OneHot(gymnasium.spaces.Box):
    """`Box(0, 1, (n,), int8)` of one 1 and zeros: one of n states.

    Agents tell by this class that an observation is a state; any other Box is a vector
    of features.

    Args:
        n: The number of states.
        seed: Seed of `sample`.
    """

    def __init__(self, n: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(0, 1, (n,), np.int8, seed)

    def sample(
        self, mask: None = None, probability: None = None
    ) -> Int8[np.ndarray, " states"]:
        """Returns a random state; a Box takes neither mask nor probability."""
        if mask is not None or probability is not None:
            return super().sample(mask=mask, probability=probability)
        (n,) = self.shape
        return np.eye(n, dtype=np.int8)[self.np_random.integers(n)]


def dtype_of(space: gymnasium.Space) -> np.dtype:
    """Returns the dtype that JAX has for a space's members.

    Gymnasium's Discrete is int64 and many a Box float64, which are int32 and float32
    where JAX's 64-bit types are off. To ask JAX for the former warns at every call.
    """
    return np.dtype(jax.dtypes.canonicalize_dtype(space.dtype))


def state_space(num_states: int, encoding: str) -> gymnasium.Space:
    """Returns the space of one of `num_states` states.

    Args:
        num_states: The number of states.
        encoding: `"one_hot"` for `OneHot(num_states)`, `"index"` for
            `Discrete(num_states)` of int32.
    """
    if encoding == "index":
        return gymnasium.spaces.Discrete(num_states, dtype=np.int32)
    return OneHot(num_states)


def encode_state(
    state: Int[Array, ""] | int, num_states: int, encoding: str
) -> Int[Array, ""] | Int8[Array, " states"]:
    """Returns a state (int32 scalar) as a member of `state_space`."""
    if encoding == "index":
        return jnp.asarray(state, jnp.int32)
    return (jnp.arange(num_states) == state).astype(jnp.int8)


def decode_state(
    obs: Shaped[Array, "..."] | np.ndarray, space: gymnasium.Space
) -> Int[Array, "..."]:
    """Returns the state (int32) behind observations of a `state_space`.

    Leading axes are kept: an index space gives `obs`, a one-hot space the position
    of the one in the last axis.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return jnp.asarray(obs, jnp.int32)
    positions = jnp.arange(space.shape[-1], dtype=jnp.int32)  # type: ignore[index]
    return jnp.sum(jnp.asarray(obs, jnp.int32) * positions, axis=-1)


def state_mask(
    obs: Shaped[Array, "..."] | np.ndarray, space: gymnasium.Space
) -> Bool[Array, "... states"]:
    """Returns which state an observation of a `state_space` is, bool `[..., n]`."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return jnp.asarray(obs)[..., None] == jnp.arange(int(space.n))
    return jnp.asarray(obs) != 0


def num_states(space: gymnasium.Space) -> int:
    """Returns the number of states of a `state_space`.

    Raises:
        ValueError: If `space` is not one.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(space.n)
    if isinstance(space, OneHot):
        return int(space.shape[0])
    raise ValueError(
        f"{space} is not one of finitely many states: Discrete or paxenv.spaces.OneHot"
    )


def check_encoding(encoding: str) -> None:
    """Raises ValueError unless `encoding` is one of `ENCODINGS`."""
    if encoding not in ENCODINGS:
        raise ValueError(f"observation must be one of {ENCODINGS}, got {encoding!r}")
