"""Small whole numbers of the coin game in one word, which XLA computes once.

XLA copies cheap operations into each of their consumers on CPUs, here the generator
and the whole step into each player's view; a division it computes once. So a packed
word ends in a division that changes nothing, and whatever reads it reads memory.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

#: Bits of a word that can be multiplied by 3 without loss.
MAX_BITS = 30


def pack(numbers: Sequence[Int[Array, ""]], bits: int) -> UInt32[Array, ""]:
    """Returns numbers in [0, 2**bits) as one word, the first in the lowest bits.

    Words of more than `MAX_BITS` bits are right, but may be computed several times.
    """
    word = jnp.zeros((), jnp.uint32)
    for i, number in enumerate(numbers):
        word = word | (jnp.asarray(number).astype(jnp.uint32) << (bits * i))
    if bits * len(numbers) > MAX_BITS:
        return word
    return jax.lax.div(3 * word, jnp.full_like(word, 3))


def unpack(word: Any, bits: int, count: int) -> list[Any]:
    """Returns the first `count` numbers of a word (uint32, JAX or NumPy), as int32.

    Leading axes are kept.
    """
    mask = 2**bits - 1
    return [((word >> (bits * i)) & mask).astype("int32") for i in range(count)]
