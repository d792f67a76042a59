"""One run from plan to results: train or evaluate, log, save, draw."""

import time
from collections.abc import Callable

import jax
import numpy as np

from runners import models, plots
from runners.config import ConfigError
from runners.interrupt import Interrupt
from runners.jsonl import JsonLines
from runners.metrics_log import MetricsLog, open_metrics_log
from runners.outcome import Outcome
from runners.plan import Plan, evaluation
from runners.program import Chunk, Program, trace_plan
from runners.run_dir import RunDir
from runners.summary import estimates


class Observer:
    """Who watches a run; every method may be overridden, none must be."""

    def on_compile(self, what: str) -> None:
        """A program is free of mistakes and is being compiled."""

    def on_start(self, run_dir: RunDir) -> None:
        """The run directory exists."""

    def on_chunk(self, chunk: Chunk) -> None:
        """A chunk has been run and logged."""


def run_plan(
    plan: Plan, make_run_dir: Callable[[], RunDir], observer: Observer | None = None
) -> tuple[Outcome, RunDir]:
    """Runs a plan and returns (outcome, run directory).

    Args:
        plan: What to run.
        make_run_dir: Called once the program has been traced without a mistake.
        observer: Who is told how it goes.

    Raises:
        ConfigError: If the plan does not fit together; nothing has been written then.
    """
    observer = observer or Observer()
    began = time.perf_counter()
    opened: list[RunDir] = []

    def on_traced() -> None:
        opened.append(make_run_dir())
        observer.on_start(opened[0])
        observer.on_compile("training" if plan.config.runner == "rl" else "evaluation")

    program = _compiled(plan, on_traced)
    compile_seconds = time.perf_counter() - began
    run_dir = opened[0]
    run_dir.write_meta(device=_device(), compile_seconds=round(compile_seconds, 3))
    try:
        if plan.config.runner == "rl":
            outcome = _train(program, run_dir, observer, compile_seconds)
        else:
            outcome = _evaluate_only(program, run_dir, compile_seconds)
    except BaseException:
        run_dir.finish("failed")
        raise
    run_dir.finish("interrupted" if outcome.interrupted else "finished")
    return outcome, run_dir


def _compiled(plan: Plan, on_traced: Callable[[], None]) -> Program:
    """Returns the compiled plan; what cannot be traced is a mistake in the config."""
    try:
        traced = trace_plan(plan, models.load_models(plan))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    on_traced()
    return traced.compile()


def evaluate(program: Program) -> dict[str, np.ndarray]:
    """Returns metrics `[seeds]` by name of the agents as a training left them."""
    states = dict(enumerate(program.state.agents))
    return _one_iteration(trace_plan(evaluation(program.plan), states).compile())


def _train(
    program: Program, run_dir: RunDir, observer: Observer, compile_seconds: float
) -> Outcome:
    plan = program.plan
    history: list[Chunk] = []
    with Interrupt() as interrupt:
        with open_metrics_log(plan.config, run_dir) as log:
            for chunk in program.chunks(stop=lambda: interrupt.requested):
                _log(plan, chunk, log)
                history.append(chunk)
                observer.on_chunk(chunk)
        models.save_models(program, run_dir)
        done = sum(chunk.length for chunk in history)
        interrupted = done < plan.num_iterations
        metrics: dict[str, np.ndarray] = {}
        if not interrupted:
            observer.on_compile("evaluation")
            metrics = evaluate(program)
    outcome = Outcome(
        plan=plan,
        evaluation=estimates(metrics),
        num_iterations=done,
        seconds=history[-1].seconds if history else 0.0,
        compile_seconds=compile_seconds,
        interrupted=interrupted,
    )
    _write(outcome, metrics, run_dir)
    if history:
        plots.reward_curve(outcome, history, run_dir.artifacts / "reward_curve.png")
    return outcome


def _evaluate_only(
    program: Program, run_dir: RunDir, compile_seconds: float
) -> Outcome:
    began = time.perf_counter()
    metrics = _one_iteration(program)
    outcome = Outcome(
        plan=program.plan,
        evaluation=estimates(metrics),
        num_iterations=1,
        seconds=time.perf_counter() - began,
        compile_seconds=compile_seconds,
        interrupted=False,
    )
    _write(outcome, metrics, run_dir)
    return outcome


def _one_iteration(program: Program) -> dict[str, np.ndarray]:
    (chunk,) = program.chunks()
    return {name: rows[:, 0] for name, rows in chunk.rows.items()}


def _write(outcome: Outcome, metrics: dict[str, np.ndarray], run_dir: RunDir) -> None:
    run_dir.write_results(outcome.as_dict())
    if not metrics:
        return
    with JsonLines(run_dir.eval_metrics) as log:
        for seed in range(outcome.plan.config.num_seeds):
            named = {
                f"eval/{outcome.mode}/{name}": float(values[seed])
                for name, values in metrics.items()
            }
            log.write({"seed": seed, "iteration": outcome.num_iterations, **named})
    plots.cooperation(outcome, run_dir.artifacts / "cooperation.png")


def _log(plan: Plan, chunk: Chunk, log: MetricsLog) -> None:
    """Writes the rows of a chunk that are due."""
    for i in range(chunk.length):
        iteration = chunk.first + i + 1
        if not is_due(plan, iteration):
            continue
        row = {name: values[:, i] for name, values in chunk.rows.items()}
        env_steps = iteration * plan.steps_per_iteration
        log.log(env_steps, iteration, {**row, "time/seconds": round(chunk.seconds, 3)})
    log.flush()


def is_due(plan: Plan, iteration: int) -> bool:
    """Whether the row of an iteration (from 1) is logged: also always the last one."""
    interval = plan.config.log_interval
    if interval == 0 or iteration == plan.num_iterations:
        return True
    after = iteration * plan.steps_per_iteration
    before = after - plan.steps_per_iteration
    return after // interval > before // interval


def _device() -> str:
    device = jax.devices()[0]
    return f"{device.platform}: {device.device_kind}"
