"""One iteration as named numbers."""

from typing import Any

import jax
import jax.numpy as jnp

from paxenv.environment import Environment
from paxenv_agents.episodes import means, summed
from paxenv_agents.lineup import Slot
from paxenv_agents.play import Trial
from paxenv_agents.stream import Rollout
from paxenv_agents.types import Stats, TrainingState

Row = dict[str, jax.Array]

#: 1 where no loss and no parameter of any agent is NaN or infinite, else 0.
FINITE = "health/finite"


def make_row(
    env: Environment,
    slots: tuple[Slot, ...],
    play: Trial | Rollout,
    outer_stats: tuple[Stats, ...],
    agents: tuple[TrainingState, ...],
) -> Row:
    """Returns the metrics of one iteration, float32 scalars by name.

    Args:
        env: The game.
        slots: Who played.
        play: What was played, with a leading axis `[opponents]`.
        outer_stats: For each slot what its update on the trial clock reported.
        agents: The training states after the updates.
    """
    row: dict[str, Any] = means(summed(play.episodes))
    totals = jax.tree.map(lambda x: x.sum(0), play.totals)
    named = env.metrics_final(env.metrics_init().replace(totals=totals))
    row |= {f"env/{name}": value for name, value in named.items()}
    losses: list[jax.Array] = []
    for slot, experience, inner, outer in zip(
        slots, play.experiences, play.stats, outer_stats, strict=True
    ):
        report = {k: jnp.mean(v) for k, v in inner.items()} | outer
        losses += [x for name, x in report.items() if name.startswith("loss/")]
        seat = f"player_{min(slot.players) + 1}"
        row |= {f"train/{seat}/{name}": value for name, value in report.items()}
        if experience is not None:
            row |= {f"rollout/{k}/{seat}": x for k, x in _steps(experience).items()}
    row[FINITE] = finite((losses, [agent.params for agent in agents]))
    return {k: jnp.asarray(v, jnp.float32) for k, v in sorted(row.items())}


def finite(tree: Any) -> jax.Array:
    """Returns whether no float of a pytree is NaN or infinite, as a bool scalar."""
    leaves = [
        jnp.all(jnp.isfinite(x))
        for x in jax.tree.leaves(tree)
        if jnp.issubdtype(jnp.asarray(x).dtype, jnp.inexact)
    ]
    return jnp.all(jnp.stack(leaves)) if leaves else jnp.ones((), bool)


def _steps(experience: Any) -> Stats:
    """Returns means over the valid steps of a learner's experience."""
    sample = experience.sample
    count = jnp.maximum(sample.valid.sum(), 1)
    return {
        "reward": sample.rewards.sum() / count,
        "value": jnp.where(sample.valid, sample.behavior_values, 0.0).sum() / count,
    }
