"""An outer loop from plan to results: its run directory, logs and checkpoints."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import jax

from paxenv_agents import weights
from runners.config import ConfigError
from runners.planning.plan import INNER_BUDGET, Plan
from runners.report import plots
from runners.search.outer_options import OuterConfig, es_config
from runners.search.space import unplanned
from runners.session import models
from runners.session.loop import Interval, Observer, Task
from runners.session.outcome import OuterOutcome
from runners.session.session import Session
from runners.session.training import facts
from runners.storage.checkpoints.files import LATEST, has_any
from runners.storage.checkpoints.store import CheckpointStore
from runners.storage.jsonl import read_rows
from runners.storage.metrics_log import open_metrics_log
from runners.storage.run_dir import RunDir
from runners.storage.sinks import START, Position
from runners.views.outer_loops.es_runner import ESRunner
from runners.views.outer_loops.outer_runner import OnlineRunner, OuterRunner


def make_runner(plan: Plan) -> OnlineRunner | ESRunner:
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
    observer.on_compile("training")
    try:
        outcome = _trained(plan, runner, run_dir, observer, resume)
    except BaseException:
        run_dir.fail()
        raise
    run_dir.finish("interrupted" if outcome.interrupted else "finished")
    return outcome, run_dir


def _trained(
    plan: Plan,
    runner: OnlineRunner | ESRunner,
    run_dir: RunDir,
    observer: Observer,
    resume: int | str | None,
) -> OuterOutcome:
    """Runs a runner in its run directory and returns what it came to."""
    began, config = time.perf_counter(), plan.config
    device = jax.devices()[0]
    run_dir.write_meta(
        status="running", device=f"{device.platform}: {device.device_kind}"
    )
    session, program = _session(plan, runner, run_dir), runner.session.program
    total = getattr(runner.config, "iterations", plan.num_iterations)
    with session.store, session.interruptible():  # type: ignore[union-attr]
        position = None if resume is None else _restore(session, resume)
        before = session.seconds
        with open_metrics_log(config, run_dir, position) as log:

            def on_row(iteration: int, steps: int, row: dict[str, float]) -> None:
                times = {"time/seconds": round(session.seconds, 3)}
                log.log(steps, iteration, {**row, **times})
                log.flush()
                observer.on_row(iteration, total, row)

            runner.on_row, runner.non_finite = on_row, config.non_finite
            if program.steps_per_iteration:
                every = Interval(
                    config.checkpoint_interval, program.steps_per_iteration
                )
                runner.tasks = (Task(every, lambda _: session.save()),)
            train = runner.advance()
            # What is saved is the state of training, before the last evaluation.
            session.save()
            observer.on_evaluate()
            train, evaluation = runner.results(train)
            done, steps = program.iteration, program.env_steps
            flat = {k: v for k, v in evaluation.items() if not isinstance(v, dict)}
            log.log_evaluation(steps, done, flat)
            log.flush()
            _save_model(plan, runner, run_dir)
            log.log_models(run_dir.models)
    outcome = OuterOutcome(
        plan,
        train,
        evaluation,
        before + time.perf_counter() - began,
        interrupted=done < total,
        run_dir=run_dir,
    )
    run_dir.write_results(outcome.as_dict())
    if config.plot and config.kind.reads("search"):
        rows = read_rows(run_dir.metrics)
        plots.draw_fitness(run_dir.artifacts / "fitness.png", rows, plan.title)
    return outcome


def _session(plan: Plan, runner: OuterRunner, run_dir: RunDir) -> Session:
    """Returns the session of a runner, with a place for its checkpoints."""
    config, session = plan.config, runner.session
    session.store = CheckpointStore(
        run_dir.checkpoints,
        max_to_keep=config.max_checkpoints,
        keep_period=config.keep_period,
    )
    session.parts = {**session.parts, "turn": runner.turn}
    session.facts = lambda: facts(plan, run_dir)
    return session


def _restore(session: Session, which: int | str) -> Position:
    """Goes on from a checkpoint, or begins again where there is none yet."""
    assert session.store is not None
    if which == LATEST and not has_any(session.store.folder):
        return START
    session.restore(which)
    # The evaluation of the end comes after the last checkpoint.
    return Position(session.program.iteration, session.program.env_steps, 0)


def _save_model(plan: Plan, runner: OuterRunner, run_dir: RunDir) -> None:
    config, handle = plan.config, runner.agent
    meta = models.about_weights(config, plan.game.id, 0, 0)
    weights.save_agent(
        *(run_dir.model(1), handle.agent, handle.params, meta),
        name=config.agents[0].name,
    )
