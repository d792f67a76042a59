"""Categorical distributions given by logits; a logit of -inf masks an action."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from paxenv import keys


def sample(
    word: UInt32[Array, "*batch"], logits: Float[Array, "*batch actions"]
) -> Int[Array, "*batch"]:
    """Returns an action for each random word, by the inverse of the distribution.

    One word of 32 bits is all that an action costs; its 24 leading bits are used, so
    probabilities below 2**-24 are never drawn. A masked action is never chosen. Where
    a logit is NaN the action has no meaning; `log_prob` of it is NaN.
    """
    return pick(word, bounds(logits))


def bounds(
    logits: Float[Array, "*batch actions"],
) -> Float[Array, "*batch actions"]:
    """Returns where the interval of each action ends; the last one is about 1."""
    return jnp.cumsum(jax.nn.softmax(logits), axis=-1)


def pick(
    word: UInt32[Array, "*batch"], bounds: Float[Array, "*batch actions"]
) -> Int[Array, "*batch"]:
    """Returns the action in whose interval each random word falls."""
    point = keys.uniform(word) * bounds[..., -1]
    passed = point[..., None] >= bounds[..., :-1]
    return jnp.sum(passed, axis=-1, dtype=jnp.int32)


def mode(logits: Float[Array, "*batch actions"]) -> Int[Array, "*batch"]:
    """Returns the likeliest action, of several the lowest."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def log_prob(
    logits: Float[Array, "*batch actions"], actions: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """Returns the log-probability of each action; NaN where a logit is NaN."""
    chosen = jnp.arange(logits.shape[-1]) == actions[..., None]
    return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(logits), 0.0), axis=-1)


def entropy(logits: Float[Array, "*batch actions"]) -> Float[Array, "*batch"]:
    """Returns the entropy in nats; its gradient is finite for masked actions too."""
    log_p = jax.nn.log_softmax(logits)
    # 0 * -inf is NaN, 0 times the lowest finite number is 0.
    return -jnp.sum(jnp.exp(log_p) * jnp.maximum(log_p, jnp.finfo(log_p).min), axis=-1)


def look_up(
    one_hot: Float[Array, "*batch S"], table: Float[Array, "S ..."]
) -> Float[Array, "..."]:
    """Returns rows `[..., *row]` of a table `[S, *row]`, `*row` of at most one axis.

    Args:
        one_hot: Float `[..., S]`.
        table: `[S]` or `[S, N]`; every number of it finite.
    """
    # Full precision: on accelerators a product may otherwise round the table.
    return jnp.matmul(one_hot, table, precision=jax.lax.Precision.HIGHEST)
