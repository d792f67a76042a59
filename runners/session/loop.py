"""The loop in Python around a program: chunks of iterations, and tasks between them."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from runners.engine.program import Program, Rows
from runners.engine.rows import FINITE
from runners.storage.run_dir import RunDir


@dataclasses.dataclass(frozen=True)
class Interval:
    """Due whenever the count of something crosses a multiple of `every`.

    Attributes:
        every: The interval, in steps or iterations; 0 is never.
        per_iteration: By how much an iteration advances the count: 1 counts
            iterations, `steps_per_iteration` counts environment steps.
    """

    every: int
    per_iteration: int = 1

    def __post_init__(self) -> None:
        if self.every < 0 or self.per_iteration < 1:
            raise ValueError(
                f"an interval needs every >= 0 and per_iteration >= 1, got {self}"
            )

    def is_due(self, iteration: int) -> bool:
        """Whether it is due after iteration number `iteration`, from 1.

        True if floor(after / every) > floor(before / every).
        """
        if self.every == 0 or iteration < 1:
            return False
        after = iteration * self.per_iteration
        return after // self.every > (after - self.per_iteration) // self.every

    def next_due(self, iteration: int) -> int | None:
        """Returns the first iteration after `iteration` at which it is due."""
        if self.every == 0:
            return None
        crossed = (iteration * self.per_iteration) // self.every + 1
        # Smallest i with i * per_iteration >= crossed * every.
        return -(-crossed * self.every // self.per_iteration)


#: Seconds between two visits of the host that the loop aims at.
CHUNK_SECONDS = 1.0
NON_FINITE = ("stop", "continue")


def check_non_finite(value: str) -> str:
    """Returns what is to happen at the first NaN, if it is one of `NON_FINITE`.

    Raises:
        ValueError: If it is not.
    """
    if value not in NON_FINITE:
        raise ValueError(
            f"non_finite must be one of {', '.join(NON_FINITE)}, got {value!r}"
        )
    return value


class NonFiniteError(RuntimeError):
    """Training has diverged: a loss or a parameter is NaN or infinite.

    Attributes:
        iteration: The first bad iteration, from 1.
        seed_index: The first seed in which it happened.
    """

    def __init__(self, iteration: int, seed_index: int, env_steps: int) -> None:
        self.iteration, self.seed_index = iteration, seed_index
        super().__init__(
            f"update {iteration} (seed index {seed_index}, {env_steps:_} environment "
            "steps) gave a loss or a parameter that is NaN or infinite: try a lower "
            "learning_rate or a max_grad_norm, in a search by evolution a smaller "
            "es.sigma_init or es.clip_min and es.clip_max, or go on regardless with "
            "non_finite=continue"
        )


class Chunk(NamedTuple):
    """The iterations of one call of a program.

    Attributes:
        first: Number of the first iteration, from 0.
        rows: Metrics by name, float32 `[seeds, iterations of the chunk]`.
        seconds: Wall-clock seconds of training since the run began.
        taken: Seconds of this chunk.
    """

    first: int
    rows: Rows
    seconds: float
    taken: float

    @property
    def length(self) -> int:
        """The number of iterations."""
        return next(iter(self.rows.values())).shape[1]

    @property
    def last(self) -> int:
        """Iterations that have been run after it."""
        return self.first + self.length


class Task(NamedTuple):
    """Something to do between chunks.

    Attributes:
        interval: When the task is due, which ends a chunk.
        action: Called with the chunk that has just been run.
    """

    interval: Interval
    action: Callable[[Chunk], object]


@dataclasses.dataclass
class Loop:
    """Advances a program to `num_iterations`, and does the tasks that are due.

    The length of a chunk follows from the tasks and from the time that the last one
    took; results do not depend on it.

    Attributes:
        program: The program.
        num_iterations: Iterations at its end, counted from the beginning of the run.
        on_chunk: Called with every chunk, before the tasks.
        tasks: The tasks, in this order.
        before_chunk: Called before every chunk.
        after_chunk: Called when what is due after a chunk has been done.
        advance: Runs one iteration in place of `program.run(1)`; None: whole chunks.
        non_finite: `"stop"` raises at the first NaN, `"continue"` only notes it.
        seconds: Seconds of training before this process, in a resumed run.
        first_non_finite: The first bad iteration so far, from 1; None is none.
    """

    program: Program
    num_iterations: int
    on_chunk: Sequence[Callable[[Chunk], None]] = ()
    tasks: Sequence[Task] = ()
    before_chunk: Callable[[], None] | None = None
    after_chunk: Callable[[], None] | None = None
    advance: Callable[[], Rows] | None = None
    non_finite: str = "stop"
    seconds: float = 0.0
    first_non_finite: int | None = None

    def __post_init__(self) -> None:
        check_non_finite(self.non_finite)

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Runs to the end, or until `stop` says so between two chunks.

        Raises:
            NonFiniteError: At the first loss or parameter that is NaN or infinite,
                after its chunk has been handed to `on_chunk`.
        """
        wanted = 1
        while self.program.iteration < self.num_iterations and not stop():
            began = time.perf_counter()
            first = self.program.iteration
            if self.before_chunk is not None:
                self.before_chunk()
            length = self._length(first, wanted)
            run_one = self.advance
            rows = self.program.run(length) if run_one is None else run_one()
            taken = max(time.perf_counter() - began, 1e-9)
            self.seconds += taken
            chunk = Chunk(first, rows, self.seconds, taken)
            for look in self.on_chunk:
                look(chunk)
            self._check(chunk)
            for task in self.tasks:
                if task.interval.is_due(chunk.last):
                    task.action(chunk)
            if self.after_chunk is not None:
                self.after_chunk()
            wanted = max(1, int(chunk.length * CHUNK_SECONDS / taken))
            wanted = min(wanted, 4 * chunk.length)

    def _length(self, first: int, wanted: int) -> int:
        """Returns the length of the next chunk: nothing that is due is run over."""
        if self.advance is not None:
            return 1
        ends = [task.interval.next_due(first) for task in self.tasks]
        nearest = min([self.num_iterations, *(end for end in ends if end is not None)])
        return min(wanted, self.program.max_iterations, nearest - first)

    def _check(self, chunk: Chunk) -> None:
        bad = np.argwhere(chunk.rows[FINITE].T != 1)  # by iteration, then seed
        if not bad.size or self.first_non_finite is not None:
            return
        i, seed = (int(x) for x in bad[0])
        self.first_non_finite = chunk.first + i + 1
        if self.non_finite == "stop":
            steps = self.program.steps_per_iteration
            raise NonFiniteError(
                self.first_non_finite, seed, self.first_non_finite * steps
            )


class Observer:
    """An observer of a run; a subclass may override any of the methods."""

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

    def on_evaluate(self) -> None:
        """Training is over, and the final agents are being evaluated."""

    def on_row(self, done: int, total: int, row: dict[str, float]) -> None:
        """Some of an outer loop has been run and logged.

        Args:
            done: Its iterations or generations so far.
            total: All iterations or generations.
            row: The logged row of the last one.
        """
