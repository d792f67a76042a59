"""What a slot learns from: one player's record of a step, joined over its seats."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from paxenv_agents.engine.lineup import Lineup
from paxenv_agents.engine.table import Table
from paxenv_agents.types import MemoryState, Sample, TrainingState


class Steps(NamedTuple):
    """What the scan over one inner episode stores: `[T, games, ...]`.

    Attributes:
        players: For each chair of a learning slot its part of a `Sample`, else None.
        terminated: How the inner episode ended at this step.
        truncated: The same, by time.
        valid: Whether the step was played.
    """

    players: tuple[Any, ...]
    terminated: jax.Array
    truncated: jax.Array
    valid: jax.Array


class Experience(NamedTuple):
    """What one slot learns from: a sample and what comes after it.

    Attributes:
        sample: `[T, E, ...]`.
        last_obs: What the seats see after the sample, `[E, ...]`.
        memory: The seats' memory after the sample, `[E, ...]`.
    """

    sample: Sample
    last_obs: Any
    memory: MemoryState


def record(
    lineup: Lineup,
    params: Any,
    chair: int,
    obs: Any,
    acted: tuple[jax.Array, MemoryState],
    reward: jax.Array,
    before: MemoryState,
    next_obs: tuple[Any, ...],
) -> Any:
    """Returns one chair's part of a sample, None if its slot does not learn.

    Args:
        lineup: Who plays.
        params: The game's numbers.
        chair: Whose part.
        obs: What its slot saw before it acted.
        acted: Its (action, memory after it).
        reward: What it was paid.
        before: Its memory before it acted.
        next_obs: What the step led to, for all players, as the game shows it.
    """
    index, player = lineup.chairs[chair]
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
            lineup.observed(chair, next_obs[player], params)
            if slot.agent.stores_final_obs
            else None
        ),
    }


def gather(
    lineup: Lineup,
    index: int,
    params: Any,
    state: TrainingState,
    table: Table,
    steps: Steps,
    is_last: jax.Array,
) -> Experience | None:
    """Builds a slot's experience of one inner episode on the slot's own clock."""
    slot = lineup.slots[index]
    if not slot.learns:
        return None
    ends_here = True if lineup.clock(index) == "inner" else is_last
    truncated = steps.truncated & ends_here

    def final_values(chair: int) -> jax.Array:
        seen = lineup.observed(chair, table.obs[lineup.chairs[chair][1]], params)
        value = slot.agent.batch_value(state, seen, table.memories[chair])
        return jnp.where(truncated, value, 0.0)

    records = [
        {**steps.players[c], "final_values": final_values(c)}
        for c in lineup.chairs_of(index)
    ]
    if table.acting is not None:
        for chair, own in zip(lineup.chairs_of(index), records, strict=True):
            own["valid"] = steps.valid & table.acting[:, chair]
            own["rewards"] = jnp.where(own["valid"], own["rewards"], 0)
    clock = {
        "dones": steps.terminated & ends_here,
        "truncations": truncated,
        "valid": steps.valid,
        "inner_ends": steps.terminated | steps.truncated,
    }
    return assemble(lineup, index, params, table, records, clock)


def assemble(
    lineup: Lineup,
    index: int,
    params: Any,
    table: Table,
    records: list[dict[str, Any]],
    clock: dict[str, jax.Array],
) -> Experience:
    """Joins the seats of a slot into what it learns from.

    Args:
        lineup: Who plays.
        index: The slot.
        params: The game's numbers.
        table: The games after the steps.
        records: For each chair the fields of `Sample` that are its own, `[T, games]`.
        clock: The fields that its chairs share.
    """
    slot = lineup.slots[index]
    samples = []
    for own in records:
        if slot.agent.stores_hiddens == "first":
            own = {**own, "hiddens": own["hiddens"][:1]}
        samples.append(Sample(**{**clock, **own}))
    chairs = lineup.chairs_of(index)
    seen = [lineup.observed(c, table.obs[lineup.chairs[c][1]], params) for c in chairs]
    return Experience(
        sample=_join(samples, axis=1),
        last_obs=_join(seen, axis=0),
        memory=_join([table.memories[c] for c in chairs], axis=0),
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
