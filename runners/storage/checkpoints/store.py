"""Checkpoints of a run: saved as a whole, pruned by rule, restored entry by entry.

with CheckpointStore(run_dir.path / "checkpoints") as store:
    store.save(env_steps, state, meta, metric=mean_reward)
    state, meta = store.restore(template)
"""

import contextlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from paxenv.paths import local_path
from runners.storage.checkpoints import files, tree
from runners.storage.checkpoints.files import (
    CheckpointError,
    NoCheckpointError,
    Record,
    find_checkpoint,
)
from runners.storage.checkpoints.tree import (
    SYNCHRONOUS_FOLDERS,
    handler,
    read_arrays,
    restore_checkpoint,
    restore_first_whole,
)

__all__ = [
    "CheckpointError",
    "CheckpointStore",
    "NoCheckpointError",
    "Record",
    "SaveError",
    "StartRule",
    "find_checkpoint",
    "kept_steps",
    "read_arrays",
    "restore_checkpoint",
    "start_rule",
]

#: The number of attempts to delete a folder in use, and the seconds between them.
_TRIES, _WAIT = 10, 0.1

StartRule = Literal["fresh", "resume", "overwrite"]


def start_rule(
    directory: str | Path, *, resume: bool = False, overwrite: bool = False
) -> StartRule:
    """Returns the rule by which a run that saves to `directory` starts.

    | there are checkpoints | resume | overwrite | neither |
    |---|---|---|---|
    | no | fresh | fresh | fresh |
    | yes | resume | overwrite | refused |

    A folder that exists but holds no whole checkpoint is a fresh start.

    Args:
        directory: The folder of checkpoints, or the run directory.
        resume: Whether to resume from the checkpoints there.
        overwrite: Whether to delete them (`CheckpointStore.clear`).

    Raises:
        ValueError: If both are true.
        FileExistsError: If there are checkpoints and neither is true.
    """
    if resume and overwrite:
        raise ValueError("resume and overwrite exclude each other: choose one")
    folder = local_path(directory).resolve()
    folder = files.checkpoints_folder(folder) if folder.is_dir() else folder
    if not files.has_any(folder):
        return "fresh"
    if resume:
        return "resume"
    if overwrite:
        return "overwrite"
    raise FileExistsError(
        f"{files.stock(folder)}: resume=True goes on from them, overwrite=True deletes "
        "them, or name another folder"
    )


