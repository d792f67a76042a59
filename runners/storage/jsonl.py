"""Metrics as strict JSON lines: one object for each logged iteration and seed.

JSON has no NaN and no infinity, so such a value is written as `null` and its name is
listed under `"not_finite"`. A null that is not listed is a mean over no episode.
"""

import collections
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from numpy.typing import ArrayLike

from paxenv.paths import replacing
from runners.engine.metric_names import group
from runners.storage.places import VanishedError
from runners.storage.sinks import (
    EVALUATION_GROUP,
    Position,
    is_surplus,
    numbers,
    scalar,
    scalars,
)

FLAG = "not_finite"
_BLOCK = 1 << 16


class JsonLines:
    """A file of metrics that is valid after every row; a sink of one seed."""

    def __init__(self, path: Path, *, resume_from: Position | None = None) -> None:
        """Opens a file at its end.

        Args:
            path: The file; it and its folder are made if they are missing.
            resume_from: The position from which a run resumes; rows of later
                iterations, which it will write again, are removed.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        if resume_from is not None and path.is_file():
            truncate(path, resume_from)
        self._path = path
        self._file: TextIO = path.open("a", encoding="utf-8")

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends one row of numbers, texts and None."""
        self._file.write(encode(row) + "\n")

    def log(
        self,
        env_steps: int,
        iteration: int,
        metrics: Mapping[str, ArrayLike],
        *,
        seed: int = 0,
    ) -> None:
        """Appends the row of one iteration and seed."""
        clock = {"seed": seed, "iteration": iteration, "env_steps": env_steps}
        there = scalars(metrics)
        self.write({**clock, **{n: there.get(n) for n in numbers(metrics)}})

    def flush(self) -> None:
        """Hands everything written so far to the file system.

        Raises:
            VanishedError: If the file is gone, so that rows would be lost.
        """
        self._file.flush()
        if not self._path.exists():
            raise VanishedError(
                f"{self._path} has vanished while a run was writing to it"
            )

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def encode(row: Mapping[str, Any]) -> str:
    """Returns a row as one line of strict JSON.

    Raises:
        TypeError: If a value is neither a number nor a text, bool or None.
    """
    plain = {name: _plain(name, value) for name, value in row.items()}
    broken = [
        name
        for name, value in plain.items()
        if isinstance(value, float) and not math.isfinite(value)
    ]
    data = {name: None if name in broken else plain[name] for name in plain}
    if broken:
        data[FLAG] = broken
    return json.dumps(data, allow_nan=False)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a file, with NaN where a value was not finite.

    A missing value, a null in the file that is not listed, is left out. So is a last
    line without an end: it is being written, or its writer was killed.

    Raises:
        ValueError: If another line is not a JSON object; names file and line.
    """
    with path.open("rb") as file:
        return [row for _, row in _rows(file, path)]


def last_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of the last logged iteration, one for each seed.

    Reads the end of the file only; returns `[]` if no row was logged.
    """
    size = path.stat().st_size
    block = _BLOCK
    while True:
        with path.open("rb") as file:
            file.seek(max(size - block, 0))
            if block < size:
                file.readline()  # The rest of a line that began before the block.
            rows = [row for _, row in _rows(file, path)]
        iterations = [row.get("iteration") for row in rows]
        if block >= size or len(set(iterations)) > 1:
            return [row for row in rows if row.get("iteration") == iterations[-1]]
        block *= 4


def truncate(path: Path, resume_from: Position) -> None:
    """Removes the rows after a position and a torn last line, atomically."""
    seen: collections.Counter[int] = collections.Counter()
    with path.open("rb") as old, replacing(path) as new:
        for line, row in _rows(old, path):
            done = row.get("iteration", 0)
            if done == resume_from.iteration and _is_evaluation(row):
                seen[row.get("seed", 0)] += 1
                if is_surplus(seen[row.get("seed", 0)], resume_from):
                    continue
            if done <= resume_from.iteration:
                new.write(line)


def _is_evaluation(row: Mapping[str, Any]) -> bool:
    return any(group(name) == EVALUATION_GROUP for name in row)


def _rows(file: BinaryIO, path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yields whole lines and their rows from a file's current position."""
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            return
        try:
            row = json.loads(line)
            broken = row.pop(FLAG, [])
        except (ValueError, AttributeError) as error:
            raise ValueError(
                f"{path}: line {number} is not a JSON object: {line[:80]!r}"
            ) from error
        there = {name: value for name, value in row.items() if value is not None}
        yield line, {**there, **dict.fromkeys(broken, math.nan)}


def _plain(name: str, value: Any) -> Any:
    """Returns a value of JSON; a float has no more digits than float32."""
    if value is None or isinstance(value, bool | int | str):
        return value
    number = scalar(name, value)
    return float(f"{number:.7g}") if math.isfinite(number) else number
