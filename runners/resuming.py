"""How a run begins: fresh, from where it stopped, over an old one, or not at all."""

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

from paxenv.paths import local_path
from runners.checkpoints.files import find_checkpoint
from runners.config import ConfigError, ExperimentConfig, load
from runners.devices import ensure_devices
from runners.places import LOCK, locked
from runners.plan import Plan, prepare
from runners.run_dir import RunDir


def plan_of_run(path: str | Path) -> tuple[Plan, RunDir]:
    """Returns the plan and the directory of a run that is to go on.

    Args:
        path: The run directory, its folder of checkpoints, or one of these.

    Raises:
        ConfigError: If it is none of these, or its config cannot be read.
    """
    run = _run_of(local_path(path))
    if not run.config.read_bytes().endswith(b"\n"):
        raise ConfigError(f"{run.config} is cut off: the run cannot go on without it")
    config = load(config_file=run.config)
    _mend(run, config)
    if config.num_devices > 1:
        ensure_devices(config.num_devices)
    return prepare(config), run


def start(config: ExperimentConfig, *, resume: bool, overwrite: bool) -> RunDir | None:
    """Returns the run of `save_dir` that is to go on, None to begin a new one.

    Raises:
        ConfigError: If `resume` and `overwrite` are both asked for, or either
            without `save_dir`.
    """
    if not resume and not overwrite:
        return None
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other")
    if config.save_dir is None:
        raise ConfigError(
            "--resume and --overwrite are about the run in --save-dir: name it, or "
            "use `paxrun resume RUN_DIR`"
        )
    path = local_path(config.save_dir)
    run = RunDir(path)
    if overwrite or not (run.meta_path.is_file() and run.config.is_file()):
        return None
    _mend(run, config)
    return run


def opened(config: ExperimentConfig, argv: Sequence[str], overwrite: bool) -> RunDir:
    """Makes the run directory of a new run; with `overwrite` an old one goes first.

    Raises:
        ConfigError: If `save_dir` holds something that is not a run, or one that is
            still running.
    """
    if overwrite and config.save_dir is not None:
        path = local_path(config.save_dir)
        if path.exists() and any(path.iterdir()):
            RunDir.open(path)
            with locked(path):
                _empty(path)
                return RunDir.create(config, argv)
    return RunDir.create(config, argv)


def _mend(run: RunDir, config: ExperimentConfig) -> None:
    """Writes the facts about a run anew, with a warning, if their file is damaged."""
    try:
        run.read_meta()
    except ConfigError as error:
        warnings.warn(f"{error}: it is written anew", stacklevel=2)
        run.meta_path.unlink()
        run.describe(config, run.argv)


def _empty(path: Path) -> None:
    """Deletes what a folder holds, apart from its lock; last what makes it a run's."""
    meta = RunDir(path).meta_path
    for child in path.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        elif child.name not in (LOCK, meta.name):
            child.unlink()
    meta.unlink()


def _run_of(path: Path) -> RunDir:
    for folder in (path, path.parent, path.parent.parent):
        if (folder / "meta.json").is_file() and (folder / "config.yaml").is_file():
            return RunDir.open(folder)
    if path.is_dir():
        find_checkpoint(path)
    return RunDir.open(path)
