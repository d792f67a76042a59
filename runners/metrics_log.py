"""The metrics of a run in all its places: rows of seeds as JSON, means elsewhere."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runners.config import ExperimentConfig
from runners.jsonl import JsonLines
from runners.run_dir import RunDir
from runners.sinks import Position, Sink, mean_over_seeds, scalars
from runners.tensorboard import TensorBoard
from runners.wandb_sink import WandbSink


class MetricsLog:
    """Writes metrics of all seeds to every sink; the JSON lines come first."""

    def __init__(
        self,
        lines: JsonLines,
        sinks: Sequence[Sink] = (),
        *,
        evaluations: JsonLines | None = None,
        seed_sinks: Sequence[Sequence[Sink]] = (),
    ) -> None:
        """Takes over open places.

        Args:
            lines: Gets one row for each seed.
            sinks: Get the means over seeds.
            evaluations: Gets the rows of evaluations; None leaves them among the
                others.
            seed_sinks: Those of seed i get what that seed has.
        """
        self._lines = lines
        self._evaluations = evaluations or lines
        self._sinks = tuple(sinks)
        self._seed_sinks = tuple(map(tuple, seed_sinks))

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log(
        self, env_steps: int, iteration: int, metrics: Mapping[str, np.ndarray | float]
    ) -> None:
        """Writes the row of one iteration.

        Args:
            env_steps: Environment steps that each seed has taken.
            iteration: Iterations that are done.
            metrics: Values by name, `[seeds]`, or one number that all seeds share.
        """
        self._write(self._lines, env_steps, iteration, metrics)

    def log_evaluation(
        self, env_steps: int, iteration: int, metrics: Mapping[str, np.ndarray | float]
    ) -> None:
        """Writes the row of an evaluation; arguments as in `log`."""
        self._write(self._evaluations, env_steps, iteration, metrics)

    def _write(
        self,
        lines: JsonLines,
        env_steps: int,
        iteration: int,
        metrics: Mapping[str, np.ndarray | float],
    ) -> None:
        rows = _rows(metrics)
        for seed, row in enumerate(rows):
            lines.log(env_steps, iteration, row, seed=seed)
        for own, row in zip(self._seed_sinks, rows, strict=False):
            for sink in own:
                sink.log(env_steps, iteration, row)
        if not self._sinks:
            return
        means = mean_over_seeds([scalars(row) for row in rows])
        for sink in self._sinks:
            sink.log(env_steps, iteration, means)

    def log_models(self, folder: Path) -> None:
        """Keeps a run's weights where its metrics go to Weights & Biases."""
        for sink in self._every():
            if isinstance(sink, WandbSink):
                sink.log_models(folder)

    def flush(self) -> None:
        """Hands everything over: call it before a checkpoint is saved."""
        for sink in self._every():
            sink.flush()

    def close(self) -> None:
        """Closes every place."""
        for sink in self._every():
            sink.close()

    def _every(self) -> list[Sink]:
        others = itertools.chain(self._sinks, *self._seed_sinks)
        return list(dict.fromkeys((self._lines, self._evaluations, *others)))


def open_metrics_log(
    config: ExperimentConfig, run_dir: RunDir, resume_from: Position | None = None
) -> MetricsLog:
    """Opens the places that a config asks for.

    Args:
        config: Whether TensorBoard and Weights & Biases are on.
        run_dir: Where the files are.
        resume_from: Where a resumed run goes on: what was logged later is taken out.

    Raises:
        ConfigError: If Weights & Biases is asked for and not installed.
    """
    several = config.seeds_apart and config.num_seeds > 1
    apart = range(config.num_seeds if several else 0)
    sinks: list[Sink] = []
    seed_sinks: list[list[Sink]] = [[] for _ in apart]
    # What may fail is opened first, while there is nothing to close.
    if config.wandb.log and not apart:
        sinks.append(WandbSink(config, run_dir))
    for seed in apart if config.wandb.log else ():
        seed_sinks[seed].append(WandbSink(config, run_dir, seed))
    if config.tensorboard:
        sinks.append(TensorBoard(run_dir.tensorboard, resume_from=resume_from))
        for seed in apart:
            folder = run_dir.tensorboard / f"seed{seed}"
            seed_sinks[seed].append(TensorBoard(folder, resume_from=resume_from))
    return MetricsLog(
        JsonLines(run_dir.metrics, resume_from=resume_from),
        sinks,
        evaluations=JsonLines(run_dir.eval_metrics, resume_from=resume_from),
        seed_sinks=seed_sinks,
    )


def _rows(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the metrics of each seed."""
    columns = {name: np.asarray(value).tolist() for name, value in metrics.items()}
    lengths = {len(column) for column in columns.values() if isinstance(column, list)}
    if len(lengths) > 1:
        raise ValueError(f"metrics have different numbers of seeds: {sorted(lengths)}")
    return [
        {name: c[i] if isinstance(c, list) else c for name, c in columns.items()}
        for i in range(lengths.pop() if lengths else 1)
    ]
