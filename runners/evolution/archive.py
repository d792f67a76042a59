"""The best members so far."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct


class Archive(struct.PyTreeNode):
    """The members of highest fitness, best first; fitness -inf where there is none.

    A member's fitness is that of its own generation, in which it may have been lucky.

    Attributes:
        solutions: Leaves `[k, ...]`.
        fitness: float32 `[k]`.
        generation: When each lived, from 0. int32 `[k]`.
    """

    solutions: Any
    fitness: jax.Array
    generation: jax.Array


def empty(solution: Any, k: int) -> Archive:
    """Returns an archive of `k` places for solutions like this one."""
    return Archive(
        solutions=jax.tree.map(lambda x: jnp.zeros((k, *x.shape), x.dtype), solution),
        fitness=jnp.full((k,), -jnp.inf),
        generation=jnp.full((k,), -1, jnp.int32),
    )


def with_members(
    archive: Archive, population: Any, fitness: jax.Array, generation: jax.Array
) -> Archive:
    """Returns the archive after a generation; members with a NaN never enter.

    Args:
        archive: The archive before, of k places.
        population: Leaves `[members, ...]`, at least k members.
        fitness: `[members]`, larger is better.
        generation: The generation's number.
    """
    k = archive.fitness.shape[0]
    known = jnp.where(jnp.isfinite(fitness), fitness, -jnp.inf)
    best, index = jax.lax.top_k(known, k)
    joined = jax.tree.map(
        lambda old, new: jnp.concatenate([old, new[index]]),
        archive.solutions,
        population,
    )
    every = jnp.concatenate([archive.fitness, best])
    born = jnp.concatenate([archive.generation, jnp.full((k,), generation, jnp.int32)])
    kept, places = jax.lax.top_k(every, k)
    return Archive(
        solutions=jax.tree.map(lambda x: x[places], joined),
        fitness=kept,
        generation=born[places],
    )
