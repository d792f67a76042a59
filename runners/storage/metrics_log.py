"""The metrics of a run in all its places: rows of seeds as JSON, means elsewhere."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from runners.config import ExperimentConfig, as_dict
from runners.storage.jsonl import JsonLines
from runners.storage.places import import_wandb
from runners.storage.run_dir import RunDir
from runners.storage.sinks import (
    ITERATION_GROUPS,
    Position,
    Sink,
    mean_over_seeds,
    scalars,
)
from runners.storage.tensorboard import TensorBoard

#: The type of artifacts that hold weights.
MODEL = "model"


class WandbSink:
    """Sends metrics to Weights & Biases, or keeps them in the run directory (offline).

    The x axis is environment steps, for the groups of `ITERATION_GROUPS` iterations.
    A resumed run continues under the id in `wandb_id.txt`. The service ignores rows
    that the resumed run logs again.
    """

    def __init__(
        self, config: ExperimentConfig, run_dir: RunDir, seed: int | None = None
    ) -> None:
        """Opens a run of the service.

        Args:
            config: The settings of the service and of the run, which it shows.
            run_dir: The run directory.
            seed: The seed, from 0, in a group of one run for each seed; None: all.
        """
        wandb, settings = import_wandb(), config.wandb
        place = run_dir.wandb_id(seed)
        known = place.read_text(encoding="utf-8").strip() if place.is_file() else ""
        name, group = settings.name or run_dir.path.name, settings.group
        self._run: Any = wandb.init(
            project=settings.project,
            entity=settings.entity,
            group=group if seed is None else group or name,
            tags=list(settings.tags),
            name=name if seed is None else f"{name}_seed{seed}",
            mode=settings.mode,
            id=known or None,
            resume="allow" if known else None,
            config=as_dict(config) | ({} if seed is None else {"seed_index": seed}),
            dir=str(run_dir.path),
            reinit="create_new",
        )
        place.write_text(f"{self._run.id}\n", encoding="utf-8")
        self._artifact: Any = wandb.Artifact
        self._run.define_metric("iteration", hidden=True)
        for group in sorted(ITERATION_GROUPS):
            self._run.define_metric(f"{group}/*", step_metric="iteration")

    def log(
        self, env_steps: int, iteration: int, metrics: Mapping[str, ArrayLike]
    ) -> None:
        """Sends one row."""
        self._run.log({"iteration": iteration, **scalars(metrics)}, step=env_steps)

    def log_models(self, folder: Path) -> None:
        """Keeps the weights of a folder as the newest version of the run's model.

        `run_path` of an agent, and `--run-path`, find them there.
        """
        artifact = self._artifact(f"models-{self._run.id}", type=MODEL)
        artifact.add_dir(str(folder))
        self._run.log_artifact(artifact)

    def flush(self) -> None:
        """Does nothing, since the package sends from a process of its own."""

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()


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
        """Makes a log over sinks that are open, and which it closes.

        Args:
            lines: The sink of one row for each seed.
            sinks: The sinks of means over seeds.
            evaluations: The sink of the rows of evaluations; None: `lines`.
            seed_sinks: For each seed the sinks of its own metrics.
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
            iteration: Completed iterations.
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
        """Keeps a run's weights at Weights & Biases, if its metrics go there."""
        for sink in self._every():
            if isinstance(sink, WandbSink):
                sink.log_models(folder)

    def flush(self) -> None:
        """Flushes every sink; call it before a checkpoint is saved."""
        for sink in self._every():
            sink.flush()

    def close(self) -> None:
        """Closes every sink."""
        for sink in self._every():
            sink.close()

    def _every(self) -> list[Sink]:
        others = itertools.chain(self._sinks, *self._seed_sinks)
        return list(dict.fromkeys((self._lines, self._evaluations, *others)))


def open_metrics_log(
    config: ExperimentConfig, run_dir: RunDir, resume_from: Position | None = None
) -> MetricsLog:
    """Opens the sinks that a config asks for.

    Args:
        config: The config, which turns TensorBoard and Weights & Biases on or off.
        run_dir: The run directory.
        resume_from: The position from which a run resumes; later rows are removed.

    Raises:
        ConfigError: If Weights & Biases is asked for and not installed.
    """
    several = config.seeds_apart and config.num_seeds > 1
    apart = range(config.num_seeds if several else 0)
    sinks: list[Sink] = []
    seed_sinks: list[list[Sink]] = [[] for _ in apart]
    # A sink that may fail is opened first, while there is nothing to close.
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


def _rows(metrics: Mapping[str, ArrayLike]) -> list[dict[str, Any]]:
    """Returns the metrics of each seed."""
    columns = {name: np.asarray(value).tolist() for name, value in metrics.items()}
    lengths = {len(column) for column in columns.values() if isinstance(column, list)}
    if len(lengths) > 1:
        raise ValueError(f"metrics have different numbers of seeds: {sorted(lengths)}")
    return [
        {name: c[i] if isinstance(c, list) else c for name, c in columns.items()}
        for i in range(lengths.pop() if lengths else 1)
    ]
