"""What takes the metrics of a run, and what all of them agree on.

A metric is a number with a name of the form `group/quantity`. A sink is a place for
metrics: a file of JSON lines, TensorBoard, Weights & Biases.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from runners.engine.metric_names import (
    EPISODE_COUNT,
    GRADIENT_STEPS,
    group,
    is_of_episodes,
)

#: Metrics that TensorBoard and W&B draw over iterations, by group; the others are
#: drawn over environment steps.
ITERATION_GROUPS = frozenset(
    {"env", "reward_components", "stats", "train_vs_iter", "episode_vs_iter"}
)
#: Part of the names of means over the last episodes, whenever they ended.
LAST = "_last_"
#: The group of what evaluations give.
EVALUATION_GROUP = "eval"


class Position(NamedTuple):
    """How far a run has come.

    Attributes:
        iteration: Iterations that are done.
        env_steps: Environment steps that one seed has taken.
        evaluations: Evaluations that had been logged at this very iteration; None: all
            that are there.
    """

    iteration: int
    env_steps: int
    evaluations: int | None = None


#: Where a run begins.
START = Position(0, 0)


class Sink(Protocol):
    """Where metrics go.

    What was logged before `flush` returns is kept if the process is killed: flush
    before a checkpoint is saved, so that a resumed run has no gap.
    """

    def log(self, env_steps: int, iteration: int, metrics: Mapping[str, float]) -> None:
        """Takes metrics.

        Args:
            env_steps: Environment steps that one seed has taken.
            iteration: Iterations that are done.
            metrics: Numbers by name; NaN and infinity are shown as such.
        """
        ...

    def flush(self) -> None:
        """Hands over everything logged so far."""
        ...

    def close(self) -> None:
        """Flushes and ends."""
        ...


def is_surplus(number: int, position: Position) -> bool:
    """Whether an evaluation, from 1, at the iteration of a position came after it."""
    return position.evaluations is not None and number > position.evaluations


def step_of(name: str, env_steps: int, iteration: int) -> int:
    """Returns where on its x axis a metric stands."""
    return iteration if group(name) in ITERATION_GROUPS else env_steps


def scalar(name: str, value: Any) -> float:
    """Returns a number of any kind as a float.

    Takes Python numbers, NumPy scalars and arrays of one element and none dimension,
    of NumPy or JAX, bfloat16 among them.

    Raises:
        TypeError: If it is not one real number; names the metric.
    """
    if type(value) is float:
        return value
    shape = np.shape(value)
    if shape != ():
        raise TypeError(f"{name} must be one number, got an array of shape {shape}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None


def numbers(metrics: Mapping[str, ArrayLike]) -> dict[str, float]:
    """Returns metrics as floats, without losses where no gradient step was due."""
    named = {name: scalar(name, value) for name, value in metrics.items()}
    idle = [
        name.removesuffix(GRADIENT_STEPS)
        for name, value in named.items()
        if name.endswith(GRADIENT_STEPS) and value == 0
    ]
    if idle:
        named = {
            name: value
            for name, value in named.items()
            if not (math.isnan(value) and name.startswith(tuple(idle)))
        }
    return named


def scalars(metrics: Mapping[str, ArrayLike]) -> dict[str, float]:
    """Returns metrics as floats, without those that nothing stands behind.

    Where no gradient step was due, a learner has no loss to report. Where
    `episode/count` is 0, a mean over episodes does not exist; one over the last
    episodes does as soon as any has ended. Both are left out instead of written as 0 or
    NaN: NaN means that a number went wrong.
    """
    named = numbers(metrics)
    if named.get(EPISODE_COUNT) != 0:
        return named
    return {
        name: value for name, value in named.items() if not _is_missing(name, value)
    }


def _is_missing(name: str, value: float) -> bool:
    """Returns whether nothing stands behind a metric where no episode has ended."""
    return is_of_episodes(name) and (LAST not in name or math.isnan(value))


def mean_over_seeds(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean of every metric over the seeds that have it.

    A seed whose value is NaN or infinite makes the mean so, except in the group `env`:
    there NaN is a state that the seed never visited.

    Args:
        rows: The metrics of each seed, as `scalars` returns them.
    """
    means = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        if group(name) == "env":
            values = [value for value in values if not math.isnan(value)]
        if values:
            means[name] = sum(values) / len(values)
    return means
