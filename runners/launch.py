"""One run from plan to results: train or evaluate, log, save, draw."""

import contextlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np

from runners.config import ConfigError, load
from runners.engine.devices import ensure_devices
from runners.engine.program import CompiledProgram
from runners.engine.statistics import estimates
from runners.planning.plan import INNER_BUDGET, Plan, prepare
from runners.report import plots
from runners.search.outer_options import OuterConfig, es_config
from runners.search.space import unplanned
from runners.session import models
from runners.session.evaluation import play_once
from runners.session.interrupt import uninterrupted
from runners.session.loop import Interval, Observer, Task
from runners.session.outcome import Ended, Outcome, OuterOutcome
from runners.session.training import Training, lie_in, position, program_of
from runners.storage.jsonl import JsonLines, read_rows
from runners.storage.metrics_log import open_metrics_log
from runners.storage.places import check_ready, locked
from runners.storage.run_dir import RunDir
from runners.storage.sinks import START

if TYPE_CHECKING:
    from runners.views.outer_loops.es_runner import ESRunner
    from runners.views.outer_loops.outer_runner import OnlineRunner

Ending = TypeVar("Ending", Outcome, OuterOutcome)


def run(
    *words: str,
    config_file: str | Path | None = None,
    run_dir: str | Path | None = None,
    observer: Observer | None = None,
    **settings: Any,
) -> Ended:
    """Runs an experiment as `paxrun run` does, and returns the outcome.

    Args:
        *words: As on the command line: the name of a stored experiment, and
            `KEY=VALUE` for settings of any depth, such as `agent1.learning_rate=0.1`.
            Without a name it is the default experiment.
        config_file: A YAML file.
        run_dir: The run's directory, which must be new or empty; None makes
            `exp/<experiment>/<time and seed>` in the working folder, as `paxrun` does.
        observer: An observer of the run; None is silent, and notices become warnings.
        **settings: Settings by key, such as `num_envs=4` or
            `agent2={"name": "PPO", "learning_rate": 0.1}`; they win over words.

    Returns:
        The outcome: `measured` holds means and intervals by metric, `run_dir` is where
        weights, logs and pictures lie.

    Raises:
        ConfigError: If anything is unknown or does not fit; nothing has been written
            then.
        NonFiniteError: If training diverges.

    Example:
        >>> outcome = runners.run("ipd/ppo", num_seeds=2, total_timesteps=100_000)
    """
    if run_dir is not None:
        settings = {**settings, "save_dir": str(run_dir)}
    config = load(words, config_file=config_file, options=settings)
    if config.num_devices > 1:
        ensure_devices(config.num_devices)
    plan = prepare(config)
    for notice in plan.notices:
        if observer is None:
            warnings.warn(notice, stacklevel=2)
        else:
            observer.on_notice(notice)
    argv = ["run", *words, *(f"{key}={value}" for key, value in settings.items())]
    outcome, _ = run_plan(plan, lambda: RunDir.create(plan.config, argv), observer)
    return outcome


def run_plan(
    plan: Plan, make_run_dir: Callable[[], RunDir], observer: Observer | None = None
) -> tuple[Ended, RunDir]:
    """Runs a plan of any runner and returns (outcome, run directory).

    Args:
        plan: The plan.
        make_run_dir: Called once the program has been traced without a mistake.
        observer: An observer of the run.

    Raises:
        ConfigError: If the plan does not fit together, its directory cannot be written
            or is in use, or a package is missing; nothing has been written then.
        NonFiniteError: If training diverges.
    """
    observer = observer or Observer()
    check_ready(plan.config)
    with contextlib.ExitStack() as stack:

        def own_run_dir() -> RunDir:
            run_dir = make_run_dir()
            stack.enter_context(locked(run_dir.path))
            observer.on_start(run_dir)
            return run_dir

        if plan.config.kind.outer:
            runner = make_runner(plan, observer)
            return _run_outer(plan, runner, own_run_dir(), observer)
        began = time.perf_counter()
        with uninterrupted():
            program = program_of(plan)
            try:
                program.trace()
            except ValueError as error:
                raise ConfigError(str(error)) from error
        return _run(plan, program, own_run_dir(), observer, began)


