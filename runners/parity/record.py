"""What real runs of stored experiments gave, kept beside the documentation."""

import dataclasses
import datetime
import json
import math
from pathlib import Path
from typing import Any

import jax

from runners.outcome import Ended
from runners.parity import bands

RECORD = "experiments.json"
FULL, QUICK = "full", "quick"


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One real run of a stored experiment.

    Attributes:
        command: What was typed.
        date: The day, in UTC, `YYYY-MM-DD`.
        device: What it ran on, and with which JAX.
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
            for name, value in bands.worth_recording(outcome).items()
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
