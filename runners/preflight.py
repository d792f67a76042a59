"""What would end a run at its first row or its last one, found before it begins."""

import importlib
from pathlib import Path
from typing import Any

from paxenv.paths import local_path
from runners.config import ConfigError, ExperimentConfig
from runners.places import check_writable


def check_ready(config: ExperimentConfig, folder: Path | None = None) -> None:
    """Raises if a run could not be written, logged or drawn; compiles nothing.

    Args:
        config: Of the run.
        folder: Its directory; None: the one that the config asks for.

    Raises:
        UnwritableError: If nothing can be written there.
        ConfigError: If a package is missing that the config needs.
    """
    if folder is None and config.save_dir is not None:
        folder = local_path(config.save_dir)
    check_writable(
        folder or local_path(config.exp_dir) / config.name,
        "run directory",
        for_checkpoints=config.runner != "eval",
    )
    if config.wandb.log or any(agent.run_path for agent in config.agents):
        import_wandb()
    if config.tensorboard:
        _import("tensorboardX", "pip install tensorboardX", "set tensorboard=false")
    if config.plot:
        _import("matplotlib", "pip install matplotlib", "set plot=false")


def import_wandb() -> Any:
    """Returns the package Weights & Biases.

    Raises:
        ConfigError: If it is not installed.
    """
    return _import(
        *("wandb", "pip install 'paxenv[wandb]'", "leave out wandb.log and --run-path")
    )


def _import(name: str, install: str, instead: str) -> Any:
    try:
        package = importlib.import_module(name)
    except ImportError:
        package = None
    # A folder of that name, such as the service's own `wandb/`, is imported too.
    if package is None or (
        getattr(package, "__file__", None) is None and hasattr(package, "__path__")
    ):
        raise ConfigError(f"{name} is not installed: run `{install}`, or {instead}")
    return package