def resume_plan(
    plan: Plan,
    run_dir: RunDir,
    observer: Observer | None = None,
    which: int | str = "latest",
) -> tuple[Ended, RunDir]:
    """Continues a run in its own directory, bit for bit as if it had not stopped.

    A run that was stopped before its first checkpoint begins again.

    Args:
        plan: The plan of the run.
        run_dir: Its directory.
        observer: An observer of the run.
        which: The checkpoint: a step, "latest" or "best".

    Raises:
        ConfigError: If the run has finished, is still running, cannot be written, or a
            package is missing.
        CheckpointError: If there is no such checkpoint, or it does not fit the plan.
    """
    observer = observer or Observer()
    check_ready(plan.config, run_dir.path)
    with locked(run_dir.path):
        if run_dir.read_meta()["status"] == "finished":
            raise ConfigError(
                f"the run {run_dir.path} has finished: nothing is left to do"
            )
        observer.on_start(run_dir)
        if plan.config.kind.outer:
            runner = make_runner(plan, observer)
            return _run_outer(plan, runner, run_dir, observer, resume=which)
        began = time.perf_counter()
        with uninterrupted():
            program = program_of(plan)
            training = Training(plan, program, run_dir)
            training.restore(which)
        run_dir.write_meta(status="running", resumed_from=program.env_steps)
        return _run(plan, program, run_dir, observer, began, training)


def _run(
    plan: Plan,
    program: CompiledProgram,
    run_dir: RunDir,
    observer: Observer,
    began: float,
    training: Training | None = None,
) -> tuple[Outcome, RunDir]:
    trains = plan.config.kind.trains

    def work() -> Outcome:
        what = "training" if trains else "evaluation"
        observer.on_compile(what)
        with uninterrupted():
            program.compile()
        compile_seconds = time.perf_counter() - began
        run_dir.write_meta(device=_device(), compile_seconds=round(compile_seconds, 3))
        observer.on_run(what)
        if not trains:
            return _evaluate_only(plan, program, run_dir, compile_seconds)
        own = training or Training(plan, program, run_dir)
        return _train(own, observer, compile_seconds)

    return _ended(work, run_dir), run_dir


def _ended(work: Callable[[], Ending], run_dir: RunDir) -> Ending:
    """Returns what a run came to, and notes in its directory how it ended."""
    try:
        outcome = work()
    except KeyboardInterrupt:
        run_dir.fail("interrupted")
        raise
    except BaseException:
        run_dir.fail()
        raise
    run_dir.finish("interrupted" if outcome.interrupted else "finished")
    return outcome


def _train(training: Training, observer: Observer, compile_seconds: float) -> Outcome:
    plan, program, run_dir = training.plan, training.program, training.run_dir
    session = training.session
    with session.interruptible():
        metrics = training.run(observer)
    if session.first_non_finite is not None:
        run_dir.write_meta(first_non_finite=session.first_non_finite)
        observer.on_notice(
            f"WARNING: from update {session.first_non_finite} on a loss or a "
            "parameter is NaN or infinite; the results mean nothing"
        )
    outcome = Outcome(
        plan=plan,
        evaluation=estimates(metrics),
        num_iterations=program.iteration,
        seconds=session.seconds,
        compile_seconds=compile_seconds,
        interrupted=program.iteration < plan.num_iterations,
        first_non_finite=session.first_non_finite,
        best_score=session.best_score,
        best_members=training.best_members,
        curves=training.curves,
        run_dir=run_dir,
    )
    run_dir.write_results(outcome.as_dict())
    if plan.config.plot:
        _draw(outcome, run_dir)
        plots.reward_curve(
            outcome, read_rows(run_dir.metrics), run_dir.artifacts / "reward_curve.png"
        )
    return outcome


def _evaluate_only(
    plan: Plan, program: CompiledProgram, run_dir: RunDir, compile_seconds: float
) -> Outcome:
    began = time.perf_counter()
    metrics, by_episode = play_once(program)
    outcome = Outcome(
        plan=plan,
        evaluation=estimates(metrics),
        num_iterations=1,
        seconds=time.perf_counter() - began,
        compile_seconds=compile_seconds,
        interrupted=False,
        curves=by_episode,
        run_dir=run_dir,
    )
    _write(outcome, metrics, run_dir)
    return outcome


