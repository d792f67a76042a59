"""Where an `OnPolicyRunner` writes its metrics: TensorBoard and JSON lines."""

import logging
from collections.abc import Mapping
from pathlib import Path

from runners.jsonl import JsonLines, read_rows
from runners.metric_names import group
from runners.sinks import Position, Sink
from runners.tensorboard import PATTERN, TensorBoard

ROWS = "metrics.jsonl"
#: Folders into which the logs of trainings before this one are put aside.
EARLIER = "earlier_"

logger = logging.getLogger(__name__)


class OnPolicyLog:
    """The files of one `log_dir`, opened when there is something to write."""

    def __init__(self, folder: Path | None) -> None:
        """Writes nothing yet; with None it never does."""
        self._folder = folder
        self._sinks: list[Sink] = []
        self._resume_from: Position | None = None
        self._begun = False

    def write(self, position: Position, metrics: Mapping[str, float]) -> None:
        """Writes a row of metrics."""
        for sink in self._opened():
            sink.log(position.env_steps, position.iteration, metrics)
        self.flush()

    def resume(self, position: Position) -> bool:
        """Goes on from a position: what was logged later is taken out of the files.

        Returns:
            Whether the row of that very iteration is in the files.
        """
        self.close()
        self._resume_from, self._begun = position, True
        path = None if self._folder is None else self._folder / ROWS
        if path is None or not path.is_file():
            return False
        return any(
            row.get("iteration") == position.iteration
            and any(group(name) == "train" for name in row)
            for row in read_rows(path)
        )

    def flush(self) -> None:
        """Hands over everything logged so far."""
        for sink in self._sinks:
            sink.flush()

    def close(self) -> None:
        """Closes the files; another row opens them again."""
        sinks, self._sinks = self._sinks, []
        for sink in sinks:
            sink.close()

    def _opened(self) -> list[Sink]:
        if self._folder is None or self._sinks:
            return self._sinks
        self._folder.mkdir(parents=True, exist_ok=True)
        start, self._resume_from = self._resume_from, None
        if not self._begun:
            _put_aside(self._folder)
        self._begun = True
        self._sinks = [
            JsonLines(self._folder / ROWS, resume_from=start),
            TensorBoard(self._folder, resume_from=start, copies_vs_iteration=True),
        ]
        return self._sinks


def _put_aside(folder: Path) -> None:
    """Moves what another training has logged in a folder out of the way."""
    old = [path for path in (folder / ROWS, *folder.glob(PATTERN)) if path.is_file()]
    if not old:
        return
    number = 1 + sum(path.is_dir() for path in folder.glob(f"{EARLIER}*"))
    place = folder / f"{EARLIER}{number}"
    place.mkdir()
    for path in old:
        path.rename(place / path.name)
    logger.warning("the log of the training before is in %s", place)
