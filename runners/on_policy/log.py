"""Where an `OnPolicyRunner` writes its metrics: TensorBoard and JSON lines."""

from collections.abc import Mapping
from pathlib import Path

from runners.jsonl import JsonLines
from runners.sinks import Position, Sink
from runners.tensorboard import TensorBoard

ROWS = "metrics.jsonl"


class OnPolicyLog:
    """The files of one `log_dir`, opened when there is something to write."""

    def __init__(self, folder: Path | None) -> None:
        """Writes nothing yet; with None it never does."""
        self._folder = folder
        self._sinks: list[Sink] = []
        self._resume_from: Position | None = None

    def write(self, position: Position, metrics: Mapping[str, float]) -> None:
        """Writes a row of metrics."""
        for sink in self._opened():
            sink.log(position.env_steps, position.iteration, metrics)
        self.flush()

    def resume(self, position: Position) -> None:
        """Goes on from a position: what was logged later is taken out of the files."""
        self.close()
        self._resume_from = position

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
        self._sinks = [
            JsonLines(self._folder / ROWS, resume_from=start),
            TensorBoard(self._folder, resume_from=start, copies_vs_iteration=True),
        ]
        return self._sinks
