"""One training: a program, its checkpoints, and the tasks on the way."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from runners.engine.program import Program, Rows
from runners.session.interrupt import Interrupt
from runners.session.loop import Chunk, Loop, Task
from runners.storage.checkpoints.files import LATEST, has_any, read_record
from runners.storage.checkpoints.store import CheckpointStore
from runners.storage.checkpoints.tree import restore_first_whole


class Part(Protocol):
    """State of the host that is saved in the record of a checkpoint."""

    def saved(self) -> Any:
        """Returns its state as JSON."""
        ...

    def load(self, saved: Any) -> None:
        """Continues from what `saved` returned; None begins anew."""
        ...


@dataclasses.dataclass
class Session:
    """A training and its checkpoints, which all have one kind of record.

    Attributes:
        program: The program that is advanced.
        store: The store of checkpoints; None: none are saved.
        facts: Returns further entries of a record: the settings of the training.
        parts: State of the host that is saved and restored, by its name in the record.
        flush: Hands over what was logged. It is called when a chunk and what was due
            after it are done, and before a checkpoint is saved, so that a training
            that continues from there has no gap in its log.
        seconds: Seconds of training so far, also before this process.
        best: The highest score of an evaluation so far, -inf before the first.
        first_non_finite: The first iteration, from 1, that gave a NaN; None is none.
    """

    program: Program
    store: CheckpointStore | None = None
    facts: Callable[[], Mapping[str, Any]] = dict
    parts: Mapping[str, Part] = dataclasses.field(default_factory=dict)
    flush: Callable[[], None] = lambda: None
    seconds: float = 0.0
    best: float = -math.inf
    first_non_finite: int | None = None
    _saved: tuple[int, int] | None = None
    _interrupt: Interrupt | None = None

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[Interrupt]:
        """Makes the first Ctrl-C or SIGTERM a request to stop, which `run` follows.

        It ends after the chunk that is being run, and there is time to save.
        """
        with Interrupt() as self._interrupt:
            try:
                yield self._interrupt
            finally:
                self._interrupt = None

    def run(
        self,
        num_iterations: int,
        *,
        on_chunk: Sequence[Callable[[Chunk], None]] = (),
        tasks: Sequence[Task] = (),
        before_chunk: Callable[[], None] | None = None,
        advance: Callable[[], Rows] | None = None,
        non_finite: str = "stop",
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Advances the program to its end, or until it is interrupted or stopped.

        Arguments are those of `Loop`.

        Raises:
            NonFiniteError: If it diverged.
        """
        loop = Loop(
            self.program,
            num_iterations,
            on_chunk=(self._count, *on_chunk),
            tasks=tasks,
            before_chunk=before_chunk,
            after_chunk=self.flush,
            advance=advance,
            non_finite=non_finite,
            seconds=self.seconds,
        )
        interrupt = self._interrupt

        def stops() -> bool:
            return stop() or (interrupt is not None and interrupt.requested)

        try:
            loop.run(stops)
        finally:
            self.first_non_finite = loop.first_non_finite

    def _count(self, chunk: Chunk) -> None:
        self.seconds = chunk.seconds

    def save(self) -> None:
        """Saves the state, unless it has been saved since the last iteration."""
        if self._saved != self._done:
            self._save(None)

    def save_named(self, name: str) -> Path:
        """Saves the state under a name, and returns the path.

        Raises:
            ValueError: If there is no place for it, or the name is none.
        """
        if self.store is None:
            raise ValueError("there is no place for a checkpoint: give a save_dir")
        self.flush()
        return self.store.save_named(name, self.program.arrays(), self.record())

    def save_if_best(self, score: float) -> None:
        """Saves the state if no evaluation before had so high a score."""
        if score > self.best:
            self.best = score
            self._save(score)

    def _save(self, score: float | None) -> None:
        if self.store is None:
            return
        self.flush()
        self._saved = self._done
        self.store.save(
            self.program.env_steps, self.program.arrays(), self.record(), metric=score
        )

    def record(self) -> dict[str, Any]:
        """Returns the record beside the arrays of a checkpoint."""
        return {
            **self.facts(),
            "iteration": self.program.iteration,
            "env_steps": self.program.env_steps,
            "seconds": self.seconds,
            "best": self.best_score,
            "program": self.program.about(),
            **{name: part.saved() for name, part in self.parts.items()},
        }

    @property
    def best_score(self) -> float | None:
        """The highest score of an evaluation so far; None before the first."""
        return self.best if math.isfinite(self.best) else None

    def restore(
        self,
        which: int | str | Path = LATEST,
        *,
        check: Callable[[Path], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Continues from a checkpoint of the store, or an older one if it is damaged.

        Args:
            which: Steps, a name, a path, "latest" or "best".
            check: Raises if a checkpoint, given by its path, does not fit.

        Returns:
            The record.

        Raises:
            CheckpointError: If there is no such one, or it does not fit.
        """
        assert self.store is not None
        return self.restore_first_whole(self.store.candidates(which), check=check)

    def restore_or_begin(self, which: int | str | Path = LATEST) -> None:
        """Goes on as `restore`, and from the beginning where none was saved yet."""
        assert self.store is not None
        if which != LATEST or has_any(self.store.folder):
            self.restore(which)

    def restore_first_whole(
        self, paths: Sequence[Path], *, check: Callable[[Path], None]
    ) -> dict[str, Any]:
        """Continues from the first checkpoint that is whole; see `restore`."""

        def template(path: Path) -> Any:
            check(path)
            return self.program.template(read_record(path).meta.get("program", {}))

        arrays, record = restore_first_whole(paths, template)
        self.program.restore(arrays, record.get("program", {}))
        for name, part in self.parts.items():
            part.load(record.get(name))
        self.seconds = float(record.get("seconds", 0.0))
        best = record.get("best")
        self.best = -math.inf if best is None else float(best)
        self._saved = self._done
        return record

    @property
    def _done(self) -> tuple[int, int]:
        return self.program.iteration, self.program.env_steps
