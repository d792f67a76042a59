"""Weights & Biases as one more place for metrics, imported only when asked for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runners.config import ExperimentConfig
from runners.config.schema import as_dict
from runners.preflight import import_wandb
from runners.run_dir import RunDir
from runners.sinks import ITERATION_GROUPS, scalars

#: The type of artifacts that hold weights.
MODEL = "model"


class WandbSink:
    """Sends metrics to Weights & Biases, or keeps them in the run directory (offline).

    The x axis is environment steps, for the groups of `ITERATION_GROUPS` iterations.
    A resumed run goes on under the id in `wandb_id.txt`. What it logs again is what
    the service has already, and the service ignores it.
    """

    def __init__(
        self, config: ExperimentConfig, run_dir: RunDir, seed: int | None = None
    ) -> None:
        """Opens a run of the service.

        Args:
            config: Its settings, and what is shown beside the metrics.
            run_dir: The run directory.
            seed: Of which seed, from 0, in a group of runs for all seeds; None: of all.
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

    def log(self, env_steps: int, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Sends one row."""
        self._run.log({"iteration": iteration, **scalars(metrics)}, step=env_steps)

    def log_models(self, folder: Path) -> None:
        """Keeps the weights in a folder, as the newest version of the run's model.

        `run_path` of an agent, and `--run-path`, find them there.
        """
        artifact = self._artifact(f"models-{self._run.id}", type=MODEL)
        artifact.add_dir(str(folder))
        self._run.log_artifact(artifact)

    def flush(self) -> None:
        """Does nothing: the package sends from a process of its own."""

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()
