"""Where arrays lie on a mesh: the rule on shapes, and real arrays on four devices."""

import json

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

import runners
from runners.engine.placement import fsdp_spec

MEBIBYTE = 2**20


@pytest.fixture
def mesh():
    return runners.make_mesh(1, 1)


# The rule.


@pytest.mark.parametrize(
    ("shape", "num_shards", "spec"),
    [
        ((4096, 512), 4, ("fsdp",)),
        ((512, 4096), 4, (None, "fsdp")),
        ((1001, 512), 4, (None, "fsdp")),  # the longest axis is not divisible
        ((1024, 1024), 4, (None, "fsdp")),  # among equals the last
        ((3, 512, 768), 4, (None, None, "fsdp")),
        ((1001, 1003), 4, ()),  # none is divisible
        ((4_000_000,), 4, ()),  # one axis
        ((), 4, ()),
        ((4096, 512), 1, ()),  # nobody to share with
    ],
)
def test_large_array_is_cut_along_its_longest_divisible_axis(shape, num_shards, spec):
    assert fsdp_spec(shape, num_shards) == PartitionSpec(*spec)


RULE = """
import json
import runners
runners.ensure_devices(4)
import jax, jax.numpy as jnp
mesh = runners.make_mesh(4)
shapes = {
    "large": (1024, 1024), "small": (1024, 1023), "vector": (2**21,), "odd": (1, 2**21),
}
abstract = {k: jax.ShapeDtypeStruct(s, jnp.float32) for k, s in shapes.items()}
abstract["halves"] = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
shardings = runners.fsdp_sharding(abstract, mesh)
lower = runners.fsdp_sharding(abstract, mesh, min_size_mbytes=2)
real = jax.device_put(jnp.ones((1024, 1024)), shardings["large"])
keys = jax.random.split(jax.random.key(0), 8)
x = runners.shard_pytree({"obs": jnp.arange(8), "key": keys}, mesh)
product = jax.jit(lambda x, w: (x @ w).sum())(jnp.ones(1024), real)
try:
    runners.shard_pytree({"obs": jnp.zeros((10, 3))}, mesh)
except ValueError as error:
    refused = str(error)
print(json.dumps({
    "specs": {k: [str(a) for a in v.spec] for k, v in shardings.items()},
    "halves at 2": [str(a) for a in lower["halves"].spec],
    "shards": sorted(str(s.data.shape) for s in real.addressable_shards),
    "product": float(product),
    "games": [s.data.tolist() for s in x["obs"].addressable_shards],
    "keys": [s.data.shape[0] for s in x["key"].addressable_shards],
    "copies": [s.data.tolist() for s in
               runners.replicate_on_mesh(jnp.arange(2), mesh).addressable_shards],
    "refused": refused,
    "axes": {str(n): dict(runners.make_mesh(n).shape) for n in (1, 2, 4)},
    "fewer": dict(runners.make_mesh(1, 3).shape),
}))
"""


@pytest.fixture(scope="module")
def placed(run_python):
    """What four virtual devices make of arrays small and large."""
    return json.loads(run_python(RULE).splitlines()[-1])


def test_parameters_of_4_mebibytes_and_two_axes_are_divided(placed):
    assert placed["specs"] == {
        "large": ["None", "fsdp"],
        "small": [],
        "vector": [],
        "odd": ["None", "fsdp"],
        "halves": [],
    }
    assert placed["halves at 2"] == ["None", "fsdp"]


def test_large_layer_really_lies_on_four_devices(placed):
    assert placed["shards"] == ["(1024, 256)"] * 4
    assert placed["product"] == 1024.0 * 1024.0


def test_games_are_spread_over_all_devices(placed):
    assert placed["games"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert placed["keys"] == [2, 2, 2, 2]
    assert placed["copies"] == [[0, 1]] * 4


def test_games_that_do_not_divide_are_refused_by_name(placed):
    """Ten games on four devices."""
    assert placed["refused"] == (
        "['obs'] has shape (10, 3): its leading axis must be divisible by the 4 "
        "devices of the mesh"
    )


def test_mesh_has_the_axes_batch_and_fsdp(placed):
    assert placed["axes"] == {
        "1": {"batch": 4, "fsdp": 1},
        "2": {"batch": 2, "fsdp": 2},
        "4": {"batch": 1, "fsdp": 4},
    }
    assert placed["fewer"] == {"batch": 3, "fsdp": 1}


# What is refused.


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((3, 4), "4 devices cannot be divided into groups of 3"),
        ((2, 1), "1 device cannot be divided into groups of 2"),
        ((1, 0), "num_devices must be a whole number >= 1, got 0"),
        ((0, 1), "num_fsdp_devices must be a whole number >= 1, got 0"),
    ],
)
def test_impossible_mesh_is_refused_with_both_numbers(monkeypatch, numbers, message):
    monkeypatch.setattr(jax, "device_count", lambda: 4)
    with pytest.raises(ValueError, match=message):
        runners.make_mesh(*numbers)


def test_mesh_of_more_devices_than_there_are_is_refused():
    available = jax.device_count()
    message = f"a mesh of {available + 1} devices is impossible: there are {available}"
    with pytest.raises(ValueError, match=message):
        runners.make_mesh(1, available + 1)


def test_scalar_cannot_be_spread(mesh):
    with pytest.raises(ValueError, match=r"the array has shape \(\): its leading axis"):
        runners.shard_pytree(jnp.float32(1), mesh)
