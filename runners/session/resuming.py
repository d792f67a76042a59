"""How a run begins: anew, from a checkpoint, in place of an old run, or not at all."""

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paxenv.paths import local_path
from runners.config import ConfigError, ExperimentConfig, as_dict, load
from runners.config.reading import parse
from runners.engine.devices import ensure_devices
from runners.planning.plan import Plan, prepare
from runners.storage.checkpoints import settings
from runners.storage.checkpoints.files import find_checkpoint
from runners.storage.places import LOCK, locked
from runners.storage.run_dir import RunDir

#: Settings of a run that may change when it goes on.
CHANGEABLE = (
    *("name", "description", "expected", "source", "bands", "total_timesteps"),
    *("es.num_generations", "search.iterations", "deterministic", "eval_episodes"),
    *("log_interval", "eval_interval", "checkpoint_interval", "max_checkpoints"),
    *("keep_period", "non_finite", "plot", "num_devices", "fsdp_devices"),
    *("chunk_size", "exp_dir", "save_dir", "tensorboard", "seeds_apart", "wandb"),
)
#: Settings that say where a run lies.
PLACES = ("exp_dir", "save_dir")


def plan_of_run(path: str | Path) -> tuple[Plan, RunDir]:
    """Returns the plan and the directory of a run that is to be resumed.

    Args:
        path: The run directory, its folder of checkpoints, or one of these.

    Raises:
        ConfigError: If it is none of these, or its config cannot be read.
    """
    run = _run_of(local_path(path))
    text = run.config.read_bytes()
    config = load(config_file=run.config) if text.endswith(b"\n") else None
    if config is None or _lacks_its_end(text, config):
        raise ConfigError(f"{run.config} is cut off: the run cannot go on without it")
    _mend(run, config)
    if config.num_devices > 1:
        ensure_devices(config.num_devices)
    return prepare(config), run


def start(config: ExperimentConfig, *, resume: bool, overwrite: bool) -> RunDir | None:
    """Returns the run in `save_dir` that is to be resumed, None to begin a new one.

    Settings that do not change what is learnt, and the budget, may differ from those of
    the run; the run then keeps the new ones, and a warning says so.

    Raises:
        ConfigError: If `resume` and `overwrite` are both asked for, or either
            without `save_dir`.
        CheckpointError: If the run began with other settings; names them.
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
    with locked(run.path):
        _take_over(run, config)
    return run


def opened(config: ExperimentConfig, argv: Sequence[str], overwrite: bool) -> RunDir:
    """Makes the run directory of a new run; `overwrite` deletes an old one first.

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


def _take_over(run: RunDir, config: ExperimentConfig) -> None:
    """Writes the settings with which a run goes on, unless they are others' settings.

    Raises:
        CheckpointError: If a setting differs that may not.
        ConfigError: If the run has finished, and another one is asked for.
    """
    saved, now = (_settings(c) for c in (load(config_file=run.config), config))
    changes = settings.changed(
        {settings.SETTINGS: saved},
        now,
        origin=run.path,
        free=CHANGEABLE,
        cure="Give what the run began with, or another --save-dir; --overwrite deletes "
        "it and begins again",
    )
    # Where the run lies was said by asking for it there.
    told = "; ".join(str(c) for c in changes if c.name not in PLACES)
    if run.read_meta()["status"] == "finished":
        if told:
            draws = any(change.name == "plot" for change in changes) and config.plot
            how = f"; `paxrun plot {run.path}` draws its pictures" if draws else ""
            raise ConfigError(
                f"the run {run.path} has finished and does not go on with {told}: name "
                f"another --save-dir, or --overwrite to begin again{how}"
            )
        return
    if changes:
        run.write_config(config)
    if told:
        warnings.warn(f"the run {run.path} goes on with {told}", stacklevel=3)


def _settings(config: ExperimentConfig) -> dict[str, Any]:
    """Returns a config as it runs as data, by names as users write them."""
    data = as_dict(prepare(config).config)
    agents = {f"agent{i + 1}": agent for i, agent in enumerate(data.pop("agents"))}
    return settings.described({**data, **agents})


def _mend(run: RunDir, config: ExperimentConfig) -> None:
    """Makes what a kill or a crash has left out or cut off; warns of what was cut."""
    run.make_folders()
    try:
        run.read_meta()
    except ConfigError as error:
        warnings.warn(f"{error}: it is written anew", stacklevel=2)
        run.meta_path.unlink()
        run.describe(config, run.argv)


def _lacks_its_end(text: bytes, config: ExperimentConfig) -> bool:
    """Whether the last settings of a config are missing in its file.

    Such a file was cut off between two lines, and would leave them to their defaults.
    """
    written, every = list(parse(text.decode(), "config.yaml")), list(as_dict(config))
    return len(written) < len(every) and written == every[: len(written)]


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
