"""What several seeds say together: means and 95 % confidence intervals."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        mean: Mean of the values that exist, NaN if there is none.
        half_width: Half the width of the 95 % confidence interval of the mean, by
            Student's t; None with fewer than two values.
        count: How many seeds have a value.
        values: One value for each seed, NaN where it has none.
    """

    mean: float
    half_width: float | None
    count: int
    values: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data with None for what does not exist."""
        low, high = self.interval or (None, None)
        return {
            "mean": _or_none(self.mean),
            "ci95": None if low is None else [low, high],
            "count": self.count,
            "per_seed": [_or_none(value) for value in self.values],
        }

    @property
    def interval(self) -> tuple[float, float] | None:
        """The bounds of the confidence interval."""
        if self.half_width is None:
            return None
        return self.mean - self.half_width, self.mean + self.half_width


def estimate(values: Sequence[float] | np.ndarray) -> Estimate:
    """Returns the mean over seeds and its interval; NaN means a seed has no value."""
    every = np.asarray(values, np.float64).reshape(-1)
    known = every[np.isfinite(every)]
    count = known.size
    mean = float(known.mean()) if count else math.nan
    half_width = None
    if count > 1:
        half_width = float(t_quantile(count - 1) * known.std(ddof=1) / math.sqrt(count))
    return Estimate(mean, half_width, count, tuple(every.tolist()))


def estimates(metrics: Mapping[str, np.ndarray]) -> dict[str, Estimate]:
    """Returns an estimate for each metric, given values `[seeds]`."""
    return {name: estimate(values) for name, values in metrics.items()}


def confidence_band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns means and half-widths over seeds of values `[seeds, points]`.

    Half the width of the 95 % confidence interval of the mean, by Student's t; zero
    for one seed, of which no interval is known.
    """
    seeds = values.shape[0]
    mean = values.mean(axis=0)
    if seeds == 1:
        return mean, np.zeros_like(mean)
    half = t_quantile(seeds - 1) * values.std(axis=0, ddof=1) / np.sqrt(seeds)
    return mean, half


def t_quantile(degrees: int) -> float:
    """Returns the 97.5 % quantile of Student's t."""
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be >= 1, got {degrees}")
    return float(special.stdtrit(degrees, 0.975))


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
