"""Comparison of the outcome of a run with the bands of its experiment."""

import dataclasses
import datetime
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax

from paxenv.registry import closest
from paxenv.wording import counted
from runners.config import ExperimentConfig, experiment_names, load, load_small
from runners.engine.statistics import Estimate
from runners.session.outcome import Ended


@dataclasses.dataclass(frozen=True)
class Finding:
    """One metric of one run beside the band in which it should lie.

    Attributes:
        metric: The metric's name, such as `episode/reward_per_step/player_1`.
        low: Lower end of the band, included.
        high: Upper end of the band, included.
        measured: The measured value over seeds; None if there is no such metric.
        near: Names that resemble an unknown metric.
    """

    metric: str
    low: float
    high: float
    measured: Estimate | None
    near: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the mean over seeds lies in the band; never for NaN."""
        return self.measured is not None and self.low <= self.measured.mean <= self.high

    @property
    def verdict(self) -> str:
        """`holds`, or why the band does not hold."""
        if self.measured is None:
            hint = f"; did you mean {' or '.join(self.near)}?" if self.near else ""
            return f"no such metric{hint}"
        if self.holds:
            return "holds"
        mean = self.measured.mean
        return "MISSED: no value" if math.isnan(mean) else "MISSED"


def findings(outcome: Ended) -> tuple[Finding, ...]:
    """Returns every band of a run's experiment with the measured value."""
    known = outcome.measured
    found = []
    for metric, (low, high) in outcome.plan.config.bands.items():
        near = () if metric in known else tuple(closest(metric, list(known)))
        found.append(Finding(metric, low, high, known.get(metric), near))
    return tuple(found)


def worth_recording(outcome: Ended) -> dict[str, Estimate]:
    """Returns the metrics of the bands, and every player's reward per step."""
    known = outcome.measured
    rewards = [
        f"episode/reward_per_step/player_{player}"
        for player in range(1, outcome.plan.env.num_players + 1)
    ]
    names = dict.fromkeys([*outcome.plan.config.bands, *rewards])
    return {name: known[name] for name in names if name in known}


RECORD = "experiments.json"
FULL, QUICK = "full", "quick"


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One real run of a stored experiment.

    Attributes:
        command: The command.
        date: The day, in UTC, `YYYY-MM-DD`.
        device: The device, and the version of JAX.
        num_seeds: Repetitions.
        seconds: Wall-clock seconds, compilation included.
        metrics: (mean, half-width of the 95 % interval or None) by metric.
    """

    command: str
    date: str
    device: str
    num_seeds: int
    seconds: float
    metrics: dict[str, tuple[float | None, float | None]]


def measurement(outcome: Ended, command: str) -> Measurement:
    """Returns the record of a run that has just ended."""
    device = jax.devices()[0]
    return Measurement(
        command=command,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        device=f"{device.device_kind}, JAX {jax.__version__}",
        num_seeds=outcome.plan.config.num_seeds,
        seconds=round(outcome.wall_seconds, 1),
        metrics={
            name: (
                None if math.isnan(value.mean) else round(value.mean, 6),
                None if value.half_width is None else round(value.half_width, 6),
            )
            for name, value in worth_recording(outcome).items()
        },
    )


def read(folder: Path) -> dict[str, dict[str, Measurement]]:
    """Returns all measurements by experiment, then by size; empty without a record."""
    path = folder / RECORD
    if not path.is_file():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: {size: _measurement(entry) for size, entry in sizes.items()}
        for name, sizes in data.items()
    }


def write(folder: Path, record: dict[str, dict[str, Measurement]]) -> None:
    """Writes all measurements, sorted, so that a change shows as a small difference."""
    data = {
        name: {size: dataclasses.asdict(m) for size, m in sorted(sizes.items())}
        for name, sizes in sorted(record.items())
    }
    text = json.dumps(data, indent=1, allow_nan=False)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def _measurement(entry: dict[str, Any]) -> Measurement:
    metrics = {name: (pair[0], pair[1]) for name, pair in entry["metrics"].items()}
    return Measurement(**{**entry, "metrics": metrics})


PAGE = "experiments.md"
BEGIN = "<!-- made by `paxrun parity --record`: begin -->"
END = "<!-- made by `paxrun parity --record`: end -->"
HEADINGS = {
    "ipd": "Iterated prisoner's dilemma",
    "imp": "Iterated matching pennies",
    "infinite": "Infinite games, played in closed form",
    "cg": "Coin game",
    "multiplayer_ipd": "Prisoner's dilemma of several players",
    "sarl": "One agent",
}
HEADER = "| experiment | expected | measured | bands | run |\n|---|---|---|---|---|"
SHORT = {"episode/": "", "env/": "", "/player_": " of player "}
NOT_RUN = "not run yet"


def rewrite(folder: Path, record: Mapping[str, Mapping[str, Measurement]]) -> None:
    """Puts the tables between the two marks of the page.

    Raises:
        ValueError: If the page has no such marks.
    """
    path = folder / PAGE
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{path} needs the lines {BEGIN!r} and {END!r}")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    tables = f"{BEGIN}\n\n{render(record)}\n{END}"
    path.write_text(before + tables + after, encoding="utf-8")


def render(record: Mapping[str, Mapping[str, Measurement]]) -> str:
    """Returns a section for each family of packaged experiments."""
    families: dict[str, list[str]] = {}
    for name in experiment_names():
        families.setdefault(name.split("/")[0], []).append(name)
    known = [family for family in HEADINGS if family in families]
    others = [family for family in families if family not in HEADINGS]
    return "\n".join(
        _section(family, families[family], record) for family in [*known, *others]
    )


def _section(
    family: str,
    names: Iterable[str],
    record: Mapping[str, Mapping[str, Measurement]],
) -> str:
    rows = []
    for name in names:
        config = load([name])
        sizes = record.get(name, {})
        rows += [
            _row(config, size, sizes[size]) for size in (FULL, QUICK) if size in sizes
        ] or [f"| `{name}` | {_cell(config.expected)} | {NOT_RUN} | | |"]
    return "\n".join([f"## {HEADINGS.get(family, family)}", "", HEADER, *rows, ""])


def _row(config: ExperimentConfig, size: str, run: Measurement) -> str:
    title = f"`{config.name}`" + (" (quick)" if size == QUICK else "")
    measured = "<br>".join(
        f"{short(metric)}: {_number(*pair)}" for metric, pair in run.metrics.items()
    )
    if size == QUICK:
        config = load_small(config.name)
    wanted = "<br>".join(
        f"{short(metric)}: [{low:g}, {high:g}]"
        for metric, (low, high) in config.bands.items()
    )
    how = f"`{run.command}`<br>{counted(run.num_seeds, 'seed')}, "
    how += f"{run.seconds:.0f} s, {run.date}"
    how += f"<br>{run.device}"
    return f"| {title} | {_cell(config.expected)} | {measured} | {wanted} | {how} |"


def short(metric: str) -> str:
    """Returns a metric's name as people say it: `reward per step of player 1`."""
    for part, words in SHORT.items():
        metric = metric.replace(part, words)
    return metric.replace("_", " ")


def _number(mean: float | None, half_width: float | None) -> str:
    if mean is None:
        return "no value"
    return f"{mean:.3f}" + ("" if half_width is None else f" ± {half_width:.3f}")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()
