"""The loop of an `OnPolicyRunner`: which events and tasks belong to an iteration."""

import logging
from typing import Any

from runners.intervals import Interval
from runners.loop import Chunk, Loop, Task
from runners.on_policy.names import History
from runners.program import Rows
from runners.progress import Line

logger = logging.getLogger(__name__)


class StageEvents:
    """Tells the callbacks of a runner what happens between the stages.

    What happens before counts the iterations that are done, what happens after has the
    number of its own iteration, from 1.
    """

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def pre_rollout(self) -> None:
        """Before anything is played."""
        runner = self._runner
        runner.callbacks.fire("pre_rollout", runner.iteration, runner)

    def post_rollout(self, rows: Rows) -> None:
        """After it."""
        runner = self._runner
        stats = runner.metrics.current(rows)
        runner.callbacks.fire("post_rollout", runner.iteration + 1, runner, stats)

    def pre_update(self) -> None:
        """Before the agent learns."""
        runner = self._runner
        runner.callbacks.fire("pre_update", runner.iteration, runner)

    def post_update(self, rows: Rows) -> None:
        """After it."""
        runner = self._runner
        stats = runner.stats_of(rows)
        runner.callbacks.fire("post_update", runner.iteration, runner, stats)


class OnPolicyLoop:
    """One call of `learn`.

    Attributes:
        loop: What advances the program.
        history: What has been seen of it.
    """

    def __init__(self, runner: Any, num_iterations: int, line: Line) -> None:
        """Sets up the tasks: events of an iteration come before its log and its save.

        Args:
            runner: The `OnPolicyRunner`.
            num_iterations: Where it ends, from the very beginning.
            line: Told how far it is.
        """
        line.doing("compiling", "training")
        self._runner = runner
        self.history = History()
        stages = runner.callbacks.need_stages
        if stages:
            logger.info(
                "callbacks between the stages: every stage is a call of its own"
            )
        self.loop = Loop(
            program=runner.program,
            num_iterations=num_iterations,
            on_chunk=(self._keep, lambda chunk: line.advance(chunk.last)),
            tasks=self._tasks(),
            before_chunk=self._before,
            stages=StageEvents(runner) if stages else None,
            non_finite=runner.non_finite,
            seconds=runner.seconds,
        )

    def _tasks(self) -> list[Task]:
        runner = self._runner
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

    def _before(self) -> None:
        runner = self._runner
        runner.callbacks.fire("pre_iteration", runner.iteration, runner)

    def _keep(self, chunk: Chunk) -> None:
        runner = self._runner
        per_iteration = runner.program.experiment.steps_per_iteration
        taken = max(chunk.seconds - runner.seconds, 1e-9)
        runner.seconds = chunk.seconds
        for i in range(chunk.length):
            number = chunk.first + i + 1
            one = runner.stats_of(chunk.rows, i)
            self.history.add(number, number * per_iteration, one)
        stats = runner.metrics.add(chunk.rows)
        stats["time/fps"] = chunk.length * per_iteration / taken
        stats["time/iteration"] = float(chunk.last)
        runner.stats = stats
        runner.callbacks.fire("post_iteration", chunk.last, runner, stats)