def _write(outcome: Outcome, metrics: dict[str, np.ndarray], run_dir: RunDir) -> None:
    run_dir.write_results(outcome.as_dict())
    with JsonLines(run_dir.eval_metrics, resume_from=START) as log:
        for seed in range(outcome.plan.config.num_seeds):
            named = {
                f"eval/{outcome.mode}/{name}": float(values[seed])
                for name, values in metrics.items()
            }
            log.write({"seed": seed, "iteration": outcome.num_iterations, **named})
    if outcome.plan.config.plot:
        _draw(outcome, run_dir)


def _draw(outcome: Outcome, run_dir: RunDir) -> None:
    """Draws what an evaluation showed."""
    plots.cooperation(outcome, run_dir.artifacts / "cooperation.png")
    if outcome.curves is not None:
        path = run_dir.artifacts / "inner_episodes.png"
        plots.inner_episodes(outcome.curves, outcome.plan, path)


def _device() -> str:
    device = jax.devices()[0]
    return f"{device.platform}: {device.device_kind}"


# Outer loops.


def make_runner(plan: Plan, observer: Observer) -> "OnlineRunner | ESRunner":
    """Returns the `OnlineRunner` or `ESRunner` of a plan, before its first step.

    Args:
        plan: What to run.
        observer: Told of what the runner warns.

    Raises:
        ConfigError: If something does not fit together.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            runner = _outer_runner(plan)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(str(error)) from error
    for warning in caught:
        observer.on_notice(str(warning.message))
    return runner


def _outer_runner(plan: Plan) -> "OnlineRunner | ESRunner":
    from runners.views.outer_loops.es_runner import ESRunner
    from runners.views.outer_loops.outer_runner import OnlineRunner

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
    if config.kind.reads("search"):
        search = {INNER_BUDGET: config.total_timesteps, **config.search}
        es = es_config(search, **settings)
        runner = ESRunner(agent, plan.env, plan.params, es)
    else:
        online = OuterConfig(**settings)
        runner = OnlineRunner(agent, plan.env, plan.params, online)
    for state in models.load_models(plan).values():
        params = jax.tree.map(lambda x: x[0], state.params)
        runner.start_from(runner.agent.training_state.replace(params=params))
    return runner


def _run_outer(
    plan: Plan,
    runner: "OnlineRunner | ESRunner",
    run_dir: RunDir,
    observer: Observer,
    resume: int | str | None = None,
) -> tuple[OuterOutcome, RunDir]:
    observer.on_compile("training")

    def work() -> OuterOutcome:
        run_dir.write_meta(status="running", device=_device())
        return _train_outer(plan, runner, run_dir, observer, resume)

    return _ended(work, run_dir), run_dir


def _train_outer(
    plan: Plan,
    runner: "OnlineRunner | ESRunner",
    run_dir: RunDir,
    observer: Observer,
    resume: int | str | None,
) -> OuterOutcome:
    began, config = time.perf_counter(), plan.config
    session, program = runner.session, runner.session.program
    lie_in(run_dir, session, plan)
    total = getattr(runner.config, "iterations", plan.num_iterations)
    with session.store, session.interruptible():  # type: ignore[union-attr]
        if resume is not None:
            session.restore_or_begin(resume)
        begun = None if resume is None else position(plan, program)
        before = session.seconds
        with open_metrics_log(config, run_dir, begun) as log:

            def on_row(iteration: int, steps: int, row: dict[str, float]) -> None:
                times = {"time/seconds": round(session.seconds, 3)}
                log.log(steps, iteration, {**row, **times})
                observer.on_row(iteration, total, row)

            runner.on_row, runner.non_finite = on_row, config.non_finite
            session.flush = log.flush
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
            handle, path = runner.agent, run_dir.model(1)
            models.save_weights(plan, 0, handle.params, path, agent=handle.agent)
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