def kept_steps(
    steps: Sequence[int],
    max_to_keep: int | None,
    keep_period: int | None,
    best: int | None = None,
) -> set[int]:
    """Returns the saved steps that are kept.

    A period is due when it is crossed, not when a step is a multiple of it: the first
    checkpoint at or after each multiple of `keep_period` is kept.
    """
    ordered = sorted(steps)
    if max_to_keep is None:
        return set(ordered)
    kept = set(ordered[-max_to_keep:])
    if keep_period is not None:
        firsts: dict[int, int] = {}
        for step in ordered:
            firsts.setdefault(step // keep_period, step)
        kept |= {step for period, step in firsts.items() if period > 0}
    return kept if best is None else kept | {best}


class SaveError(OSError):
    """A checkpoint could not be written; the message says which and why."""


class CheckpointStore:
    """The checkpoints of one run.

    `save` copies the state and returns; the files are written in the background. An
    error there is raised by the next call of any method, at the latest by `close`, so
    use the store in a `with` statement or call `close` at the end.

    Every process of a run on several hosts calls `save` and `restore`; the first one
    alone writes records and prunes.

    Attributes:
        folder: The absolute path of the checkpoints' folder, made at the first save.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        max_to_keep: int | None = 5,
        keep_period: int | None = None,
        keep_best: bool = True,
    ) -> None:
        """Opens a store; writes nothing.

        Args:
            directory: The folder of checkpoints, also a relative one, or a run
                directory that has such a folder.
            max_to_keep: The number of the latest that are kept; None keeps all.
            keep_period: Environment steps between checkpoints that are kept for good:
                the first one in each period. None: there are none.
            keep_best: Whether the one of the largest metric is kept, and a link
                `best` points to it where the file system has links.

        Raises:
            ValueError: If a number is below 1, or `directory` is of another level.
        """
        for name, value in (("max_to_keep", max_to_keep), ("keep_period", keep_period)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be >= 1 or None, got {value}")
        path = local_path(directory).resolve()
        self.folder = files.checkpoints_folder(path) if path.is_dir() else path
        self._max_to_keep = max_to_keep
        self._keep_period = keep_period
        self._keep_best = keep_best
        self._writer: ocp.AsyncCheckpointer | None = None
        self._pending: Path | None = None
        self._last: Path | None = None
        self._swept = False
        #: Metrics by step. A record is read once: pruning follows every save.
        self._metrics: dict[int, float | None] = {}

    def __enter__(self) -> "CheckpointStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def save(
        self,
        step: int,
        state: PyTree,
        meta: Mapping[str, Any],
        metric: float | None = None,
    ) -> Path:
        """Saves a managed checkpoint and returns its path; replaces one of its step.

        Args:
            step: Environment steps so far.
            state: A pytree of arrays. It may be donated once this returns.
            meta: JSON values to store beside it.
            metric: The number that "best" compares, larger is better; NaN counts as
                none.

        Raises:
            SaveError: If this save, or the one before, cannot be written.
            TypeError: If `meta` is not JSON, or a leaf of `state` no array.
        """
        path = files.step_path(self.folder, step)
        self._write(path, step, state, meta, metric)
        self._metrics.pop(step, None)
        return path

    def save_named(self, name: str, state: PyTree, meta: Mapping[str, Any]) -> Path:
        """Saves under a name, waits for it, and returns its path; never pruned.

        Args:
            name: A file name, such as `final` or `model_100.pt`; replaced if it exists.
            state: A pytree of arrays.
            meta: JSON values to store beside it. Its `env_steps` is the step.

        Raises:
            SaveError, TypeError: As for `save`.
            ValueError: If the name is not a file name.
        """
        reserved = name in ("", files.LATEST, files.BEST) or name.startswith(".")
        if reserved or Path(name).name != name or files.UNFINISHED in name:
            raise ValueError(
                f"{name!r} cannot name a checkpoint: give a file name such as final or "
                "model_100.pt"
            )
        path = self.folder / files.NAMED / name
        self._write(path, int(meta.get("env_steps", 0)), state, meta, None)
        self.wait()
        return path

    def restore(
        self,
        template: PyTree | Callable[[Path], PyTree],
        which: int | str | os.PathLike[str] = files.LATEST,
        *,
        allow_missing: bool = False,
    ) -> tuple[PyTree, dict[str, Any]]:
        """Returns (state, meta) of a checkpoint; see `restore_checkpoint`.

        If the latest is damaged, the one before it is used, with a warning.

        Args:
            template: A state of the same structure, or a function that returns it for
                the path of a checkpoint.
            which: A step, "latest", "best", a name, or a path.
            allow_missing: Whether entries may be missing.

        Raises:
            NoCheckpointError: If there is no such checkpoint.
            CheckpointError: If it does not fit, or all candidates are damaged.
        """
        return restore_first_whole(
            self.candidates(which), template, allow_missing=allow_missing
        )

    def candidates(self, which: int | str | os.PathLike[str]) -> list[Path]:
        """Returns the chosen checkpoint, and for the latest also those before it.

        Raises:
            NoCheckpointError: If there is none; lists those that exist.
        """
        found = self.find(which)
        return files.newest_first(self.folder) if which == files.LATEST else [found]

    def find(self, which: int | str | os.PathLike[str] = files.LATEST) -> Path:
        """Returns the path of a checkpoint of this store, or of another one by path.

        Raises:
            NoCheckpointError: If there is none; lists those that exist.
        """
        self.wait()
        if isinstance(which, int):
            return find_checkpoint(self.folder, which)
        name = os.fspath(which)
        own = (files.LATEST, files.BEST, *files.saved_names(self.folder))
        if name not in own:
            for path in (self.folder / name, local_path(name)):
                if path.is_dir():
                    return find_checkpoint(path)
        return find_checkpoint(self.folder, name)

    def steps(self) -> list[int]:
        """Returns the steps of all managed checkpoints, lowest first."""
        self.wait()
        return files.saved_steps(self.folder)

    def names(self) -> list[str]:
        """Returns the names of all named checkpoints."""
        self.wait()
        return files.saved_names(self.folder)

    def is_empty(self) -> bool:
        """Whether there is no checkpoint at all."""
        return not self.steps() and not self.names()

    def clear(self) -> None:
        """Deletes every checkpoint in the folder, and nothing else."""
        self.wait()
        if jax.process_index() != 0:
            return
        (self.folder / files.BEST).unlink(missing_ok=True)
        for path in files.unfinished(self.folder):
            _clear_away(path)
        for step in files.saved_steps(self.folder):
            _remove(files.step_path(self.folder, step))
        for name in files.saved_names(self.folder):
            _remove(self.folder / files.NAMED / name)
        self._metrics.clear()

    def wait(self) -> None:
        """Waits until everything is on disk, then prunes.

        Raises:
            SaveError: If the last save failed.
        """
        path, self._pending = self._pending, None
        try:
            if self._writer is not None:
                self._writer.wait_until_finished()
        except Exception as error:
            raise SaveError(
                f"cannot save the checkpoint {self._last}: {error}"
            ) from error
        if path is not None and jax.process_index() == 0:
            _put_in_place(path)
            self._prune()

    def close(self) -> None:
        """Waits for the last save and closes the store; another save opens it again.

        Raises:
            SaveError: If the last save failed.
        """
        try:
            self.wait()
        finally:
            if self._writer is not None:
                self._writer.close()
            self._writer = None

    def _write(
        self,
        path: Path,
        step: int,
        state: PyTree,
        meta: Mapping[str, Any],
        metric: float | None,
    ) -> None:
        if step < 0:
            raise ValueError(f"step counts environment steps, got {step}")
        self.wait()
        named = tree.named_leaves(state)
        metric = None if metric is None or math.isnan(metric) else float(metric)
        record = Record(step, metric, tree.entries(named), _json(meta))
        items: dict[str, Any] = {files.META_ITEM: ocp.args.JsonSave(vars(record))}
        stored = tree.storable(named)
        if stored:
            items[files.STATE_ITEM] = ocp.args.PyTreeSave(stored)
        self._last = path
        try:
            self._sweep()
            target = _spare(path, "new") if path.exists() else path
            if self._writer is None:
                self._writer = ocp.AsyncCheckpointer(
                    handler(), async_options=SYNCHRONOUS_FOLDERS
                )
            self._writer.save(target, args=ocp.args.Composite(**items))
        except Exception as error:
            raise SaveError(f"cannot save the checkpoint {path}: {error}") from error
        self._pending = path
        if target != path:
            self.wait()

    def _sweep(self) -> None:
        """Deletes, before the first save, the leftovers of killed processes."""
        if self._swept or jax.process_index() != 0:
            return
        self._swept = True
        for part in files.unfinished(self.folder):
            if part.name.endswith(".new"):
                _put_in_place(part.with_name(part.name[1:].removesuffix(".new")))
            else:
                _clear_away(part)

    def _prune(self) -> None:
        steps = files.saved_steps(self.folder)
        best = self._best(steps) if self._keep_best else None
        keep = kept_steps(steps, self._max_to_keep, self._keep_period, best)
        if best is not None:
            _point_link(
                self.folder / files.BEST, files.step_path(self.folder, best).name
            )
        for step in steps:
            if step not in keep:
                _remove(files.step_path(self.folder, step))

    def _best(self, steps: Sequence[int]) -> int | None:
        for step in steps:
            if step not in self._metrics:
                path = files.step_path(self.folder, step)
                self._metrics[step] = files.metric_of(path)
        return files.best_of({step: self._metrics[step] for step in steps})


def _spare(path: Path, suffix: str) -> Path:
    """Returns a hidden name beside a checkpoint, for its successor or its removal."""
    return path.with_name(f".{path.name}.{suffix}")


def _put_in_place(path: Path) -> None:
    """Replaces an older checkpoint by the one that was written beside it."""
    new = _spare(path, "new")
    if new.exists():
        if path.exists():
            _remove(path)
        new.rename(path)


def _remove(path: Path) -> None:
    """Deletes a checkpoint; an interruption leaves no half of one under its name."""
    old = _spare(path, "old")
    path.rename(old)
    shutil.rmtree(old)


def _clear_away(path: Path) -> None:
    """Deletes the leftovers of an interrupted save, even while threads still write.

    After a save that failed in this process, on a full disk for example, threads write
    for another moment. Files that cannot be deleted do no harm.
    """
    for _ in range(_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_WAIT)


def _point_link(link: Path, target: str) -> None:
    """Points a link elsewhere atomically: readers see the old target or the new one.

    No code reads through the link, since some file systems have none.
    """
    if link.is_symlink() and os.readlink(link) == target:
        return
    new = link.with_name(f".{link.name}.new")
    with contextlib.suppress(OSError, NotImplementedError):
        new.unlink(missing_ok=True)
        new.symlink_to(target)
        os.replace(new, link)


def _json(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of the values after a round trip through JSON.

    Raises:
        TypeError: If a value is not JSON.
    """
    try:
        return json.loads(json.dumps(dict(meta)))
    except (TypeError, ValueError) as error:
        raise TypeError(f"meta of a checkpoint must be JSON: {error}") from error
