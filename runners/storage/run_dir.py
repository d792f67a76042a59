"""The folder of one run: its config, its results, and how it is found.

exp/<experiment>/<UTC time>_s<seed>_<6 hex>/
    config.yaml           the whole config; --config with it repeats the run
    overrides.txt         the command line
    .lock                 the process that writes to it; gone after the run
    meta.json             versions, device, status
    logs/metrics.jsonl    training: one row for each logged iteration and seed
    logs/eval.jsonl       evaluation: one row for each seed
    tb/                   the metrics for TensorBoard, means over seeds
    wandb_id.txt          the run's id at Weights & Biases, if it is logged there
    checkpoints/          step_<env steps>/, from which `paxrun resume` continues
    models/               weights
    artifacts/            results.json and pictures
"""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import secrets
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paxenv.paths import local_path, part_of, replacing
from runners.config import ConfigError, ExperimentConfig, to_yaml
from runners.storage.checkpoints import files
from runners.storage.places import LOCK, is_locked

FORMAT = 1
STATUSES = ("running", "finished", "interrupted", "failed", "killed")
PACKAGES = ("paxenv", "jax", "jaxlib", "flax", "optax", "numpy")


class RunDir:
    """One run's folder.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = local_path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"RunDir({str(self.path)!r})"

    @classmethod
    def create(cls, config: ExperimentConfig, argv: Sequence[str]) -> "RunDir":
        """Makes the folder of a new run, with its config, command line and facts.

        Raises:
            ConfigError: If `save_dir` holds a run or other files already.
        """
        run = cls(_new_folder(config))
        # Only these two files mark a folder as a run's: see `_is_free`.
        run.describe(config, argv)
        run.write_config(config)
        _write(run.path / "overrides.txt", "\n".join(argv) + "\n")
        run.make_folders()
        return run

    def write_config(self, config: ExperimentConfig) -> None:
        """Writes the resolved config."""
        _write(self.config, to_yaml(config))

    def make_folders(self) -> None:
        """Makes its missing sub-folders."""
        for folder in ("logs", "models", "artifacts"):
            (self.path / folder).mkdir(exist_ok=True)

    def describe(self, config: ExperimentConfig, argv: Sequence[str]) -> None:
        """Writes the config, the command line and the facts before the run starts."""
        self.write_meta(
            format=FORMAT,
            experiment=config.name,
            group=config.wandb.group,
            tags=list(config.wandb.tags),
            name=config.wandb.name,
            seed=config.seed,
            num_seeds=config.num_seeds,
            argv=list(argv),
            status="running",
            started=_now().isoformat(timespec="microseconds"),
            git_sha=_git_sha(),
            python=platform.python_version(),
            versions={name: _version(name) for name in PACKAGES},
        )

    @classmethod
    def open(cls, path: str | Path) -> "RunDir":
        """Returns an existing run; makes no files.

        Raises:
            ConfigError: If the folder is not a run's.
        """
        run = cls(path)
        if not run.meta_path.is_file():
            raise ConfigError(f"{path} is not a run directory: it has no meta.json")
        return run

    @property
    def config(self) -> Path:
        """The resolved config."""
        return self.path / "config.yaml"

    @property
    def meta_path(self) -> Path:
        """Facts about the run."""
        return self.path / "meta.json"

    @property
    def metrics(self) -> Path:
        """The metrics."""
        return self.path / "logs" / "metrics.jsonl"

    @property
    def eval_metrics(self) -> Path:
        """The metrics of evaluations, one row for each seed."""
        return self.path / "logs" / "eval.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / files.FOLDER

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's event files."""
        return self.path / "tb"

    def wandb_id(self, seed: int | None = None) -> Path:
        """The file of the run's id at Weights & Biases, or of the id of one seed."""
        suffix = "" if seed is None else f"_seed{seed}"
        return self.path / f"wandb_id{suffix}.txt"

    @property
    def results(self) -> Path:
        """The final numbers."""
        return self.path / "artifacts" / "results.json"

    @property
    def artifacts(self) -> Path:
        """The folder of pictures and results."""
        return self.path / "artifacts"

    @property
    def models(self) -> Path:
        """The folder of weights."""
        return self.path / "models"

    def model(self, player: int, seed_index: int = 0) -> Path:
        """The weights of the agent of a player (from 1) in one of the seeds."""
        suffix = f"_seed{seed_index}" if seed_index else ""
        return self.models / f"player{player}{suffix}.msgpack"

    def best_model(self, player: int, seed_index: int = 0) -> Path:
        """The weights of the best member of the search for a player (from 1)."""
        path = self.model(player, seed_index)
        return path.with_stem(path.stem.replace("player", "best_player", 1))

    @property
    def argv(self) -> list[str]:
        """The words of the command line, none if they were not written."""
        path = self.path / "overrides.txt"
        if not path.is_file():
            return []
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()

    def status(self) -> str:
        """Returns the status of the run, one of `STATUSES`.

        A run that has not recorded its end and has no writing process any more was
        killed.

        Raises:
            ConfigError: If the file of its facts was cut off or changed.
        """
        status = self.read_meta().get("status", "unknown")
        if status == "running" and not is_locked(self.path):
            return "killed"
        return status

    def read_meta(self) -> dict[str, Any]:
        """Returns the facts about the run.

        Raises:
            ConfigError: If the file was cut off or changed.
        """
        return _read_json(self.meta_path)

    def read_results(self) -> dict[str, Any]:
        """Returns the final numbers, `{}` before they are written.

        Raises:
            ConfigError: If the file was cut off or changed.
        """
        return _read_json(self.results) if self.results.is_file() else {}

    def write_meta(self, **facts: Any) -> None:
        """Adds or replaces facts about the run."""
        old = self.read_meta() if self.meta_path.is_file() else {}
        _write(self.meta_path, json.dumps({**old, **facts}, indent=2) + "\n")

    def write_results(self, results: dict[str, Any]) -> None:
        """Writes the final numbers."""
        _write(self.results, json.dumps(results, indent=2, allow_nan=False) + "\n")

    def fail(self, status: str = "failed") -> None:
        """Records that the run ended before its time, if that can still be written."""
        with contextlib.suppress(OSError, ConfigError):
            self.finish(status)

    def finish(self, status: str) -> None:
        """Records the final status of the run, one of `STATUSES`."""
        if status not in STATUSES:
            raise ValueError(f"status must be one of {STATUSES}, got {status!r}")
        self.write_meta(status=status, ended=_now().isoformat(timespec="microseconds"))


