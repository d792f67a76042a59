"""Weights & Biases as one more place for metrics, imported only when asked for."""

import importlib
from typing import Any

from runners.config import ConfigError, ExperimentConfig
from runners.config.schema import as_dict
from runners.run_dir import RunDir


class Tracker:
    """Takes metrics and does nothing with them: the offline default."""

    def __enter__(self) -> "Tracker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log(self, env_steps: int, metrics: dict[str, float]) -> None:
        """Takes the means over seeds after `env_steps` steps of each seed."""

    def close(self) -> None:
        """Ends the tracking."""


class WandbTracker(Tracker):
    """Sends metrics to Weights & Biases."""

    def __init__(self, config: ExperimentConfig, run_dir: RunDir) -> None:
        self._run: Any = import_wandb().init(
            project=config.wandb.project,
            entity=config.wandb.entity,
            group=config.wandb.group,
            name=config.wandb.name or run_dir.path.name,
            config=as_dict(config),
            dir=str(run_dir.path),
        )

    def log(self, env_steps: int, metrics: dict[str, float]) -> None:
        self._run.log(metrics, step=env_steps)

    def close(self) -> None:
        self._run.finish()


def open_tracker(config: ExperimentConfig, run_dir: RunDir) -> Tracker:
    """Returns the tracker that a config asks for."""
    return WandbTracker(config, run_dir) if config.wandb.log else Tracker()


def import_wandb() -> Any:
    """Returns the package.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        return importlib.import_module("wandb")
    except ImportError:
        raise ConfigError(
            "Weights & Biases is not installed: run `pip install wandb`, or leave out "
            "wandb.log and --run-path"
        ) from None
