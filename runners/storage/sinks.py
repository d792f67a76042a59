"""Sinks for the metrics of a run, and their common rules.

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
#: Part of the names of means over the last episodes, of any iteration.
LAST = "_last_"
#: The group of the results of evaluations.
EVALUATION_GROUP = "eval"


class Position(NamedTuple):
    """The progress of a run.

    Attributes:
        iteration: Completed iterations.
        env_steps: Environment steps that one seed has taken.
        evaluations: The number of evaluations logged at this iteration; None: all in
            the files.
    """

    iteration: int
    env_steps: int
    evaluations: int | None = None


#: The position at the beginning of a run.
START = Position(0, 0)


class Sink(Protocol):
    """A place for metrics.

    Metrics that are logged before `flush` returns survive a killed process: flush
    before a checkpoint is saved, so that a resumed run has no gap.
    """

    def log(self, env_steps: int, iteration: int, metrics: Mapping[str, float]) -> None:
        """Logs metrics.

        Args:
            env_steps: Environment steps that one seed has taken.
            iteration: Completed iterations.
            metrics: Numbers by name; NaN and infinity are shown as such.
        """
        ...

    def flush(self) -> None:
        """Hands over everything logged so far."""
        ...

    def close(self) -> None:
        """Flushes and closes the sink."""
        ...


def is_surplus(number: int, position: Position) -> bool:
    """Whether the n-th evaluation, from 1, at a position's iteration came after it."""
    return position.evaluations is not None and number > position.evaluations


def step_of(name: str, env_steps: int, iteration: int) -> int:
    """Returns the x coordinate of a metric: environment steps or iterations."""
    return iteration if group(name) in ITERATION_GROUPS else env_steps


def scalar(name: str, value: Any) -> float:
    """Returns a number of any kind as a float.

    Takes Python numbers, NumPy scalars and arrays without dimensions of NumPy or JAX,
    also of bfloat16.

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
    """Returns metrics as floats, without those that have no value.

    Where no gradient step was due, a learner has no loss to report. Where
    `episode/count` is 0, a mean over episodes does not exist; one over the last
    episodes does as soon as any has ended. Both are left out instead of written as 0 or
    NaN: NaN means an error of computation.
    """
    named = numbers(metrics)
    if named.get(EPISODE_COUNT) != 0:
        return named
    return {
        name: value for name, value in named.items() if not _is_missing(name, value)
    }


def _is_missing(name: str, value: float) -> bool:
    """Returns whether a metric has no value if no episode has ended."""
    return is_of_episodes(name) and (LAST not in name or math.isnan(value))


def mean_over_seeds(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean of every metric over the seeds that have it.

    A NaN or an infinity of one seed carries over to the mean, except in the group
    `env`: there NaN stands for a state that the seed never visited.

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
