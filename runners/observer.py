"""Who watches a run."""

from runners.loop import Chunk
from runners.run_dir import RunDir


class Observer:
    """Who watches a run; every method may be overridden, none must be."""

    def on_notice(self, text: str) -> None:
        """There is something that the user should know."""

    def on_compile(self, what: str) -> None:
        """A program is free of mistakes and is being compiled."""

    def on_run(self, what: str) -> None:
        """A program has been compiled and is being run."""

    def on_start(self, run_dir: RunDir) -> None:
        """The run directory exists."""

    def on_chunk(self, chunk: Chunk) -> None:
        """A chunk has been run and logged."""

    def on_row(self, done: int, total: int, row: dict[str, float]) -> None:
        """Some of an outer loop has been run and logged.

        Args:
            done: Its iterations or generations so far.
            total: Of so many.
            row: What was logged of the last one.
        """
