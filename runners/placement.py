"""Where the state of an experiment lies on a mesh of devices."""

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from runners.sharding import AXES, fsdp_sharding


def check_games(num_games: int, mesh: Mesh) -> None:
    """Raises ValueError if the games cannot be spread evenly over the devices."""
    if num_games % mesh.size:
        raise ValueError(
            f"{num_games} games do not divide over {mesh.size} devices: change "
            "num_envs or num_devices"
        )


def games_on(mesh: Mesh | None, tree: Any) -> Any:
    """Returns games `[opponents, games, ...]` spread over all devices of a mesh.

    Works inside and outside of compiled functions; without a mesh nothing changes.
    """
    if mesh is None:
        return tree
    spread = NamedSharding(mesh, PartitionSpec(None, AXES))
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, spread), tree)


def learners_on(mesh: Mesh | None, tree: Any) -> Any:
    """Returns training states with large parameters divided over the axis "fsdp".

    Everything else has a full copy on each device, so gradients are summed over all.
    """
    if mesh is None:
        return tree
    return jax.tree.map(
        jax.lax.with_sharding_constraint, tree, fsdp_sharding(tree, mesh)
    )
