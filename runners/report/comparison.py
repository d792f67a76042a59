"""Runs compared in one picture: a curve for each setting, a band over its seeds."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paxenv.registry import closest
from paxenv.wording import counted
from runners.config import ConfigError, experiment_of
from runners.engine.metric_names import words
from runners.report import figures
from runners.report.overview import differing, in_words, settings_of
from runners.storage import jsonl
from runners.storage.run_dir import RunDir

#: What is drawn unless a metric is named: the first of these that every run has.
DEFAULT_METRICS = ("episode/mean_reward", "episode/return/player_1")
#: The x axes: their column, and how they are labelled.
AXES = {
    "env_steps": ("env_steps", "environment steps of a seed"),
    "iteration": ("iteration", "iterations"),
    "seconds": ("time/seconds", "seconds of wall time"),
}


class NoDataError(Exception):
    """The runs have logged nothing that can be drawn."""


class Series(NamedTuple):
    """A metric of one seed: `x` and `y`, each `[points]`, by growing x."""

    x: np.ndarray
    y: np.ndarray


class Curve(NamedTuple):
    """A metric of all seeds of one setting.

    Attributes:
        label: The setting, in words.
        x: `[points]`.
        values: `[seeds, points]`.
    """

    label: str
    x: np.ndarray
    values: np.ndarray


class Comparison(NamedTuple):
    """The contents of a picture.

    Attributes:
        metric: The metric's name.
        axis: The x axis, a key of `AXES`.
        smooth: How many points a moving mean is over; 1 is none.
        curves: One for each setting.
        notes: Notes for the user: runs that were left out, and why.
        title: What all curves have in common.
    """

    metric: str
    axis: str
    smooth: int
    curves: tuple[Curve, ...]
    notes: tuple[str, ...]
    title: str

    def relabelled(self, labels: Sequence[str]) -> "Comparison":
        """Returns the comparison with other names of its curves, in their order.

        Raises:
            ValueError: If there are more or fewer names than curves.
        """
        if len(labels) != len(self.curves):
            known = "; ".join(curve.label for curve in self.curves)
            raise ValueError(
                f"{counted(len(labels), 'label')} for "
                f"{counted(len(self.curves), 'curve')}: give one for each, in this "
                f"order: {known}"
            )
        curves = zip(self.curves, labels, strict=True)
        renamed = tuple(curve._replace(label=label) for curve, label in curves)
        return self._replace(curves=renamed)


@dataclasses.dataclass
class _Pool:
    """The runs of one setting."""

    names: list[str]
    settings: dict[str, Any]
    seeds: dict[tuple[int, int], Series] = dataclasses.field(default_factory=dict)


def compare(
    runs: Sequence[RunDir],
    metric: str | None = None,
    *,
    axis: str = "env_steps",
    smooth: int = 1,
) -> Comparison:
    """Returns the curves of runs.

    Runs of one experiment and setting that differ in their seeds are one curve. A
    curve reaches as far as all its seeds do.

    Args:
        runs: The runs.
        metric: The metric; None takes the first of `DEFAULT_METRICS` that all have.
        axis: A key of `AXES`.
        smooth: Points of a centred moving mean. Towards both ends it is over fewer
            points, so that no data are invented.

    Raises:
        ConfigError: If no run has the metric; names the nearest.
        NoDataError: If nothing was logged.
    """
    rows = {run.path: _rows(run, metric) for run in runs}
    metric = metric or _default_metric(list(rows.values()))
    if not any(rows.values()):
        raise NoDataError(f"nothing to draw: {_these(runs)} logged no rows")
    if not any(_has(of_run, metric) for of_run in rows.values()):
        raise ConfigError(_unknown(metric, rows.values()))
    pools: dict[str, _Pool] = {}
    notes = []
    for run in runs:
        series = _series(rows[run.path], metric, AXES[axis][0])
        if not series:
            notes.append(f"{run.path} has no {metric} and is left out")
            continue
        _add(pools, run, series, notes)
    title, labels = _labels(list(pools.values())) if pools else ("", [])
    curves = [
        _curve(label, list(pool.seeds.values()), smooth)
        for label, pool in zip(labels, pools.values(), strict=True)
    ]
    if not curves:
        raise NoDataError(f"nothing to draw: no row of {metric} has {AXES[axis][0]}")
    title = title or words(metric)
    return Comparison(metric, axis, smooth, tuple(curves), tuple(notes), title)


def draw(comparison: Comparison, path: Path) -> None:
    """Draws the curves: means over seeds, and 95 % confidence intervals as bands.

    Raises:
        ValueError: If the name of the picture names no format.
    """
    from matplotlib.ticker import EngFormatter

    figures.check_format(path)
    figure, axes = figures.new_figure()
    counts = [curve.values.shape[0] for curve in comparison.curves]
    alike = len(set(counts)) == 1
    for i, (curve, count) in enumerate(zip(comparison.curves, counts, strict=True)):
        seeds = "" if alike else f" ({counted(count, 'seed')})"
        figures.draw_curve(axes, i, curve.x, curve.values, curve.label + seeds)
    axes.set_xlabel(AXES[comparison.axis][1])
    axes.set_ylabel(words(comparison.metric))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    parts = ["mean over seeds with 95 % intervals"]
    if alike:
        parts = [figures.mean_over(counts[0]) if counts[0] > 1 else "one seed"]
    if comparison.smooth > 1:
        parts.append(f"moving mean over {comparison.smooth} points")
    figures.set_titles(axes, comparison.title, ", ".join(parts))
    if [curve.label for curve in comparison.curves] != [comparison.title]:
        figures.set_legend(figure, columns=2)
    figures.save(figure, path)


def moving_mean(values: np.ndarray, points: int) -> np.ndarray:
    """Returns centred moving means along the last axis.

    The window is symmetric everywhere: near an end it has as many points on either
    side as there are, so a trend is not bent there and no value is invented.

    Args:
        values: `[..., n]`.
        points: Size of the window; an even number counts as the next odd one.
    """
    n = values.shape[-1]
    index = np.arange(n)
    half = np.minimum(points // 2, np.minimum(index, n - 1 - index))
    means = [
        values[..., i - h : i + h + 1].mean(axis=-1)
        for i, h in zip(index, half, strict=True)
    ]
    return np.stack(means, axis=-1)


def _rows(run: RunDir, metric: str | None) -> list[dict[str, Any]]:
    is_evaluation = metric is not None and metric.startswith("eval/")
    path = run.eval_metrics if is_evaluation else run.metrics
    return jsonl.read_rows(path) if path.is_file() else []


def _has(rows: Iterable[Mapping[str, Any]], metric: str) -> bool:
    return any(metric in row for row in rows)


def _default_metric(runs: list[list[dict[str, Any]]]) -> str:
    for metric in DEFAULT_METRICS:
        if all(_has(rows, metric) for rows in runs):
            return metric
    known = (m for m in DEFAULT_METRICS if any(_has(rows, m) for rows in runs))
    return next(known, DEFAULT_METRICS[0])


def _series(
    rows: Iterable[Mapping[str, Any]], metric: str, column: str
) -> dict[int, Series]:
    """Returns the metric of every seed index; rows without it are passed over."""
    points: dict[int, dict[float, list[float]]] = {}
    for row in rows:
        if row.get(metric) is not None and column in row:
            of_seed = points.setdefault(row.get("seed", 0), {})
            of_seed.setdefault(row[column], []).append(row[metric])
    series = {}
    for seed, found in points.items():
        x = sorted(found)
        y = [float(np.mean(found[place])) for place in x]
        series[seed] = Series(np.array(x, float), np.array(y))
    return series


def _add(
    pools: dict[str, _Pool], run: RunDir, series: dict[int, Series], notes: list[str]
) -> None:
    """Puts a run's seeds into the pool of its setting."""
    meta = run.read_meta()
    settings = settings_of(run)
    experiment = experiment_of(meta.get("experiment") or run.path.name)
    parts = [experiment, meta.get("name")]
    label = " ".join(part for part in parts if part)
    key = repr((meta.get("experiment"), sorted(settings.items(), key=str)))
    pool = pools.setdefault(key, _Pool([], settings))
    if label not in pool.names:
        pool.names.append(label)
    own = {(meta.get("seed", 0), index): found for index, found in series.items()}
    if own.keys() & pool.seeds.keys():
        notes.append(f"{run.path} repeats seeds of another run: they count once")
    for seed, found in own.items():
        if seed not in pool.seeds or len(found.x) > len(pool.seeds[seed].x):
            pool.seeds[seed] = found


