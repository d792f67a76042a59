"""What a slot learns from: one player's record of a step, joined over its seats."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from paxenv_agents.lineup import Lineup
from paxenv_agents.table import Table
from paxenv_agents.types import MemoryState, Sample, TrainingState


class Steps(NamedTuple):
    """What the scan over one inner episode stores: `[T, games, ...]`.

    Attributes:
        players: For each player of a learning slot its part of a `Sample`, else None.
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
    player: int,
    obs: Any,
    acted: tuple[jax.Array, MemoryState],
    reward: jax.Array,
    before: MemoryState,
    next_obs: tuple[Any, ...],
) -> Any:
    """Returns one player's part of a sample, None if its slot does not learn."""
    slot = lineup.slots[lineup.seat(player)]
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
        "final_obs": next_obs[player] if slot.agent.stores_final_obs else None,
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
    terminated, truncated = steps.terminated & ends_here, steps.truncated & ends_here
    samples, last_obs, memories = [], [], []
    for p in slot.players:
        seen = lineup.observed(p, table.obs[p], params)
        value = slot.agent.batch_value(state, seen, table.memories[p])
        record = dict(steps.players[p])
        if slot.agent.stores_hiddens == "first":
            record["hiddens"] = record["hiddens"][:1]
        samples.append(
            Sample(
                dones=terminated,
                truncations=truncated,
                final_values=jnp.where(truncated, value, 0.0),
                valid=steps.valid,
                inner_ends=steps.terminated | steps.truncated,
                **record,
            )
        )
        last_obs.append(seen)
        memories.append(table.memories[p])
    return Experience(
        sample=_join(samples, axis=1),
        last_obs=_join(last_obs, axis=0),
        memory=_join(memories, axis=0),
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