def find_runs(
    exp_dir: str | Path,
    *,
    experiment: str | None = None,
    group: str | None = None,
    name: str | None = None,
    status: str | None = None,
    tag: str | None = None,
) -> list[RunDir]:
    """Returns the runs under a folder, oldest first; warns of damaged ones.

    Args:
        exp_dir: The folder; it may be a run itself.
        experiment: Only runs of this experiment, including those with another game or
            other agents (`ipd/ppo+payoff`), or of all in a family (`ipd`).
        group: Only runs of this group.
        name: Only runs of this name.
        status: Only runs of this status, one of `STATUSES`.
        tag: Only runs with this tag.
    """
    folders = [path.parent for path in local_path(exp_dir).rglob("meta.json")]
    wanted = {"group": group, "name": name}
    wanted = {key: value for key, value in wanted.items() if value is not None}

    def fits(run: RunDir, meta: dict[str, Any]) -> bool:
        parts = f"{meta.get('experiment')}/".replace("+", "/")
        return (
            all(meta.get(key) == value for key, value in wanted.items())
            and (experiment is None or parts.startswith(f"{experiment.rstrip('/')}/"))
            and (tag is None or tag in meta.get("tags", ()))
            and (status is None or run.status() == status)
        )

    found = []
    for folder in folders:
        run = RunDir(folder)
        try:
            meta = run.read_meta()
        except ConfigError as error:
            warnings.warn(f"{error}: the run is left out", stacklevel=2)
            continue
        if fits(run, meta):
            found.append((str(meta.get("started", "")), folder.name, run))
    return [run for *_, run in sorted(found, key=lambda entry: entry[:2])]


def _new_folder(config: ExperimentConfig) -> Path:
    if config.save_dir is not None:
        path = local_path(config.save_dir)
        if path.exists() and not _is_free(path):
            over = RunDir(path).meta_path.is_file()
            instead = (
                ", or give `paxrun` --resume to go on with its run, --overwrite to "
                "delete it"
            )
            raise ConfigError(
                f"save_dir {path} exists and is not empty: name another save_dir"
                f"{instead if over else ''}"
            )
        path.mkdir(parents=True, exist_ok=True)
        return path
    parent = local_path(config.exp_dir) / config.name
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        time = _now().strftime("%Y%m%dT%H%M%SZ")
        path = parent / f"{time}_s{config.seed}_{secrets.token_hex(3)}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path


def _is_free(path: Path) -> bool:
    """Whether a folder holds at most the leftovers of a killed creation."""
    if not path.is_dir():
        return False
    run = RunDir(path)
    left = {path / LOCK, run.meta_path, *map(part_of, (run.meta_path, run.config))}
    return left.issuperset(path.iterdir())


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode("utf-8", errors="surrogateescape"))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is damaged: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path} is damaged: it holds no JSON object")
    return data


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_sha() -> str | None:
    """Returns the commit of the working directory, None outside of a repository."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
