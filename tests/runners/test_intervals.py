"""Intervals are met by crossing, and a loop does what is due."""

import numpy as np
import pytest

from runners.engine.rows import FINITE
from runners.session.loop import Interval, Loop, NonFiniteError, Task


@pytest.mark.parametrize(
    ("every", "per_iteration", "due"),
    [
        (5000, 64, [79, 157, 235]),  # 64 divides no multiple of 5000 before 40,000
        (3, 1, [3, 6, 9]),
        (1, 10, [1, 2, 3]),
        (25, 10, [3, 5, 8]),
    ],
)
def test_an_interval_is_due_when_it_is_crossed(every, per_iteration, due):
    interval = Interval(every, per_iteration)
    found = [i for i in range(1, due[-1] + 1) if interval.is_due(i)]
    assert found == due
    nexts = [interval.next_due(i) for i in (0, *due[:-1])]
    assert nexts == due


def test_never_is_never():
    assert not any(Interval(0).is_due(i) for i in range(5))
    assert Interval(0).next_due(3) is None
    with pytest.raises(ValueError, match="every >= 0"):
        Interval(-1)


class FakeProgram:
    """Counts iterations; a set of them gives NaN."""

    max_iterations, steps_per_iteration = 8, 10

    def __init__(self, broken=()):
        self.iteration, self.broken, self.lengths = 0, set(broken), []

    def run(self, length):
        self.lengths.append(length)
        numbers = self.iteration + 1 + np.arange(length)
        self.iteration += length
        fine = np.array([[float(i not in self.broken) for i in numbers]])
        return {"iteration": numbers[None].astype(float), FINITE: fine}


def test_a_chunk_ends_where_something_is_due():
    seen = []
    program = FakeProgram()
    tasks = (
        Task(Interval(4), lambda chunk: seen.append(("four", chunk.last))),
        Task(Interval(60, 10), lambda chunk: seen.append(("sixty", chunk.last))),
    )
    Loop(program, 13, tasks=tasks).run()
    assert seen == [("four", 4), ("sixty", 6), ("four", 8), ("four", 12), ("sixty", 12)]
    assert sum(program.lengths) == 13


def test_a_loop_stops_between_chunks_and_goes_on_from_there():
    program, chunks = FakeProgram(), []
    loop = Loop(program, 10, on_chunk=(chunks.append,))
    loop.run(stop=lambda: program.iteration >= 4)
    stopped = program.iteration
    assert 4 <= stopped < 10
    Loop(program, 10, on_chunk=(chunks.append,)).run()
    rows = np.concatenate([chunk.rows["iteration"][0] for chunk in chunks])
    assert rows.tolist() == list(range(1, 11))


def test_the_first_bad_update_is_named():
    logged = []
    loop = Loop(FakeProgram(broken={5, 6, 9}), 20, on_chunk=(logged.append,))
    with pytest.raises(NonFiniteError, match=r"update 5 \(seed index 0, 50 env") as e:
        loop.run()
    assert e.value.iteration == loop.first_non_finite == 5
    assert logged[-1].last >= 5


def test_a_run_may_go_on_regardless():
    loop = Loop(FakeProgram(broken={5}), 20, non_finite="continue")
    loop.run()
    assert loop.first_non_finite == 5
    with pytest.raises(ValueError, match="non_finite must be one of stop, continue"):
        Loop(FakeProgram(), 1, non_finite="ignore")
