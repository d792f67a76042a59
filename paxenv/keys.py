"""The key schedule: the only place where the random keys of a game are derived.

The caller of a game holds every key, and a key of a step or a reset is only folded,
never split or drawn from. So one key serves the game, its clock and all its players,
and any transition can be replayed from (seed, lane, episode, step).

==============  ==========================================  ====================
key             derived as                                  who consumes it
==============  ==========================================  ====================
lane            ``of_seed(seed + lane)``                    a stream of trials
episode         ``fold_in(lane, e)``                        trial number ``e``
reset           ``fold_in(episode, 0)``                     ``Environment.reset``
step            ``fold_in(episode, 1 + t)``                 the step after ``t``
begin           ``fold_in(episode, t)``                     ``begin_episode``
game words      ``fold_in(step, b)``, ``b < 2**16``         ``Environment.draw``
random end      ``fold_in(step, 2**16)``                    the clock
player ``p``    ``fold_in(step, 2**16 + 1 + p)``            the policy of ``p``
seating         ``fold_in(fold_in(reset, 2**17), i)``       the role that acts
==============  ==========================================  ====================

``t`` counts the valid steps of a trial. The key that opens an inner episode is the
key of the step that closed the one before it, so a game draws once at a boundary;
its `reset_game` and its `step_game` use disjoint words.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer, Key, UInt32

from paxenv import scalars, threefry

RANDOM_END = 2**16
FIRST_PLAYER = 2**16 + 1
SEATING = 2**17
#: Words of seeds of more than 64 bits are folded behind this tag plus their number: no
#: number of a trial is as large, since these have 31 bits.
WIDE_SEED = 2**31

IntLike = int | np.integer | Integer[Array, "..."]


def typed(key: jax.Array) -> Key[Array, "..."]:
    """Returns `key` as a typed key; raw `jax.random.PRNGKey` arrays are accepted.

    Raises:
        TypeError: If `key` is not a random key at all, for instance a seed.
    """
    if isinstance(key, int):
        raise TypeError(
            f"expected a random key, got the integer {key}: use jax.random.key({key})"
        )
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    if key.dtype == jnp.uint32 and key.shape[-1:] == (2,):
        return jax.random.wrap_key_data(key)
    raise TypeError(
        f"expected a random key such as jax.random.key(0), got dtype {key.dtype} "
        f"of shape {key.shape}"
    )


def of_seed(seed: int) -> Key[Array, ""]:
    """Returns the key of a whole number of any size, the same with 64 bits on or off.

    Below `2**64` it is what `jax.random.key` gives with 64-bit types on, so no two
    seeds share a key of JAX's default generator. Larger seeds begin with the key of
    their lowest 64 bits, and the further words of 32 bits are folded in, the lowest
    first. Two of them could share a key only as two folds can, by chance.

    Raises:
        ValueError: If `seed` is not a whole number >= 0.
    """
    return _of_number(whole("seed", seed))


def lane(seed: int, lane: int = 0) -> Key[Array, ""]:
    """Returns the key of one stream of trials; seed s lane 1 is seed s + 1 lane 0.

    Raises:
        ValueError: If `seed` or `lane` is not a whole number >= 0.
    """
    return _of_number(whole("seed", seed) + whole("lane", lane))


def lanes(seed: int, num_lanes: int) -> Key[Array, " lanes"]:
    """Returns `lane(seed, i)` for i = 0 to `num_lanes - 1`.

    Raises:
        ValueError: If `seed` is not a whole number >= 0.
    """
    first = whole("seed", seed)
    if first + num_lanes <= 2**32:
        offsets = jnp.arange(num_lanes, dtype=jnp.uint32)
        return jax.vmap(jax.random.key)(jnp.uint32(first) + offsets)
    return jnp.stack([_of_number(first + i) for i in range(num_lanes)])


def whole(name: str, value: object) -> int:
    """Returns a whole number >= 0, of Python, NumPy or JAX, as one of Python.

    Raises:
        ValueError: If it is not one; the message says which.
    """
    number = scalars.whole(value)
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"{name} must be a whole number >= 0, got {value!r}")
    return number


def fold_in(key: Key[Array, ""], data: IntLike) -> Key[Array, ""]:
    """Returns `jax.random.fold_in(key, data)`, in fewer operations when compiled."""
    return threefry.fold_in(key, data)


def folds(
    key: Key[Array, ""] | UInt32[Array, "2"], num: int
) -> Key[Array, " num"] | UInt32[Array, "num 2"]:
    """Returns `fold_in(key, i)` for i = 0 to `num - 1`: a key for each of some games.

    Args:
        key: Typed, or a raw `PRNGKey` array, of which rows `[num, 2]` are returned.
        num: How many.
    """
    return jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(num))


def episode(lane_key: Key[Array, ""], e: IntLike) -> Key[Array, ""]:
    """Returns the key of trial number `e` of a lane."""
    return fold_in(lane_key, e)


def reset(episode_key: Key[Array, ""]) -> Key[Array, ""]:
    """Returns the key that opens a trial."""
    return fold_in(episode_key, 0)


def step(episode_key: Key[Array, ""], t: IntLike) -> Key[Array, ""]:
    """Returns the key of the step taken after `t` valid steps of the trial."""
    return fold_in(episode_key, 1 + t)


def begin(episode_key: Key[Array, ""], t: IntLike) -> Key[Array, ""]:
    """Returns the key that opens an inner episode after `t` valid steps."""
    return fold_in(episode_key, t)


def random_end(step_key: Key[Array, ""]) -> Key[Array, ""]:
    """Returns the key from which the clock draws a random end."""
    return fold_in(step_key, RANDOM_END)


def player(key: Key[Array, ""], p: IntLike) -> Key[Array, ""]:
    """Returns player `p`'s own key, derived from a step key or a reset key."""
    return fold_in(key, FIRST_PLAYER + p)


