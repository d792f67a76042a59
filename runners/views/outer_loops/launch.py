"""An outer loop from plan to results: its run directory, logs and checkpoints."""

import dataclasses
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from paxenv_agents import weights
from runners.config import ConfigError
from runners.config.schema import as_dict
from runners.engine.rows import FINITE
from runners.engine.statistics import Estimate, estimates
from runners.planning.plan import INNER_BUDGET, Plan
from runners.search.outer_options import OuterConfig, es_config
from runners.search.space import unplanned
from runners.session import models
from runners.session.loop import Interrupt, NonFiniteError, Observer
from runners.storage.checkpoints.files import LATEST, has_any, read_record
from runners.storage.checkpoints.store import CheckpointStore
from runners.storage.metrics_log import MetricsLog, open_metrics_log
from runners.storage.run_dir import RunDir
from runners.storage.sinks import START, Position
from runners.views.outer_loops.es_runner import ESRunner
from runners.views.outer_loops.outer_runner import OnlineRunner, OuterRunner, Results


@dataclasses.dataclass(frozen=True)
class OuterOutcome:
    """What an outer loop came to.

    Attributes:
        plan: What ran.
        train: Its training results.
        evaluation: Its evaluation results.
        seconds: Wall-clock seconds, with compilation.
        interrupted: Whether the user stopped it.
        run_dir: Where everything lies.
    """

    plan: Plan
    train: dict[str, Any]
    evaluation: dict[str, Any]
    seconds: float
    interrupted: bool
    run_dir: RunDir | None = None

    @property
    def num_iterations(self) -> int:
        """Iterations, or generations, that were run."""
        return self.train["step"]

    @property
    def wall_seconds(self) -> float:
        """Wall-clock seconds, with compilation."""
        return self.seconds

    @property
    def total_steps(self) -> int:
        """Environment steps that were trained."""
        return self.train["env_step"]

    @property
    def compile_seconds(self) -> None:
        """Compilation is not measured apart."""
        return None

    @property
    def measured(self) -> dict[str, Estimate]:
        """All that evaluations gave, by name: `retrained/mean_eval_reward` and so on.

        One value each: an outer loop has one seed.
        """
        values = {}
        for name, value in self.evaluation.items():
            several = value.items() if isinstance(value, dict) else ()
            values |= {f"{name}/{own}": each for own, each in several}
            if not isinstance(value, dict):
                values[name] = value
        return estimates({name: np.array([value]) for name, value in values.items()})

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for `results.json`."""
        config = self.plan.config
        return {
            "experiment": config.name,
            "game": self.plan.game.id,
            "agents": list(self.plan.names),
            "runner": config.runner,
            "seed": config.seed,
            "num_seeds": 1,
            "num_envs": config.num_envs,
            "env_steps_per_seed": self.train["env_step"],
            "env_steps": self.train["env_step"],
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
            "mode": self.plan.mode,
            "train": _finite(self.train),
            "eval": _finite(self.evaluation),
            "metrics": {name: e.as_dict() for name, e in self.measured.items()},
        }


def _finite(value: Any) -> Any:
    """Returns plain data with None for numbers that are not finite."""
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value


def make_runner(plan: Plan) -> OuterRunner:
    """Returns the runner of a plan, before its first step.

    Raises:
        ConfigError: If something does not fit together.
    """
    config = plan.config
    agent = unplanned(plan.experiment.slots[0].agent)
    settings: dict[str, Any] = {
        "num_envs": config.num_envs,
        "eval_episodes": plan.num_eval_games,
        "deterministic": config.deterministic,
        "seed": config.seed,
        "log_interval": config.log_interval or plan.steps_per_iteration,
        "num_steps": config.total_timesteps,
    }
    try:
        if not config.kind.reads("search"):
            online = OuterConfig(**settings)
            runner = OnlineRunner(agent, plan.env, plan.params, online)
        else:
            search = {INNER_BUDGET: config.total_timesteps, **config.search}
            es = es_config(search, **settings)
            runner = ESRunner(agent, plan.env, plan.params, es)
        for state in models.load_models(plan).values():
            params = jax.tree.map(lambda x: x[0], state.params)
            learner = runner.agent.training_state.replace(params=params)
            if isinstance(runner, ESRunner):
                runner.start_from(learner)
            else:
                runner.agent.training_state = learner
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return runner


def run_outer(
    plan: Plan,
    make_run_dir: Callable[[], RunDir],
    observer: Observer,
    *,
    resume: int | str | None = None,
) -> tuple[OuterOutcome, RunDir]:
    """Runs a plan of an outer loop and returns (outcome, run directory).

    Args:
        plan: What to run.
        make_run_dir: Called once everything fits together.
        observer: Who is told how it goes.
        resume: The checkpoint of the run directory from which to go on: its steps, or
            "latest"; None begins afresh.

    Raises:
        ConfigError: If the plan does not fit together; nothing has been written then.
        CheckpointError: If a checkpoint is missing or does not fit the plan.
        NonFiniteError: If training diverges.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        runner = make_runner(plan)
    for warning in caught:
        observer.on_notice(str(warning.message))
    run_dir = make_run_dir()
    run = _Run(plan, runner, run_dir, observer)
    observer.on_compile("training")
    try:
        outcome = run.run(resume)
    except BaseException:
        run_dir.fail()
        raise
    run_dir.finish("interrupted" if outcome.interrupted else "finished")
    return outcome, run_dir


