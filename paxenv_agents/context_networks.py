"""How memories meet: games against one co-player share context."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from paxenv_agents.agent import GAMES


class Alone(nn.Module):
    """A game keeps to itself."""

    @nn.compact
    def __call__(self, hidden: jax.Array) -> jax.Array:
        return hidden


class Average(nn.Module):
    """Half of a hidden state is the mean over the games; one game keeps its own."""

    @nn.compact
    def __call__(self, hidden: jax.Array) -> jax.Array:
        if not in_company():
            return hidden
        return hidden / 2 + jax.lax.pmean(hidden, GAMES) / 2


class Attention(nn.Module):
    """Half of a hidden state is what it reads in those of all games, its own too.

    One head over the games, between two layer norms over the features. There is no
    position, so the order of the games does not matter.

    Source: Vaswani et al., Attention Is All You Need (2017), section 3.2; among games
    against one co-player: Khan et al., Scaling Opponent Shaping to High Dimensional
    Games (2024).
    """

    @nn.compact
    def __call__(self, hidden: jax.Array) -> jax.Array:
        size = hidden.shape[-1]
        seen = nn.LayerNorm(name="norm_in")(hidden)
        query, key, value = (
            nn.Dense(size, use_bias=False, name=name)(seen)
            for name in ("query", "key", "value")
        )
        if in_company():
            keys, values = (jax.lax.all_gather(x, GAMES) for x in (key, value))
        else:
            keys, values = key[None], value[None]
        # keys and values: [games, ..., H]
        scores = jnp.sum(query * keys, axis=-1) / jnp.sqrt(jnp.float32(size))
        weights = jax.nn.softmax(scores, axis=0)[..., None]
        read = nn.Dense(size, name="out")(jnp.sum(weights * values, axis=0))
        read = nn.LayerNorm(name="norm_out")(read + hidden)
        return hidden / 2 + nn.Dense(size, name="mixed")(read) / 2


#: What a hidden state becomes before each recurrent step.
CONTEXTS: dict[str, type[nn.Module]] = {
    "nothing": Alone,
    "avg": Average,
    "att": Attention,
}


def in_company() -> bool:
    """Whether the caller runs over an axis of games that play together."""
    try:
        jax.lax.axis_size(GAMES)
    except NameError:
        return False
    return True