def seating(reset_key: Key[Array, ""], i: IntLike = 0) -> Key[Array, ""]:
    """Returns key `i` of the seats: 0 for their order, 1 + p for self-play as `p`."""
    return fold_in(fold_in(reset_key, SEATING), i)


def own(key: Key[Array, ""], b: int) -> Key[Array, ""]:
    """Returns a key of the game's own, for rules that draw by themselves.

    It stands for words `2 * b` and `2 * b + 1` of `words`: a game uses either.
    """
    if not 0 <= b < RANDOM_END:
        raise ValueError(f"b must be in [0, {RANDOM_END}), got {b}")
    return fold_in(key, b)


def words(key: Key[Array, ""], n: int) -> UInt32[Array, " n"]:
    """Returns `n` random words of 32 bits, two for each block of the generator."""
    if not 0 < n <= 2 * RANDOM_END:
        raise ValueError(f"a game may draw 1 to {2 * RANDOM_END} words, asked for {n}")
    blocks = jax.vmap(threefry.fold_in, (None, 0))(key, jnp.arange((n + 1) // 2))
    return jax.random.key_data(blocks).reshape(-1)[:n]


def uniform(word: UInt32[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Returns a number in [0, 1) for each word: its 24 leading bits, exactly."""
    return (word >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)


def below(word: UInt32[Array, "*shape"], n: int) -> Int[Array, "*shape"]:
    """Returns a whole number in [0, n) for each word, of bias below n / 2**32.

    The high half of the 64-bit product `word * n`, computed in 32 bits.

    Source: Lemire, Fast Random Integer Generation in an Interval (2019), section 3.
    """
    if not 0 < n < 2**16:
        raise ValueError(f"n must be in [1, 65535], got {n}")
    high, low = word >> 16, word & jnp.uint32(0xFFFF)
    n32 = jnp.uint32(n)
    return ((high * n32 + (low * n32 >> 16)) >> 16).astype(jnp.int32)


def _of_number(number: int) -> Key[Array, ""]:
    if number < 2**31:
        return jax.random.key(number)
    high, low = divmod(number, 2**64)
    with jax.enable_x64(True):
        key = jax.random.key(np.uint64(low))
    if not high:
        return key
    words = [high >> shift & 0xFFFFFFFF for shift in range(0, high.bit_length(), 32)]
    for word in (WIDE_SEED + len(words), *words):
        key = fold_in(key, word)
    return key
