"""The unrolled fold is JAX's, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv import keys, threefry

NUMBERS = (0, 1, 2, 7, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)


def data(key):
    return np.asarray(jax.random.key_data(key))


@pytest.fixture(scope="module")
def many_keys():
    """Keys of small and large words, uint32 `[66, 2]`."""
    words = np.random.default_rng(0).integers(0, 2**32, (64, 2), dtype=np.uint32)
    edges = np.array([[0, 0], [2**32 - 1, 2**32 - 1]], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(np.concatenate([words, edges])))


def test_block_is_that_of_the_authors_known_answer():
    """Random123's vectors of threefry2x32-20, counter (0, 0) and key 0; JAX's own."""
    key = jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32))
    assert data(threefry.fold_in(key, 0)).tolist() == [0x6B200159, 0x99BA4EFE]


@pytest.mark.parametrize("number", NUMBERS)
def test_fold_is_jaxs_of_every_number(number, many_keys):
    for key in many_keys[::13]:
        expected = data(jax.random.fold_in(key, number))
        np.testing.assert_array_equal(data(threefry.fold_in(key, number)), expected)


@pytest.mark.parametrize("number", [-1, -65537, -(2**31)])
def test_negative_number_wraps_as_in_jax(number):
    key = jax.random.key(3)
    expected = data(jax.random.fold_in(key, jnp.int32(number)))
    folded = threefry.fold_in(key, jnp.int32(number))
    np.testing.assert_array_equal(data(folded), expected)
    assert (data(threefry.fold_in(key, 2**32 + number)) == expected).all()


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.uint32, jnp.int8])
def test_compiled_and_batched_fold_is_jaxs(dtype, many_keys):
    numbers = jnp.arange(66).astype(dtype)
    for axes in ((0, 0), (0, None), (None, 0)):
        pair = (
            many_keys if axes[0] == 0 else many_keys[5],
            numbers if axes[1] == 0 else numbers[5],
        )
        ours, jaxs = (
            jax.jit(jax.vmap(fold_in, axes))(*pair)
            for fold_in in (threefry.fold_in, jax.random.fold_in)
        )
        np.testing.assert_array_equal(data(ours), data(jaxs))


@pytest.mark.parametrize("partitionable", [True, False])
def test_fold_of_random_numbers_is_jaxs_however_bits_are_partitioned(partitionable):
    words = np.random.default_rng(1).integers(0, 2**32, (3, 2_000), dtype=np.uint32)
    many = jax.random.wrap_key_data(jnp.asarray(words[:2].T))
    with jax.threefry_partitionable(partitionable):
        ours, jaxs = (
            jax.vmap(fold_in)(many, jnp.asarray(words[2]))
            for fold_in in (threefry.fold_in, jax.random.fold_in)
        )
    np.testing.assert_array_equal(data(ours), data(jaxs))


@pytest.mark.parametrize("number", [2**32 - 1, -1, 2**40 + 3])
def test_64_bit_number_is_cut_as_in_jax(number):
    key = jax.random.key(4)
    with jax.enable_x64(True):
        expected = data(jax.random.fold_in(key, np.int64(number)))
        folded = data(threefry.fold_in(key, np.int64(number)))
    np.testing.assert_array_equal(folded, expected)


def test_fold_keeps_its_generator_when_another_is_the_default():
    key = jax.random.key(1)
    expected = data(jax.random.fold_in(key, 5))
    with jax.default_prng_impl("rbg"):
        folded = threefry.fold_in(key, 5)
    assert folded.dtype == key.dtype
    np.testing.assert_array_equal(data(folded), expected)


def test_compiled_fold_has_no_loop():
    text = jax.jit(threefry.fold_in).lower(jax.random.key(0), 1).compile().as_text()
    assert " while(" not in text


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_generators_fold_as_before(impl):
    key = jax.random.key(1, impl=impl)
    folded = keys.fold_in(key, 5)
    assert jax.random.key_impl(folded) == jax.random.key_impl(key)
    np.testing.assert_array_equal(data(folded), data(jax.random.fold_in(key, 5)))


def test_raw_keys_fold_to_raw_keys():
    folded = threefry.fold_in(jax.random.PRNGKey(1), 5)
    assert folded.dtype == jnp.uint32
    expected = data(jax.random.fold_in(jax.random.key(1), 5))
    np.testing.assert_array_equal(folded, expected)


@pytest.mark.parametrize(
    ("key", "number", "error"),
    [
        (jax.random.key(0), jnp.arange(2), TypeError),
        (jax.random.split(jax.random.key(0)), 1, ValueError),
        (jax.random.key(0), -1, OverflowError),
    ],
)
def test_errors_are_those_of_jax(key, number, error):
    with pytest.raises(error) as jaxs:
        jax.random.fold_in(key, number)
    with pytest.raises(error) as ours:
        threefry.fold_in(key, number)
    assert str(ours.value) == str(jaxs.value)
