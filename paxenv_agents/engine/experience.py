"""Experience of a slot: one player's record of a step, joined over its seats."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Num, PyTree

from paxenv_agents.engine.game_batch import GameBatch
from paxenv_agents.engine.lineup import Lineup
from paxenv_agents.types import MemoryState, Sample, TrainingState


class Steps(NamedTuple):
    """What the scan over one inner episode stores: `[T, games, ...]`.

    Attributes:
        players: For each role of a learning slot its part of a `Sample`, else None.
        terminated: How the inner episode ended at this step.
        truncated: The same, by time.
        valid: Whether the step was played.
    """

    players: tuple[Any, ...]
    terminated: jax.Array
    truncated: jax.Array
    valid: jax.Array


class Experience(NamedTuple):
    """Experience of one slot: a sample, and the observations and memories after it.

    Attributes:
        sample: `[T, E, ...]`.
        last_obs: The seats' observations after the sample, `[E, ...]`.
        memory: The seats' memory after the sample, `[E, ...]`.
    """

    sample: Sample
    last_obs: Any
    memory: MemoryState


def record(
    lineup: Lineup,
    params: PyTree,
    role: int,
    obs: PyTree,
    acted: tuple[Num[Array, "games ..."], MemoryState],
    reward: Float[Array, " games"],
    before: MemoryState,
    next_obs: tuple[PyTree, ...],
) -> dict[str, Any] | None:
    """Returns one role's part of a sample, None if its slot does not learn.

    Args:
        lineup: Who plays.
        params: The game's numbers.
        role: The role.
        obs: The observation of its slot before it acted.
        acted: Its (action, memory after it).
        reward: Its reward.
        before: Its memory before it acted.
        next_obs: What the step led to, for all players, as the game shows it.
    """
    index, player = lineup.roles[role]
    slot = lineup.slots[index]
    if not slot.learns:
        return None
    action, memory = acted
    return {
        "observations": obs,
        "actions": action,
        "rewards": reward,
        "behavior_log_probs": memory.extras["log_probs"],
        "behavior_values": memory.extras["values"],
        "hiddens": before.hidden,
        "final_obs": (
            lineup.observed(role, next_obs[player], params)
            if slot.agent.stores_final_obs
            else None
        ),
    }


def gather(
    lineup: Lineup,
    index: int,
    params: PyTree,
    state: TrainingState,
    batch: GameBatch,
    steps: Steps,
    is_last: Bool[Array, ""],
) -> Experience | None:
    """Builds a slot's experience of one inner episode on the slot's own clock."""
    slot = lineup.slots[index]
    if not slot.learns:
        return None
    ends_here = True if lineup.clock(index) == "inner" else is_last
    truncated = steps.truncated & ends_here

    def final_values(role: int) -> jax.Array:
        seen = lineup.observed(role, batch.obs[lineup.roles[role][1]], params)
        value = slot.agent.batch_value(state, seen, batch.memories[role])
        return jnp.where(truncated, value, 0.0)

    records = [
        {**steps.players[c], "final_values": final_values(c)}
        for c in lineup.roles_of(index)
    ]
    if batch.acting is not None:
        for role, own in zip(lineup.roles_of(index), records, strict=True):
            own["valid"] = steps.valid & batch.acting[:, role]
            own["rewards"] = jnp.where(own["valid"], own["rewards"], 0)
    clock = {
        "dones": steps.terminated & ends_here,
        "truncations": truncated,
        "valid": steps.valid,
        "inner_ends": steps.terminated | steps.truncated,
    }
    return assemble(lineup, index, params, batch, records, clock)


def assemble(
    lineup: Lineup,
    index: int,
    params: PyTree,
    batch: GameBatch,
    records: list[dict[str, Any]],
    clock: dict[str, Bool[Array, "T games"]],
) -> Experience:
    """Joins the seats of a slot into its experience.

    Args:
        lineup: Who plays.
        index: The slot.
        params: The game's numbers.
        batch: The games after the steps.
        records: For each role the fields of `Sample` that are its own, `[T, games]`.
        clock: The fields that its roles share.
    """
    slot = lineup.slots[index]
    samples = []
    for own in records:
        if slot.agent.stores_hiddens == "first":
            own = {**own, "hiddens": own["hiddens"][:1]}
        samples.append(Sample(**{**clock, **own}))
    roles = lineup.roles_of(index)
    seen = [lineup.observed(c, batch.obs[lineup.roles[c][1]], params) for c in roles]
    return Experience(
        sample=_join(samples, axis=1),
        last_obs=_join(seen, axis=0),
        memory=_join([batch.memories[c] for c in roles], axis=0),
    )


def whole_trial(stacked: Experience | None) -> Experience | None:
    """Joins K inner episodes into one sequence: [K, T, E, ...] -> [K * T, E, ...]."""
    if stacked is None:
        return None
    sample = jax.tree.map(
        lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), stacked.sample
    )
    last = jax.tree.map(lambda x: x[-1], (stacked.last_obs, stacked.memory))
    return Experience(sample, *last)


def _join(parts: list[Any], axis: int) -> Any:
    """Joins the seats of a slot along the axis of games, seats slower."""
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *xs: jnp.concatenate(xs, axis), *parts)
