"""`jax.random.fold_in` of the default generator, bit for bit, without a loop.

JAX compiles its Threefry block to a loop on CPUs. XLA fuses nothing into a loop, so two
blocks a step cost a fast game most of its time; written out, a block is arithmetic like
any other and is fused with what reads it.

Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011), section 3.3.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

NAME = "threefry2x32"
NUM_GROUPS = 5
#: Bits by which the rounds of even and of odd groups rotate.
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA

Word = UInt32[Array, ""]


def fold_in(key: jax.Array, data: int | np.integer | jax.Array) -> jax.Array:
    """Returns `jax.random.fold_in(key, data)`: the same key, whatever the generator.

    Keys of other generators and raw keys are left to JAX, as are errors.
    """
    if not _is_ours(key) or np.ndim(data):
        return jax.random.fold_in(key, data)
    words = _block(jax.random.key_data(key), jnp.asarray(data, jnp.uint32))
    return jax.random.wrap_key_data(words, impl=NAME)


def _is_ours(key: jax.Array) -> bool:
    return (
        isinstance(key, jax.Array)
        and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        and key.shape == ()
        and jax.random.key_impl(key) == NAME
    )


@jax.jit
def _block(key: UInt32[Array, "2"], count: Word) -> UInt32[Array, "2"]:
    """Returns the two words that Threefry-2x32-20 makes of the counter (0, `count`).

    Compiled, so that a call outside of any other `jit` is one and not a hundred.
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    x, y = schedule[0], count + schedule[1]
    for group in range(NUM_GROUPS):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = x ^ (y << rotation | y >> (32 - rotation))
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + (group + 1)
    return jnp.stack([x, y])
