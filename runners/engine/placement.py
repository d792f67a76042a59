"""Placement of the state of an experiment on a mesh of devices."""

import math
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from paxenv import platforms
from paxenv.wording import counted
from runners.engine.devices import count

#: Games are spread over both axes, large parameters over "fsdp".
AXES = ("batch", "fsdp")
MEBIBYTE = 2**20

Tree = TypeVar("Tree")


def make_mesh(num_fsdp_devices: int, num_devices: int | None = None) -> Mesh:
    """Returns the mesh `[num_devices / num_fsdp_devices, num_fsdp_devices]` of `AXES`.

    Args:
        num_fsdp_devices: Devices among which large parameters are divided; 1 is
            plain data parallelism.
        num_devices: Devices of all processes together. None: every device there is.

    Raises:
        ValueError: If there are fewer devices, `num_fsdp_devices` does not divide
            their number, or some devices of several processes would be left out.
    """
    platforms.check()
    available = jax.device_count()
    num_devices = available if num_devices is None else num_devices
    num_devices = count("num_devices", num_devices)
    num_fsdp_devices = count("num_fsdp_devices", num_fsdp_devices)
    if num_devices > available:
        raise ValueError(
            f"a mesh of {counted(num_devices, 'device')} is impossible: there are "
            f"{available}"
        )
    if num_devices % num_fsdp_devices:
        raise ValueError(
            f"{counted(num_devices, 'device')} cannot be divided into groups of "
            f"{num_fsdp_devices}: num_fsdp_devices must divide num_devices"
        )
    if jax.process_count() > 1 and num_devices != available:
        raise ValueError(
            f"the {jax.process_count()} processes have {available} devices together "
            f"and all take part, got num_devices={num_devices}"
        )
    # Arrays of games are divided by the compiler: vmap refuses explicit axes.
    return jax.make_mesh(
        (num_devices // num_fsdp_devices, num_fsdp_devices),
        AXES,
        axis_types=(AxisType.Auto, AxisType.Auto),
        devices=jax.devices()[:num_devices],
    )


def shard_pytree(pytree: Tree, mesh: Mesh) -> Tree:
    """Returns the pytree with the leading axis of every leaf spread over all devices.

    In a job of several processes each one passes the whole of every leaf.

    Raises:
        ValueError: If a leaf has no leading axis, or the number of devices does not
            divide it; the message names the leaf and both numbers.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(pytree):
        shape = np.shape(leaf)
        if not shape or shape[0] % mesh.size:
            name = jax.tree_util.keystr(path) or "the array"
            raise ValueError(
                f"{name} has shape {shape}: its leading axis must be divisible by the "
                f"{mesh.size} devices of the mesh"
            )
    return jax.device_put(pytree, batch_sharding(mesh))


def replicate_on_mesh(pytree: Tree, mesh: Mesh) -> Tree:
    """Returns the pytree with a full copy of every leaf on each device."""
    return jax.device_put(pytree, NamedSharding(mesh, PartitionSpec()))


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of arrays whose leading axis is games, `[E, ...]`."""
    return NamedSharding(mesh, PartitionSpec(AXES))


def fsdp_sharding(
    pytree: PyTree, mesh: Mesh, min_size_mbytes: float = 4
) -> PyTree[NamedSharding]:
    """Returns the sharding of every leaf of parameters, by `fsdp_spec`.

    Args:
        pytree: Arrays, or the result of `jax.eval_shape`.
        mesh: A mesh of `make_mesh`.
        min_size_mbytes: Smaller leaves are replicated, MiB.
    """
    num_shards = mesh.shape["fsdp"]

    def sharding(leaf: Any) -> NamedSharding:
        num_bytes = math.prod(leaf.shape) * leaf.dtype.itemsize
        is_large = num_bytes >= min_size_mbytes * MEBIBYTE
        spec = fsdp_spec(leaf.shape, num_shards) if is_large else PartitionSpec()
        return NamedSharding(mesh, spec)

    return jax.tree.map(sharding, pytree)


def fsdp_spec(shape: tuple[int, ...], num_shards: int) -> PartitionSpec:
    """Returns the partition of a large array over the axis "fsdp".

    An array of two or more axes is cut along the longest axis that `num_shards`
    divides, the last one among equals: a square layer is cut by its outputs, which need
    no sum over devices. Any other array is replicated.

    Example:
        >>> fsdp_spec((1001, 512), 4)
        PartitionSpec(None, 'fsdp')
    """
    fitting = [axis for axis, size in enumerate(shape) if size % num_shards == 0]
    if num_shards == 1 or len(shape) < 2 or not fitting:
        return PartitionSpec()
    longest = max(fitting, key=lambda axis: (shape[axis], axis))
    return PartitionSpec(*(None,) * longest, "fsdp")


def check_games(num_games: int, mesh: Mesh) -> None:
    """Raises ValueError if the games cannot be spread evenly over the devices."""
    if num_games % mesh.size:
        raise ValueError(
            f"{num_games} games do not divide over {mesh.size} devices: change "
            "num_envs or num_devices"
        )


def check_members(num_members: int, mesh: Mesh) -> None:
    """Raises ValueError if a population cannot be spread evenly over the devices."""
    if num_members % mesh.size:
        raise ValueError(
            f"a population of {num_members} does not divide over {mesh.size} devices: "
            "change population_size or num_devices"
        )


def members_on(mesh: Mesh | None, tree: Tree) -> Tree:
    """Returns members `[members, ...]` spread over all devices of a mesh."""
    if mesh is None:
        return tree
    spread = NamedSharding(mesh, PartitionSpec(AXES))
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, spread), tree)


def games_on(mesh: Mesh | None, tree: Tree) -> Tree:
    """Returns games `[opponents, games, ...]` spread over all devices of a mesh.

    Works inside and outside of compiled functions; without a mesh nothing changes.
    """
    if mesh is None:
        return tree
    spread = NamedSharding(mesh, PartitionSpec(None, AXES))
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, spread), tree)


def learners_on(mesh: Mesh | None, tree: Tree) -> Tree:
    """Returns training states with large parameters divided over the axis "fsdp".

    Everything else has a full copy on each device, so gradients are summed over all.
    """
    if mesh is None:
        return tree
    return jax.tree.map(
        jax.lax.with_sharding_constraint, tree, fsdp_sharding(tree, mesh)
    )
