"""Orthogonal initial weights: their law, and that drawing many of them ends."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.networks.feed_forward import orthogonal

DRAWS = 20_000


def draw(shape, scale=1.0, dtype=jnp.float32):
    return orthogonal(scale)(jax.random.key(0), shape, dtype)


@functools.cache
def draws(*shape):
    """Returns `DRAWS` independent matrices."""
    keys = jax.random.split(jax.random.key(1), DRAWS)
    return np.asarray(jax.jit(jax.vmap(lambda k: orthogonal()(k, shape)))(keys))


@pytest.mark.parametrize("shape", [(64, 2), (3, 64), (512, 512), (1, 1)])
def test_the_shorter_side_is_orthonormal(shape):
    kernel = np.asarray(draw(shape), np.float64)
    gram = kernel.T @ kernel if shape[0] >= shape[1] else kernel @ kernel.T

    assert np.linalg.norm(gram - np.eye(min(shape)), 2) < 5e-6


def test_the_scale_is_the_length_of_the_vectors():
    kernel = draw((4, 3), scale=0.01)

    np.testing.assert_allclose(np.linalg.norm(kernel, axis=0), 0.01, rtol=1e-5)


def test_a_convolution_has_one_orthonormal_vector_for_each_output():
    kernel = np.asarray(draw((3, 3, 2, 16)))

    flat = kernel.reshape(18, 16)
    np.testing.assert_allclose(flat.T @ flat, np.eye(16), atol=3e-6)


def test_the_dtype_is_the_one_that_is_asked_for():
    with jax.enable_x64(True):
        kernel = np.asarray(draw((32, 32), dtype=jnp.float64))

    assert kernel.dtype == np.float64
    np.testing.assert_allclose(kernel.T @ kernel, np.eye(32), atol=1e-14)
    assert draw((2, 2)).dtype == jnp.float32


def test_a_batch_holds_what_its_keys_give_alone():
    keys = jax.random.split(jax.random.key(3), 4)
    init = functools.partial(orthogonal(), shape=(6, 4))

    together = jax.jit(jax.vmap(init))(keys)

    np.testing.assert_allclose(together, [init(key) for key in keys], atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_entries_have_the_moments_of_the_uniform_law(shape):
    """For vectors of size n: E q = 0, E q^2 = 1/n, E q^4 = 3 / (n (n + 2))."""
    q, n = draws(*shape), max(shape)

    # Four standard errors; the variances of q, q^2 and q^4 are below 1/n, 2/n^2, 1/n^2.
    error = 4 / (n * DRAWS**0.5)
    np.testing.assert_allclose(q.mean(0), 0, atol=error * n**0.5)
    np.testing.assert_allclose((q**2).mean(0), 1 / n, atol=error * 2**0.5)
    np.testing.assert_allclose((q**4).mean(0), 3 / (n * (n + 2)), atol=error)


def test_traces_have_the_moments_of_the_uniform_law():
    """E tr Q = 0, E (tr Q)^2 = 1, E tr Q^2 = 1, E (tr Q)^4 = 3 for n = 4."""
    q = draws(4, 4).astype(np.float64)
    trace, squared = np.trace(q, axis1=1, axis2=2), np.trace(q @ q, axis1=1, axis2=2)

    # Four standard errors, from the eighth moment (trace)^8 <= 105 of a normal.
    np.testing.assert_allclose(trace.mean(), 0, atol=4 / DRAWS**0.5)
    np.testing.assert_allclose((trace**2).mean(), 1, atol=4 * (2 / DRAWS) ** 0.5)
    np.testing.assert_allclose(squared.mean(), 1, atol=4 * (3 / DRAWS) ** 0.5)
    np.testing.assert_allclose((trace**4).mean(), 3, atol=4 * (96 / DRAWS) ** 0.5)


def test_half_of_the_square_matrices_are_reflections():
    signs = np.linalg.det(draws(4, 4))

    np.testing.assert_allclose(np.abs(signs), 1, atol=1e-5)
    assert abs(np.mean(signs > 0) - 0.5) < 4 * 0.5 / DRAWS**0.5


def test_entries_are_distributed_as_those_of_a_normalised_gaussian():
    """The exact marginal law, compared by deciles; a corner is the hardest entry."""
    gaussian = np.random.default_rng(0).standard_normal((DRAWS, 4))
    exact = gaussian[:, 0] / np.linalg.norm(gaussian, axis=1)
    deciles = np.quantile(exact, np.linspace(0.1, 0.9, 9))

    for row, column in ((0, 0), (0, 3), (3, 0), (3, 3)):
        below = (draws(4, 4)[:, row, column, None] < deciles).mean(0)
        error = 4 * (2 * 0.25 / DRAWS) ** 0.5
        np.testing.assert_allclose(below, np.linspace(0.1, 0.9, 9), atol=error)


def test_turning_the_matrices_does_not_change_their_law():
    """E tr(A Q) tr(B Q) = <A, B> / n for fixed A and B, on both sides."""
    random = np.random.default_rng(1)
    a, b = random.standard_normal((2, 4, 4))
    products = np.einsum("kj,njk->n", a, draws(4, 4)) * np.einsum(
        "kj,njk->n", b, draws(4, 4)
    )

    expected = np.sum(a * b) / 4
    error = 4 * products.std() / DRAWS**0.5
    np.testing.assert_allclose(products.mean(), expected, atol=error)


HANGS = """
import jax
from paxenv_agents.networks.feed_forward import orthogonal

def init(key, copies, width):
    shapes = [(2, width), (width, width), (width, 2), (width, 1)] * copies
    keys = jax.random.split(key, len(shapes))
    return [orthogonal()(k, shape) for k, shape in zip(keys, shapes)]

for seeds, copies, width in {grid}:
    keys = jax.random.split(jax.random.key(0), seeds)
    jax.block_until_ready(
        jax.jit(jax.vmap(lambda key: init(key, copies, width)))(keys)
    )
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_a_program_that_draws_many_matrices_ends(cores):
    """A thread pool as small as the machine's, and no flags: as for a user."""
    grid = [(5, 1, 64), (5, 2, 64), (2, 4, 64), (5, 2, 16)]
    dropped = ("XLA_FLAGS", "NPROC", "JAX_COMPILATION_CACHE_DIR")
    environment = {k: v for k, v in os.environ.items() if k not in dropped}
    result = subprocess.run(
        [sys.executable, "-c", HANGS.format(grid=grid)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        preexec_fn=lambda: os.sched_setaffinity(
            0, sorted(os.sched_getaffinity(0))[:cores]
        ),
    )

    assert result.stdout == "done\n", result.stderr
