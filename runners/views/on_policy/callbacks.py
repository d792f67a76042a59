"""The loop of an `OnPolicyRunner`: which events and tasks belong to an iteration."""

import functools
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from runners.engine.program import Rows
from runners.session.loop import Chunk, Interval, Task
from runners.session.progress import Line
from runners.views.on_policy.log import History

logger = logging.getLogger(__name__)


def in_stages(runner: Any) -> Rows:
    """Runs one iteration and tells the callbacks what happens between its stages.

    What happens before counts the iterations that are done, what happens after has the
    number of its own iteration, from 1.
    """
    fire, program = runner.callbacks.fire, runner.program
    fire("pre_rollout", runner.iteration, runner)
    seen = program.rollout()
    stats = runner.metrics.current(seen)
    fire("post_rollout", runner.iteration + 1, runner, stats)
    fire("pre_update", runner.iteration, runner)
    learnt = program.update()
    fire("post_update", runner.iteration, runner, runner.stats_of(learnt))
    return seen | learnt


def run(
    runner: Any, num_iterations: int, line: Line, stop: Callable[[], bool]
) -> History:
    """Runs one call of `learn`, and returns what has been seen of it.

    Events of an iteration come before its log and its save.

    Args:
        runner: The `OnPolicyRunner`.
        num_iterations: Where it ends, from the very beginning.
        line: Told how far it is.
        stop: Asked between chunks.
    """
    line.doing("compiling", "training")
    history, stages = History(), runner.callbacks.need_stages
    if stages:
        logger.info("callbacks between the stages: every stage is a call of its own")
    runner.session.run(
        num_iterations,
        on_chunk=(
            lambda chunk: _keep(runner, chunk, history),
            lambda chunk: line.advance(chunk.last),
        ),
        tasks=_tasks(runner),
        before_chunk=lambda: runner.callbacks.fire(
            "pre_iteration", runner.iteration, runner
        ),
        advance=functools.partial(in_stages, runner) if stages else None,
        non_finite=runner.non_finite,
        stop=stop,
    )
    return history


def _tasks(runner: Any) -> list[Task]:
    ends = {
        every
        for event in ("pre_iteration", "post_iteration")
        for every in runner.callbacks.intervals(event)
    }
    tasks = [Task(Interval(every), lambda _: None) for every in sorted(ends)]
    tasks.append(Task(runner.log_interval, lambda _: runner.log_metrics()))
    if runner.has_store:
        tasks.append(Task(runner.save_interval, lambda _: runner.save_checkpoint()))
    return tasks


def _keep(runner: Any, chunk: Chunk, history: History) -> None:
    per_iteration = runner.program.steps_per_iteration
    for i in range(chunk.length):
        number = chunk.first + i + 1
        one = runner.stats_of(chunk.rows, i)
        history.add(number, number * per_iteration, one)
    stats = runner.metrics.add(chunk.rows)
    stats["time/fps"] = chunk.length * per_iteration / chunk.taken
    stats["time/iteration"] = float(chunk.last)
    runner.stats = stats
    runner.callbacks.fire("post_iteration", chunk.last, runner, stats)


#: Events of every iteration, in the order in which they happen.
ITERATION_EVENTS = (
    "pre_iteration",
    "pre_rollout",
    "post_rollout",
    "pre_update",
    "post_update",
    "post_iteration",
)
#: Events that need the two stages of an iteration to be run one by one.
STAGE_EVENTS = ITERATION_EVENTS[1:-1]
EVENTS = (*ITERATION_EVENTS, "on_log", "on_eval", "on_checkpoint", "on_stop")
ON_ERROR = ("raise", "warn")


class Callback(NamedTuple):
    """One function that waits for an event.

    Attributes:
        call: The function.
        every: Iterations between two calls.
    """

    call: Callable[..., Any]
    every: int


class Callbacks:
    """Functions by event, called in the order in which they were added.

    Attributes:
        on_error: `"raise"` lets their exceptions through, `"warn"` logs them with
            their traceback and goes on.
    """

    def __init__(self, on_error: str = "raise") -> None:
        if on_error not in ON_ERROR:
            raise ValueError(
                f"on_callback_error must be one of {', '.join(ON_ERROR)}, got "
                f"{on_error!r}"
            )
        self.on_error = on_error
        self._waiting: dict[str, list[Callback]] = {event: [] for event in EVENTS}

    def add(self, event: str, call: Callable[..., Any], every: int = 1) -> None:
        """Calls a function from now on whenever an event happens.

        Args:
            event: One of `EVENTS`.
            call: Takes what the event tells.
            every: Iterations between two calls, counted from the start of training.

        Raises:
            ValueError: If there is no such event, or `every` is below 1.
            TypeError: If `call` cannot be called.
        """
        if event not in self._waiting:
            raise ValueError(
                f"there is no event {event!r}; the events are {', '.join(EVENTS)}"
            )
        if not callable(call):
            raise TypeError(f"a callback must be callable, got {call!r}")
        if every < 1:
            raise ValueError(f"every must be >= 1, got {every}")
        self._waiting[event].append(Callback(call, every))

    def intervals(self, event: str) -> list[int]:
        """Returns the different `every` of an event's functions."""
        return sorted({callback.every for callback in self._waiting[event]})

    @property
    def need_stages(self) -> bool:
        """Whether somebody looks between the stages of an iteration."""
        return any(self._waiting[event] for event in STAGE_EVENTS)

    def fire(self, event: str, count: int, *told: Any) -> None:
        """Calls the functions whose turn it is.

        Args:
            event: What happens.
            count: Its number; a function is called where `every` divides it.
            *told: The arguments.
        """
        for callback in self._waiting[event]:
            if count % callback.every:
                continue
            try:
                callback.call(*told)
            except Exception:
                if self.on_error == "raise":
                    raise
                logger.exception("a callback of %s has failed", event)