def _labels(pools: Sequence[_Pool]) -> tuple[str, list[str]]:
    """Returns (what all settings are called, what tells each from the others)."""
    names = [", ".join(pool.names) for pool in pools]
    shared = names[0] if len(set(names)) == 1 else ""
    labels = []
    for name, pool in zip(names, pools, strict=True):
        twins = [p for p, other in zip(pools, names, strict=True) if other == name]
        found = differing([twin.settings for twin in twins])
        own = next(d for twin, d in zip(twins, found, strict=True) if twin is pool)
        parts = ["" if shared and own else name, in_words(own)]
        labels.append(": ".join(part for part in parts if part))
    return shared, labels


def _curve(label: str, seeds: Sequence[Series], smooth: int) -> Curve:
    """Returns the seeds of one setting on one grid: where all of them have data."""
    first = max(series.x[0] for series in seeds)
    last = min(series.x[-1] for series in seeds)
    if first > last:
        raise ConfigError(
            f"the seeds of {label} have no x in common: one begins at {first:g}, "
            f"another ends at {last:g}; draw them one by one"
        )
    grid = np.unique(np.concatenate([series.x for series in seeds]))
    grid = grid[(grid >= first) & (grid <= last)]
    values = np.stack([np.interp(grid, series.x, series.y) for series in seeds])
    return Curve(label, grid, moving_mean(values, smooth))


def _unknown(metric: str, runs: Iterable[Iterable[Mapping[str, Any]]]) -> str:
    known = sorted(
        {name for rows in runs for row in rows for name in row if "/" in name}
    )
    near = closest(metric, known)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    return f"no run has the metric {metric!r}{hint} Known: {', '.join(known)}"


def _these(runs: Sequence[RunDir]) -> str:
    return ", ".join(str(run.path) for run in runs) or "no run"
