"""How a run begins: fresh, from where it stopped, over an old one, or not at all."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from runners.checkpoints.files import find_checkpoint, has_any
from runners.config import ConfigError, ExperimentConfig, load
from runners.devices import ensure_devices
from runners.plan import Plan, prepare
from runners.run_dir import RunDir


def plan_of_run(path: str | Path) -> tuple[Plan, RunDir]:
    """Returns the plan and the directory of a run that is to go on.

    Args:
        path: The run directory, its folder of checkpoints, or one of these.

    Raises:
        ConfigError: If it is none of these, or holds no checkpoint.
    """
    run = _run_of(Path(path))
    if not has_any(run.checkpoints):
        raise ConfigError(f"the run {run.path} holds no checkpoint to go on from")
    config = load(config_file=run.config)
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
    path = Path(config.save_dir)
    run = RunDir(path)
    if overwrite or not run.meta_path.is_file():
        return None
    return run if has_any(run.checkpoints) else None


def opened(config: ExperimentConfig, argv: Sequence[str], overwrite: bool) -> RunDir:
    """Makes the run directory of a new run; with `overwrite` an old one goes first.

    Raises:
        ConfigError: If `save_dir` holds something that is not a run.
    """
    if overwrite and config.save_dir is not None:
        path = Path(config.save_dir)
        if path.exists() and any(path.iterdir()):
            RunDir.open(path)
            shutil.rmtree(path)
    return RunDir.create(config, argv)


def _run_of(path: Path) -> RunDir:
    for folder in (path, path.parent, path.parent.parent):
        if (folder / "meta.json").is_file() and (folder / "config.yaml").is_file():
            return RunDir.open(folder)
    if path.is_dir():
        find_checkpoint(path)
    return RunDir.open(path)
