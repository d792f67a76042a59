"""Weights & Biases as one more place for metrics, imported only when asked for."""

from collections.abc import Mapping
from typing import Any

from runners.config import ExperimentConfig
from runners.config.schema import as_dict
from runners.preflight import import_wandb
from runners.run_dir import RunDir
from runners.sinks import ITERATION_GROUPS, scalars


class WandbSink:
    """Sends metrics to Weights & Biases, or keeps them in the run directory (offline).

    The x axis is environment steps, for the groups of `ITERATION_GROUPS` iterations.
    A resumed run goes on under the id in `wandb_id.txt`. What it logs again is what
    the service has already, and the service ignores it.
    """

    def __init__(self, config: ExperimentConfig, run_dir: RunDir) -> None:
        wandb, settings = import_wandb(), config.wandb
        resumed = run_dir.wandb_id.is_file()
        self._run: Any = wandb.init(
            project=settings.project,
            entity=settings.entity,
            group=settings.group,
            tags=list(settings.tags),
            name=settings.name or run_dir.path.name,
            mode=settings.mode,
            id=run_dir.wandb_id.read_text().strip() if resumed else None,
            resume="allow" if resumed else None,
            config=as_dict(config),
            dir=str(run_dir.path),
        )
        run_dir.wandb_id.write_text(f"{self._run.id}\n")
        self._run.define_metric("iteration", hidden=True)
        for group in sorted(ITERATION_GROUPS):
            self._run.define_metric(f"{group}/*", step_metric="iteration")

    def log(self, env_steps: int, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Sends one row."""
        self._run.log({"iteration": iteration, **scalars(metrics)}, step=env_steps)

    def flush(self) -> None:
        """Does nothing: the package sends from a process of its own."""

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()
