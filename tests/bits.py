"""Comparison of pytrees bit for bit; random keys are compared by their words."""

import jax
import jax.numpy as jnp
import numpy as np


def words(x):
    """Returns an array, or the words of a random key, on the host."""
    x = jnp.asarray(x)
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x)


def leaves(tree):
    """Returns the leaves of a pytree on the host."""
    return [words(x) for x in jax.tree.leaves(tree)]


def equal(a, b, *, equal_nan=False):
    """Whether two pytrees of one structure have the same bits."""

    def same(x, y):
        return np.array_equal(words(x), words(y), equal_nan=equal_nan)

    return all(jax.tree.leaves(jax.tree.map(same, a, b)))


def assert_same(a, b):
    """Fails at the first leaf that differs, or if the structures do."""
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(words(x), words(y)), a, b)
