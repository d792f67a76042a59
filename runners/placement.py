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


def check_members(num_members: int, mesh: Mesh) -> None:
    """Raises ValueError if a population cannot be spread evenly over the devices."""
    if num_members % mesh.size:
        raise ValueError(
            f"a population of {num_members} does not divide over {mesh.size} devices: "
            "change population_size or num_devices"
        )


def members_on(mesh: Mesh | None, tree: Any) -> Any:
    """Returns members `[members, ...]` spread over all devices of a mesh."""
    if mesh is None:
        return tree
    spread = NamedSharding(mesh, PartitionSpec(AXES))
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, spread), tree)


def games_on(mesh: Mesh | None, tree: Any) -> Any:
    """Returns games `[opponents, games, ...]` spread over all devices of a mesh.

    Works inside and outside of compiled functions; without a mesh nothing changes.
    """
    if mesh is None:
        return tree
    spread = NamedSharding(mesh, PartitionSpec(None, AXES))
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, spread), tree)


def of_state(mesh: Mesh, state: Any) -> Any:
    """Returns the sharding of every leaf of a `RunState` of all seeds.

    Games `[seeds, opponents, games, ...]` are spread, large parameters divided, and
    everything else lies on every device.
    """
    whole = NamedSharding(mesh, PartitionSpec())
    spread = NamedSharding(mesh, PartitionSpec(None, None, AXES))

    def of_learner(leaf: Any) -> NamedSharding:
        one_seed = jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)
        spec = fsdp_sharding(one_seed, mesh).spec
        return NamedSharding(mesh, PartitionSpec(None, *spec)) if spec else whole

    placed = jax.tree.map(lambda _: whole, state)
    agents = jax.tree.map(of_learner, state.outer.agents)
    return placed.replace(
        outer=placed.outer.replace(agents=agents),
        stream=jax.tree.map(lambda _: spread, state.stream),
    )


def learners_on(mesh: Mesh | None, tree: Any) -> Any:
    """Returns training states with large parameters divided over the axis "fsdp".

    Everything else has a full copy on each device, so gradients are summed over all.
    """
    if mesh is None:
        return tree
    return jax.tree.map(
        jax.lax.with_sharding_constraint, tree, fsdp_sharding(tree, mesh)
    )
