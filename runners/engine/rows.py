"""The metrics of one iteration by name."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, PyTree

from paxenv.environment import Environment
from paxenv_agents.engine.episodes import Episodes, means, summed
from paxenv_agents.engine.experience import Experience
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.engine.play import Trial
from paxenv_agents.engine.stream import Rollout
from paxenv_agents.types import Stats, TrainingState
from runners.engine.population import Generation

Row = dict[str, jax.Array]

#: Rewards per step by inner episode, `[opponents, inner episodes, players]`.
CURVES = "episode/curves"
#: 1 where no loss and no parameter of any agent is NaN or infinite, else 0.
FINITE = "health/finite"
#: Player 1's return at each step that ended an inner episode, NaN at all others.
RETURNS = "episode/returns"
#: The last episodes that ended, in order, `[WINDOW, players + 1]`: their returns and
#: their length; NaN in front where fewer ended.
LATEST = "episode/latest"
WINDOW = 100
#: Prefix of the number of a leaf of the game's summed counts.
TOTALS = "totals/"
#: Entries of a row that other modules read; they are not metrics.
NOT_LOGGED = (RETURNS, LATEST, CURVES)


def rollout_row(
    env: Environment,
    slots: tuple[Slot, ...],
    play: Trial | Rollout | Generation,
    *,
    returns: bool = False,
    parts: bool = False,
    curves: bool = False,
) -> Row:
    """Returns the metrics of a rollout, float32 scalars by name.

    Args:
        env: The game.
        slots: The slots that played.
        play: Their play, with a leading axis `[opponents]`.
        returns: Whether the returns of the episodes of a stream are added: `RETURNS`.
        parts: Whether the arrays are added from which several rows are joined:
            `LATEST`, and the counts of the game, `TOTALS`.
        curves: Whether the rewards of a trial by inner episode are added: `CURVES`.
    """
    row: dict[str, Any] = means(summed(play.episodes))
    if isinstance(play, Trial) and env.num_outer_steps > 1:
        row |= last_inner_episode(play.episodes)
    totals = jax.tree.map(lambda x: x.sum(0), play.totals)
    named = env.metrics_final(env.metrics_init().replace(totals=totals))
    row |= {f"env/{name}": value for name, value in named.items()}
    for slot, experience, inner in zip(
        slots, play.experiences, play.stats, strict=True
    ):
        row |= _of_slot("train", slot, {k: jnp.mean(v) for k, v in inner.items()})
        if experience is not None:
            row |= _of_slot("rollout", slot, _steps(experience), last=True)
    if parts:
        row |= {f"{TOTALS}{i}": x for i, x in enumerate(jax.tree.leaves(totals))}
        if isinstance(play, Trial | Rollout):
            row[LATEST] = latest_episodes(play)
    if returns and isinstance(play, Rollout):
        row[RETURNS] = jnp.where(play.lengths > 0, play.returns[..., 0], jnp.nan)
    if curves and isinstance(play, Trial):
        row[CURVES] = by_inner_episode(play.episodes)
    return _float32(row)


def update_row(
    slots: tuple[Slot, ...],
    stats: tuple[Stats, ...],
    agents: tuple[TrainingState, ...],
) -> Row:
    """Returns the metrics of the updates on the trial clock, float32 scalars by name.

    Args:
        slots: The slots of the lineup.
        stats: For each slot the report of its update.
        agents: The training states after the updates.
    """
    row: dict[str, Any] = {}
    for slot, report in zip(slots, stats, strict=True):
        row |= _of_slot("train", slot, report)
    losses = [
        jnp.where(report.get("gradient_steps", 1) > 0, x, 0.0)
        for report in stats
        for name, x in report.items()
        if name.startswith("loss/")
    ]
    row[FINITE] = finite((losses, [agent.params for agent in agents]))
    return _float32(row)


def is_metric(name: str) -> bool:
    """Returns whether an entry of a row is a metric, not an array for joining rows."""
    return name not in NOT_LOGGED and not name.startswith(TOTALS)


def finite(tree: PyTree) -> Bool[Array, ""]:
    """Returns whether no float of a pytree is NaN or infinite, as a bool scalar."""
    leaves = [
        jnp.all(jnp.isfinite(x))
        for x in jax.tree.leaves(tree)
        if jnp.issubdtype(jnp.asarray(x).dtype, jnp.inexact)
    ]
    return jnp.all(jnp.stack(leaves)) if leaves else jnp.ones((), bool)


def by_inner_episode(episodes: Episodes) -> Float32[Array, "... K players"]:
    """Returns rewards per step, float32 `[..., K, players]`.

    Args:
        episodes: Leaves `[..., K, games]`, returns `[..., K, games, players]`; games
            count by their steps.
    """
    steps = jnp.maximum(episodes.length.sum(-1), 1)
    return (episodes.returns.sum(-2) / steps[..., None]).astype(jnp.float32)


def last_inner_episode(episodes: Episodes) -> dict[str, Float32[Array, ""]]:
    """Returns every player's reward per step in the last inner episode, by name."""
    curves = by_inner_episode(episodes)
    last = curves[..., -1, :].reshape(-1, curves.shape[-1]).mean(0)
    return {
        f"episode/reward_per_step_last/player_{p + 1}": last[p]
        for p in range(last.shape[0])
    }


def latest_episodes(play: Trial | Rollout) -> Float[Array, f"{WINDOW} columns"]:
    """Returns the last episodes that ended, `[WINDOW, players + 1]`."""
    if isinstance(play, Rollout):
        # [opponents, T, games, ...], by time first.
        returns, lengths = play.returns, play.lengths
        ended = lengths > 0
    else:
        # [opponents, inner episodes, games, ...], by inner episode first.
        returns, lengths = play.episodes.returns, play.episodes.length
        ended = play.episodes.count > 0
    every = jnp.concatenate([returns, lengths[..., None]], -1)
    every = jnp.moveaxis(every, 1, 0).reshape(-1, every.shape[-1])
    count = jnp.cumsum(jnp.moveaxis(ended, 1, 0).reshape(-1))
    wanted = count[-1] - WINDOW + 1 + jnp.arange(WINDOW)
    found = every[jnp.searchsorted(count, wanted)]
    return jnp.where((wanted > 0)[:, None], found, jnp.nan)


def _of_slot(group: str, slot: Slot, named: Stats, *, last: bool = False) -> Stats:
    """Returns `group/player_i/name`, or `group/name/player_i` with `last`."""
    seat = f"player_{min(slot.players) + 1}"
    return {
        f"{group}/{name}/{seat}" if last else f"{group}/{seat}/{name}": x
        for name, x in named.items()
    }


def _float32(row: dict[str, Any]) -> Row:
    return {k: jnp.asarray(v, jnp.float32) for k, v in sorted(row.items())}


def _steps(experience: Experience) -> Stats:
    """Returns means over the valid steps of a learner's experience."""
    sample = experience.sample
    count = jnp.maximum(sample.valid.sum(), 1)
    return {
        "reward": sample.rewards.sum() / count,
        "value": jnp.where(sample.valid, sample.behavior_values, 0.0).sum() / count,
    }
