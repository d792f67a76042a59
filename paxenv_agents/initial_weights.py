"""Orthogonal initial weights, drawn by reflections.

On CPUs a batch of LAPACK calls takes threads of the pool in which it waits for others:
two of them in one program can wait for each other for ever. So what a network draws
under `jax.vmap` is made of products and sums alone.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer

#: What keeps a reflection finite where its Gaussian vector is 0.
_TINY = 1e-12


def orthogonal(scale: float = 1.0) -> Initializer:
    """Returns an initialiser of `scale` times a uniform orthogonal matrix.

    A kernel `[..., outputs]` is a matrix of all its other axes times `outputs`. Its
    columns are orthonormal, or its rows if it has fewer rows than columns; such
    matrices are drawn from the uniform law, that of Haar, as by
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
    """Returns orthonormal vectors `[num_vectors, size]` from the uniform law.

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
