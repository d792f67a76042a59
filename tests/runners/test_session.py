"""What a session saves, and when."""

from types import SimpleNamespace

import numpy as np
import pytest

from runners.engine.rows import FINITE
from runners.session.loop import Interval, Task
from runners.session.session import Session


@pytest.fixture
def session():
    program = SimpleNamespace(
        iteration=1, env_steps=8, arrays=lambda: {}, about=lambda: {}
    )
    saves = []
    store = SimpleNamespace(
        saves=saves,
        save=lambda steps, arrays, record, metric: saves.append((steps, metric)),
    )
    return Session(program, store, dict)  # type: ignore[arg-type]


def test_an_iteration_is_saved_once(session):
    session.save()
    session.save()
    session.program.iteration, session.program.env_steps = 2, 16
    session.save()
    assert session.store.saves == [(8, None), (16, None)]


def test_a_better_score_is_saved_though_its_iteration_has_been(session):
    """The agent may have been given other weights or numbers in between."""
    session.save()
    for score in (1.0, 0.5, 2.0):
        session.save_if_best(score)
    session.save()
    assert session.store.saves == [(8, None), (8, 1.0), (8, 2.0)]
    assert session.record()["best"] == 2.0


def fail_when_interrupted(session):
    with session.interruptible() as interrupt:
        interrupt.requested = True
        raise RuntimeError


def let_run(session):
    """Makes the program one that only counts."""

    def run(length):
        session.program.iteration += length
        return {FINITE: np.ones((1, length))}

    session.program.run = run
    session.program.max_iterations = session.program.steps_per_iteration = 8


def test_a_log_is_handed_over_after_a_chunk_and_before_a_checkpoint(session):
    """So a run that goes on from the checkpoint has no gap in its log."""
    let_run(session)
    told = []
    session.flush = lambda: told.append("flush")
    session.store.save = lambda *_, **__: told.append("save")
    session.store.save_named = lambda *_: told.append("save named")

    session.run(
        3,
        on_chunk=(lambda _: told.append("chunk"),),
        tasks=(Task(Interval(2), lambda _: session.save()),),
    )
    session.save_named("final")

    once = ["chunk", "flush", "save", "flush", "chunk", "flush"]
    assert told == [*once, "flush", "save named"]


def test_an_interrupt_ends_with_its_block(session):
    let_run(session)
    with pytest.raises(RuntimeError):
        fail_when_interrupted(session)
    session.run(5)
    assert session.program.iteration == 5
