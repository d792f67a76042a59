"""Training of a plan, with its logs, evaluations and checkpoints."""

import functools
from pathlib import Path

import jax
import numpy as np

from runners.config import ConfigError, as_dict
from runners.engine.experiment import init_outer
from runners.engine.joined_rows import JoinedRows
from runners.engine.program import (
    CompiledProgram,
    Program,
    evaluation_keys,
    initial_state,
    run_keys,
)
from runners.planning.plan import Plan
from runners.search.best import PROGRESS, BestMember, best_members
from runners.session import models
from runners.session.evaluation import Evaluation
from runners.session.loop import Chunk, Interval, Observer, Task
from runners.session.session import Session
from runners.storage.checkpoints.files import LATEST
from runners.storage.checkpoints.store import CheckpointStore
from runners.storage.metrics_log import MetricsLog, open_metrics_log
from runners.storage.run_dir import RunDir
from runners.storage.sinks import Position

#: What "best" compares, larger is better.
BEST_METRIC = "episode/return/player_1"


def program_of(plan: Plan) -> CompiledProgram:
    """Returns the program of a plan before its first iteration.

    Raises:
        ConfigError: If weights that the plan names cannot be loaded.
    """
    config = plan.config
    make_keys = run_keys if config.kind.trains else evaluation_keys
    keys = make_keys(config.seed, config.num_seeds)
    state = initial_state(plan.experiment, keys, plan.params)
    try:
        state = models.with_models(plan, state)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if plan.evolves and any(agent.model_path for agent in config.agents):
        # A search begins where the weights are.
        state = jax.vmap(functools.partial(init_outer, plan.experiment))(state)
    return CompiledProgram(plan.experiment, state)


class Training:
    """A program in its run directory.

    Attributes:
        plan: The plan.
        program: The program that trains it.
        run_dir: The run directory.
        session: The checkpoints and the progress.
        best_members: After the end of an evolution, the best member of each search.
        curves: After the end, rewards by inner episode of the final agents, as of
            `Evaluated`.
    """

    def __init__(self, plan: Plan, program: CompiledProgram, run_dir: RunDir) -> None:
        """Trains nothing yet."""
        self.plan, self.program, self.run_dir = plan, program, run_dir
        self.evaluation = Evaluation(plan)
        self._rows = JoinedRows(plan.env)
        self.session = Session(program, parts={"rows": self._rows})
        lie_in(run_dir, self.session, plan)
        self._goes_on = False
        self.best_members: tuple[BestMember, ...] = ()
        self.curves: np.ndarray | None = None

    def run(self, observer: Observer) -> dict[str, np.ndarray]:
        """Trains until the end, or until a signal; returns the metrics of the end.

        A checkpoint and the weights are always saved at the end, also of a run that was
        stopped.

        Args:
            observer: Told after each chunk has been logged, and of the evaluation.

        Returns:
            Metrics `[seeds]` by name of the final agents; nothing if it was stopped.

        Raises:
            NonFiniteError: If it diverged. What had been saved before stays.
        """
        config, per_iteration = self.plan.config, self.plan.steps_per_iteration
        resume_from = position(self.plan, self.program) if self._goes_on else None
        with open_metrics_log(config, self.run_dir, resume_from) as log:
            self.session.flush = log.flush
            with self.store:
                self.session.run(
                    self.plan.num_iterations,
                    on_chunk=(lambda chunk: self._log(log, chunk), observer.on_chunk),
                    tasks=(
                        Task(
                            Interval(config.eval_interval, per_iteration),
                            lambda _: self._evaluate(log),
                        ),
                        Task(
                            Interval(config.checkpoint_interval, per_iteration),
                            lambda _: self.session.save(),
                        ),
                    ),
                    non_finite=config.non_finite,
                )
                self.session.save()
            metrics: dict[str, np.ndarray] = {}
            if self.program.iteration == self.plan.num_iterations:
                observer.on_evaluate()
                metrics, self.curves = self.evaluation.play(self.program.state.agents)
                self._log_evaluation(log, metrics)
                if self.plan.evolves:
                    self.best_members = best_members(self.evaluation, self.program)
            models.save_models(self.plan, self.program, self.run_dir)
            models.save_best_members(self.plan, self.best_members, self.run_dir)
            log.log_models(self.run_dir.models)
        return metrics

    @property
    def store(self) -> CheckpointStore:
        """Where its checkpoints lie."""
        assert self.session.store is not None
        return self.session.store

    def restore(self, which: int | str | Path = LATEST) -> None:
        """Continues from a checkpoint of the run directory.

        A run that was stopped before its first checkpoint begins anew.

        Raises:
            CheckpointError: If there is no such one, or it does not fit the plan.
        """
        self._goes_on = True
        self.session.restore_or_begin(which)

    def _evaluate(self, log: MetricsLog) -> None:
        # What evolution stands for is compared over generations: on fixed keys.
        when = PROGRESS if self.plan.evolves else self.program.env_steps
        metrics = self.evaluation.play(self.program.state.agents, when).metrics
        self._log_evaluation(log, metrics)
        self.session.save_if_best(float(np.mean(metrics[BEST_METRIC])))

    def _log(self, log: MetricsLog, chunk: Chunk) -> None:
        """Writes the rows of a chunk that are due."""
        per_iteration = self.plan.steps_per_iteration
        rate = chunk.length * per_iteration / chunk.taken
        times = {"time/seconds": round(chunk.seconds, 3), "time/steps_per_second": rate}
        start = 0
        for i in range(1, chunk.length + 1):
            iteration = chunk.first + i
            due = is_due(self.plan, iteration)
            if due or i == chunk.length:
                self._rows.add({n: x[:, start:i] for n, x in chunk.rows.items()})
                start = i
            if due:
                row = self._rows.take()
                log.log(iteration * per_iteration, iteration, {**row, **times})

    def _log_evaluation(self, log: MetricsLog, metrics: dict[str, np.ndarray]) -> None:
        named = {
            f"eval/{self.plan.mode}/{name}": values for name, values in metrics.items()
        }
        log.log_evaluation(self.program.env_steps, self.program.iteration, named)


def lie_in(run_dir: RunDir, session: Session, plan: Plan) -> None:
    """Gives a session of a plan its place for checkpoints, which say what runs."""
    config = plan.config
    session.store = CheckpointStore(
        run_dir.checkpoints,
        max_to_keep=config.max_checkpoints,
        keep_period=config.keep_period,
    )
    session.facts = lambda: {
        "experiment": config.name,
        "config": as_dict(config),
        "seed": config.seed,
        "versions": run_dir.read_meta().get("versions", {}),
    }


def position(plan: Plan, program: Program) -> Position:
    """Returns where the log of a run that goes on is cut."""
    iteration = program.iteration
    every = Interval(plan.config.eval_interval, plan.steps_per_iteration)
    # The evaluation of the end comes after the last checkpoint.
    evaluations = int(iteration > 0 and every.is_due(iteration))
    return Position(iteration, program.env_steps, evaluations)


def is_due(plan: Plan, iteration: int) -> bool:
    """Whether the row of an iteration (from 1) is logged: also always the last one."""
    interval = Interval(plan.config.log_interval, plan.steps_per_iteration)
    every_one = plan.config.log_interval == 0
    return every_one or iteration == plan.num_iterations or interval.is_due(iteration)
