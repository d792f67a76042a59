"""What an evolution found, all of it in one unit, and which of it to use."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from runners.outcome import Outcome
from runners.run_dir import RunDir
from runners.summary import Estimate, estimate
from runners.training import BEST_METRIC


class Finding(NamedTuple):
    """One result of a search.

    Attributes:
        player: Whose search, from 1.
        name: What it is.
        reward: Reward per step of that player.
        weights: Where they are, in the run directory.
        recommended: Whether it is the one to use.
    """

    player: int
    name: str
    reward: Estimate
    weights: str
    recommended: bool


def findings(
    outcome: Outcome, run: RunDir, rows: Sequence[Mapping[str, Any]]
) -> list[Finding]:
    """Returns the results of every search: three for each.

    The mean of a search and its best member have been played on the same keys, by which
    neither was chosen, so the better one is recommended, the mean where they are equal.
    The best evaluation on the way was the highest of several, and is never it.

    Args:
        outcome: What the evolution came to.
        run: Its directory.
        rows: The rows of its evaluations, as `jsonl.read_rows` returns them.
    """
    found = []
    for best in outcome.best_members:
        name = f"episode/reward_per_step/player_{best.player}"
        better = best.player in outcome.better_members
        found += [
            Finding(
                best.player,
                "mean of the search",
                outcome.evaluation[name],
                _in(run, run.model(best.player)),
                not better,
            ),
            Finding(
                best.player,
                "best member, played again",
                best.metrics[name],
                _in(run, run.best_model(best.player)),
                better,
            ),
        ]
        on_the_way = _best_on_the_way(outcome, rows, name)
        if on_the_way is not None:
            title = "mean in its best evaluation on the way"
            found.append(
                Finding(best.player, title, on_the_way, "checkpoints/best", False)
            )
    return found


def _best_on_the_way(
    outcome: Outcome, rows: Sequence[Mapping[str, Any]], name: str
) -> Estimate | None:
    """Returns a metric in the evaluation whose checkpoint is the best one."""
    prefix = f"eval/{outcome.mode}/"
    # The last evaluation of a run is of its end.
    before = rows[: -outcome.plan.config.num_seeds]
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for row in before:
        groups.setdefault(row["env_steps"], []).append(row)
    scores = {
        steps: float(np.mean([row.get(prefix + BEST_METRIC, np.nan) for row in group]))
        for steps, group in groups.items()
    }
    known = {steps: score for steps, score in scores.items() if np.isfinite(score)}
    if not known:
        return None
    group = groups[max(known, key=known.__getitem__)]
    return estimate([row.get(prefix + name, np.nan) for row in group])


def _in(run: RunDir, path: Any) -> str:
    return path.relative_to(run.path).as_posix()
