"""Growing data of a training, in files that are only appended to.

    checkpoints/history/
        episode_returns.f32     numbers, float32, the lowest byte first
        metrics_log.jsonl       dicts, one a line

A checkpoint's record holds the sizes of these files, so its own size does not grow with
the training. A resumed training cuts the files to these sizes.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from runners.storage.checkpoints.files import CheckpointError

FOLDER = "history"
_NUMBERS = np.dtype("<f4")


class Journal:
    """The lists of one training; append to them before a checkpoint is saved."""

    def __init__(self, checkpoints: Path) -> None:
        """Makes the journal; opens and writes no file.

        Args:
            checkpoints: The folder of checkpoints.
        """
        self.folder = checkpoints / FOLDER

    def add_numbers(self, name: str, values: ArrayLike) -> None:
        """Appends numbers of any shape to a list of numbers, in C order."""
        self._append(self._numbers(name), np.asarray(values, _NUMBERS).tobytes())

    def add_rows(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends dicts of JSON values; NaN and infinity are written as Python does."""
        self._append(self._rows(name), "".join(map(_line, rows)).encode())

    def sizes(self) -> dict[str, int]:
        """Returns the files and their sizes in bytes, for a checkpoint's record."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        return {path.name: path.stat().st_size for path in sorted(found)}

    def cut(self, sizes: Mapping[str, int]) -> None:
        """Removes data that was appended after a checkpoint.

        Args:
            sizes: The result of `sizes` at the checkpoint.
        """
        for name, now in self.sizes().items():
            if now > sizes.get(name, 0):
                os.truncate(self.folder / name, sizes.get(name, 0))

    def numbers(self, name: str, sizes: Mapping[str, int]) -> np.ndarray:
        """Returns the numbers up to a checkpoint, float32 `[n]`.

        Raises:
            CheckpointError: If the file is gone, or shorter than it was.
        """
        return np.frombuffer(self._read(self._numbers(name), sizes), _NUMBERS)

    def rows(self, name: str, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
        """Returns the dicts up to a checkpoint.

        Raises:
            CheckpointError: If the file is gone, or shorter than it was.
        """
        text = self._read(self._rows(name), sizes).decode()
        return [json.loads(line) for line in text.splitlines()]

    def clear(self) -> None:
        """Deletes everything."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _numbers(self, name: str) -> Path:
        return self.folder / f"{name}.f32"

    def _rows(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def _append(self, path: Path, data: bytes) -> None:
        if not data:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path, sizes: Mapping[str, int]) -> bytes:
        size = sizes.get(path.name, 0)
        if not size:
            return b""
        data = path.read_bytes() if path.is_file() else b""
        if len(data) < size:
            raise CheckpointError(
                f"{path} has {len(data)} bytes, and the checkpoint knows {size}: it "
                "belongs to the folder of checkpoints and must go where that goes"
            )
        return data[:size]


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(dict(row)) + "\n"