class _Run:
    """A runner in its run directory."""

    def __init__(
        self, plan: Plan, runner: OuterRunner, run_dir: RunDir, observer: Observer
    ) -> None:
        self.plan, self.runner, self.run_dir = plan, runner, run_dir
        self._observer = observer
        self._saved: int | None = None
        self._previous = self._done
        self._seconds = 0.0
        self._began = time.perf_counter()

    @property
    def _done(self) -> tuple[int, int]:
        """(Iterations or generations, environment steps) so far."""
        runner = self.runner
        if isinstance(runner, ESRunner):
            return runner.generation, runner.env_steps
        return runner.agent.iteration, runner.agent.env_steps

    @property
    def _total(self) -> int:
        if isinstance(self.runner, ESRunner):
            return self.runner.config.iterations
        return self.plan.num_iterations

    def run(self, resume: int | str | None) -> OuterOutcome:
        config, runner = self.plan.config, self.runner
        device = jax.devices()[0]
        self.run_dir.write_meta(
            status="running", device=f"{device.platform}: {device.device_kind}"
        )
        store = CheckpointStore(
            self.run_dir.checkpoints,
            max_to_keep=config.max_checkpoints,
            keep_period=config.keep_period,
        )
        with store, Interrupt() as interrupt:
            position = None if resume is None else self._restore(store, resume)
            with open_metrics_log(config, self.run_dir, position) as log:
                runner.should_stop = lambda: interrupt.requested
                runner.on_row = lambda i, steps, row: self._log(log, i, steps, row)
                runner.on_progress = lambda: self._save_if_due(store, log)
                # What is saved is the state of training, before the last evaluation.
                train, evaluation = self._results(store, log)
                done, steps = self._done
                flat = {k: v for k, v in evaluation.items() if not isinstance(v, dict)}
                log.log_evaluation(steps, done, flat)
                log.flush()
                self._save_model()
                log.log_models(self.run_dir.models)
        interrupted = done < self._total
        outcome = OuterOutcome(
            self.plan,
            train,
            evaluation,
            self._now(),
            interrupted=interrupted,
            run_dir=self.run_dir,
        )
        self.run_dir.write_results(outcome.as_dict())
        self._draw()
        return outcome

    def _results(self, store: CheckpointStore, log: MetricsLog) -> Results:
        runner = self.runner
        if not isinstance(runner, ESRunner):
            results = runner.run()
            self._save(store, log)
            return results
        runner.search()
        self._save(store, log)
        return runner.results()

    def _log(
        self, log: MetricsLog, iteration: int, steps: int, row: dict[str, float]
    ) -> None:
        now = self._now()
        log.log(steps, iteration, {**row, "time/seconds": round(now, 3)})
        self._observer.on_row(iteration, self._total, row)
        if self.plan.config.non_finite == "stop":
            failed = row.get("population/failed")
            size = getattr(self.runner.config, "population_size", None)
            if row.get(FINITE, 1.0) != 1.0 or (failed is not None and failed == size):
                log.flush()
                raise NonFiniteError(iteration, 0, steps)

    def _save_if_due(self, store: CheckpointStore, log: MetricsLog) -> None:
        before, (_, steps) = self._previous[1], self._done
        self._previous = self._done
        every = self.plan.config.checkpoint_interval
        if every and steps // every > before // every:
            self._save(store, log)

    def _save(self, store: CheckpointStore, log: MetricsLog) -> None:
        done, steps = self._done
        if self._saved == done:
            return
        self._saved = done
        log.flush()
        config, runner = self.plan.config, self.runner
        meta = {
            "experiment": config.name,
            "config": as_dict(config),
            "iteration": done,
            "env_steps": steps,
            "seed": config.seed,
            "seconds": self._now(),
            "outer": runner.about(),
            "versions": self.run_dir.read_meta().get("versions", {}),
        }
        store.save(steps, runner.snapshot(), meta)

    def _restore(self, store: CheckpointStore, which: int | str) -> Position:
        """Goes on from a checkpoint, or begins again where there is none yet."""
        if which == LATEST and not has_any(store.folder):
            return START

        def template(path: Path) -> Any:
            return self.runner.template(dict(read_record(path).meta["outer"]))

        state, meta = store.restore(template, which)
        self.runner.restore(state)
        self.runner.agent.rows.load(meta["outer"].get("rows"))
        self._saved, self._seconds = int(meta["iteration"]), float(meta["seconds"])
        self._previous = self._done
        # The evaluation of the end comes after the last checkpoint.
        return Position(*self._done, evaluations=0)

    def _now(self) -> float:
        return self._seconds + time.perf_counter() - self._began

    def _save_model(self) -> None:
        config, handle = self.plan.config, self.runner.agent
        meta = models.about_weights(config, self.plan.game.id, 0, 0)
        weights.save_agent(
            *(self.run_dir.model(1), handle.agent, handle.params, meta),
            name=config.agents[0].name,
        )

    def _draw(self) -> None:
        if self.plan.config.plot and isinstance(self.runner, ESRunner):
            from runners.report.plots import draw_fitness
            from runners.storage.jsonl import read_rows

            rows = read_rows(self.run_dir.metrics)
            draw_fitness(self.run_dir.artifacts / "fitness.png", rows, self.plan.title)
