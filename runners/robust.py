"""What few seeds say together, with less weight on the odd one out."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from runners.summary import Estimate

#: Fewer values have no quarters to leave out.
MIN_SEEDS = 4
NUM_RESAMPLES = 2000


@dataclasses.dataclass(frozen=True)
class RobustEstimate:
    """An interquartile mean over seeds.

    Attributes:
        mean: Mean of the middle half of the values.
        interval: Its 95 % interval, by bootstrap over seeds.
        failed: Seeds, from 0, that have no value: their agents are not finite.
    """

    mean: float
    interval: tuple[float, float]
    failed: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        return {
            "iqm": self.mean,
            "iqm_ci95": list(self.interval),
            "failed_seeds": list(self.failed),
        }


def robust(values: Estimate | Sequence[float] | np.ndarray) -> RobustEstimate | None:
    """Returns the interquartile mean of values over seeds, None of fewer than four.

    The interval is a percentile bootstrap whose random numbers are always the same.

    Args:
        values: One for each seed; NaN where a seed failed.

    Source: Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical
    Precipice (2021).
    """
    every = np.asarray(
        values.values if isinstance(values, Estimate) else values, np.float64
    )
    known = every[np.isfinite(every)]
    if known.size < MIN_SEEDS:
        return None
    from scipy import stats

    failed = tuple(np.flatnonzero(~np.isfinite(every)).tolist())
    mean = float(interquartile_mean(known))
    if np.ptp(known) == 0:
        return RobustEstimate(mean, (mean, mean), failed)
    found = stats.bootstrap(
        (known,),
        interquartile_mean,
        n_resamples=NUM_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return RobustEstimate(mean, (float(found.low), float(found.high)), failed)


def interquartile_mean(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Returns the mean of the middle half: a quarter is left out at each end."""
    # A second of start-up that most runs do not need.
    from scipy import stats

    return stats.trim_mean(values, 0.25, axis=axis)
