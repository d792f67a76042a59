"""Angles of the classic control problems, in radians."""

import jax
import jax.numpy as jnp


def wrapped(angle: jax.Array) -> jax.Array:
    """Returns an angle in [-pi, pi]; those that are there already do not change."""
    return angle - 2 * jnp.pi * jnp.floor((angle + jnp.pi) / (2 * jnp.pi))
