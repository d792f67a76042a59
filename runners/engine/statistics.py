"""Statistics over seeds: means and 95 % confidence intervals."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Real
from scipy import special


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        mean: Mean of the values that exist, NaN if there is none.
        half_width: Half the width of the 95 % confidence interval of the mean, by
            Student's t; None with fewer than two values.
        count: The number of seeds that have a value.
        values: One value for each seed, NaN where it has none.
    """

    mean: float
    half_width: float | None
    count: int
    values: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data with None for missing numbers."""
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


def estimate(values: Sequence[int | float] | Real[np.ndarray, " seeds"]) -> Estimate:
    """Returns the mean over seeds and its interval; NaN means a seed has no value."""
    every = np.asarray(values, np.float64).reshape(-1)
    known = every[np.isfinite(every)]
    count = known.size
    mean = float(known.mean()) if count else math.nan
    half_width = float(_half_width(known)) if count > 1 else None
    return Estimate(mean, half_width, count, tuple(every.tolist()))


def estimates(
    metrics: Mapping[str, Real[np.ndarray, " seeds"]],
) -> dict[str, Estimate]:
    """Returns an estimate for each metric, given values `[seeds]`."""
    return {name: estimate(values) for name, values in metrics.items()}


def confidence_band(
    values: Float[np.ndarray, " seeds *points"],
) -> tuple[Float[np.ndarray, "*points"], Float[np.ndarray, "*points"]]:
    """Returns means and half-widths over seeds of values `[seeds, points]`.

    Half the width of the 95 % confidence interval of the mean, by Student's t; zero
    for one seed, of which no interval is known.
    """
    seeds = values.shape[0]
    mean = values.mean(axis=0)
    if seeds == 1:
        return mean, np.zeros_like(mean)
    return mean, _half_width(values)


def _half_width(values: np.ndarray) -> np.ndarray:
    """Returns half the width of the interval of the mean over the first axis."""
    count = values.shape[0]
    half = t_quantile(count - 1) * values.std(axis=0, ddof=1) / np.sqrt(count)
    return np.asarray(half)


def t_quantile(degrees: int) -> float:
    """Returns the 97.5 % quantile of Student's t."""
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be >= 1, got {degrees}")
    return float(special.stdtrit(degrees, 0.975))


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


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


def robust(
    values: Estimate | Sequence[int | float] | Real[np.ndarray, " seeds"],
) -> RobustEstimate | None:
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


def interquartile_mean(
    values: Float[np.ndarray, "..."], axis: int = -1
) -> Float[np.ndarray, "..."] | np.floating:
    """Returns the mean of the middle half: a quarter is left out at each end."""
    # A second of start-up that most runs do not need.
    from scipy import stats

    return stats.trim_mean(values, 0.25, axis=axis)


def curves_as_dict(
    curves: Float[np.ndarray, "seeds opponents K players"],
) -> dict[str, Any]:
    """Returns rewards by inner episode as plain data by player: means, intervals and
    quartiles.

    The mean and its 95 % interval are those of `repetitions`; quartiles are over all
    seeds and opponents.

    Args:
        curves: `[seeds, opponents, K, players]`.
    """
    every = curves.reshape(-1, *curves.shape[2:])
    every = every[np.isfinite(every).all(axis=(1, 2))]
    values, _ = repetitions(curves)
    if not len(values):
        return {f"player_{p + 1}": None for p in range(curves.shape[-1])}
    mean, half = confidence_band(values)
    quartiles = np.percentile(every, [25, 75], axis=0)
    bounds = None if len(values) == 1 else np.stack([mean - half, mean + half])
    return {
        f"player_{p + 1}": {
            "mean": mean[:, p].tolist(),
            "ci95": None if bounds is None else bounds[..., p].tolist(),
            "quartiles": quartiles[..., p].tolist(),
        }
        for p in range(curves.shape[-1])
    }


def repetitions(
    curves: Float[np.ndarray, "seeds opponents K players"],
) -> tuple[Float[np.ndarray, "n K players"], str]:
    """Returns (independent repetitions `[n, K, players]`, their kind in words).

    Several seeds are repetitions, each the mean over its opponents; with one seed, its
    opponents are. Repetitions with a value that is not finite are left out.

    Args:
        curves: `[seeds, opponents, K, players]`.
    """
    seeds = curves.shape[0]
    values = curves.mean(axis=1) if seeds > 1 else curves[0]
    values = values[np.isfinite(values).all(axis=(1, 2))]
    return values, "seed" if seeds > 1 else "opponent"


class EvalMetrics(NamedTuple):
    """The results of an evaluation, float scalars; NaN if a NaN decided an action.

    Attributes:
        mean_return: Mean over episodes of the sum of rewards.
        std_return: Standard deviation of these sums over the episodes played.
        mean_length: Mean number of steps.
    """

    mean_return: Float[Array, ""]
    std_return: Float[Array, ""]
    mean_length: Float[Array, ""]


class EpisodeStats(NamedTuple):
    """Episodes one by one; every leaf is `[episodes]`.

    Attributes:
        returns: Sum of rewards, NaN where a NaN decided an action.
        lengths: Steps played, int32.
        truncated: Whether the game's time limit ended it.
        unfinished: Whether it had not ended after `max_steps`.
        broken: Whether a NaN was found in the agent's state, memory or actions.
    """

    returns: Float[Array, " episodes"]
    lengths: Int[Array, " episodes"]
    truncated: Bool[Array, " episodes"]
    unfinished: Bool[Array, " episodes"]
    broken: Bool[Array, " episodes"]


def summarise(stats: EpisodeStats) -> dict[str, Float[Array, ""] | Int[Array, ""]]:
    """Returns statistics of episodes by the names that logs use; scalars.

    `eval/truncated_fraction` is the share that ended by the game's time limit or by
    `max_steps`. All but the number of episodes are NaN if an episode is broken.
    """
    returns = stats.returns
    low, high = returns.min(), returns.max()
    # The rounding of a mean must not carry it out of its range.
    mean = jnp.clip(returns.mean(), low, high)
    cut = (stats.truncated | stats.unfinished).astype(returns.dtype)
    unless_broken = jnp.where(stats.broken.any(), jnp.nan, jnp.zeros((), returns.dtype))
    return {
        "eval/mean_reward": mean,
        "eval/std_reward": returns.std(),
        "eval/min_reward": low,
        "eval/max_reward": high,
        "eval/mean_length": stats.lengths.astype(returns.dtype).mean() + unless_broken,
        "eval/n_episodes": jnp.asarray(returns.shape[0], jnp.int32),
        "eval/truncated_fraction": cut.mean() + unless_broken,
        "mean_eval_reward": mean,
    }
