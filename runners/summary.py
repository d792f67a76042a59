"""What several seeds say together: means and 95 % confidence intervals."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T_TABLE = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
_Z = 1.959964


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


def t_quantile(degrees: int) -> float:
    """Returns the 97.5 % quantile of Student's t.

    A table up to 30 degrees of freedom, then two terms of the expansion in 1/degrees.

    Source: Abramowitz & Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be >= 1, got {degrees}")
    if degrees <= len(_T_TABLE):
        return _T_TABLE[degrees - 1]
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    return _Z + first / degrees + second / degrees**2


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
