"""Metrics as strict JSON lines: one object for each logged iteration and seed.

JSON knows no NaN and no infinity, so such a value is written as `null` and its name is
listed under `"not_finite"`: a null that is not listed was never written.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

FLAG = "not_finite"


class JsonLines:
    """A file of metrics that is whole after every row."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a", encoding="utf-8")

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends one row of numbers, texts and None."""
        self._file.write(encode(row) + "\n")

    def flush(self) -> None:
        """Hands everything written so far to the file system."""
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def encode(row: Mapping[str, Any]) -> str:
    """Returns a row as one line of strict JSON."""
    broken = [
        name
        for name, value in row.items()
        if isinstance(value, float) and not math.isfinite(value)
    ]
    data: dict[str, Any] = {
        name: None if name in broken else _number(value) for name, value in row.items()
    }
    if broken:
        data[FLAG] = broken
    return json.dumps(data, allow_nan=False)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a file, with NaN where a value was not finite."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        rows.append({**row, **{name: math.nan for name in row.pop(FLAG, [])}})
    return rows


def _number(value: Any) -> Any:
    """Returns a float without the digits that float32 does not have."""
    return float(f"{value:.7g}") if isinstance(value, float) else value
