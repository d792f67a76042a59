"""Checkpoints as folders: how they are listed, checked and found.

Nothing is written here; `runners.storage.checkpoints.store` writes.

    checkpoints/
        step_<env steps>/       one managed checkpoint
            state/              the arrays
            meta/record.json    their `Record`
        named/<name>/           a checkpoint with a name; never pruned
        best -> step_...        the managed one of the largest metric, for people: this
                                package finds it from the records

Nothing here needs JAX, so listing is quick. A checkpoint is written under another name
and renamed when it is whole: a folder under its own name can be trusted.
"""

import dataclasses
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paxenv.paths import local_path

FORMAT = 1
META_ITEM, STATE_ITEM = "meta", "state"
RECORD_FILE = "record.json"
STEP_PREFIX = "step_"
NAMED, BEST, LATEST = "named", "best", "latest"
#: Sub-folder of a run directory.
FOLDER = "checkpoints"
#: Part of the name under which orbax writes an unfinished checkpoint.
UNFINISHED = ".orbax-checkpoint-tmp"


class CheckpointError(ValueError):
    """A checkpoint that cannot be used as asked; the message says which and why."""


class DamagedError(CheckpointError):
    """A checkpoint whose files were cut off or changed; the message says which."""


class NoCheckpointError(CheckpointError, FileNotFoundError):
    """A missing checkpoint; the message lists those that exist."""


@dataclasses.dataclass(frozen=True)
class Record:
    """The record of a checkpoint.

    Attributes:
        step: Environment steps at which it was saved.
        metric: The number that "best" compares; None if it was saved without one.
        entries: Shape and dtype of every array by its name in the state, such as
            `outer/agents/0/params/actor/kernel`.
        meta: Data of the run: its config, its clock, versions.
        format: Version of this layout.
    """

    step: int
    metric: float | None
    entries: Mapping[str, tuple[tuple[int, ...], str]]
    meta: Mapping[str, Any]
    format: int = FORMAT


def read_record(path: Path) -> Record:
    """Returns the record of one checkpoint.

    Raises:
        DamagedError: If its file was cut off or changed.
        CheckpointError: If it is of another format.
    """
    try:
        text = (path / META_ITEM / RECORD_FILE).read_text(encoding="utf-8")
        data = dict(json.loads(text))
    except (OSError, ValueError, TypeError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from error
    if data.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {data.get('format')!r}, this version reads {FORMAT}"
        )
    entries = {
        name: (tuple(shape), dtype) for name, (shape, dtype) in data["entries"].items()
    }
    return Record(**{**data, "entries": entries})


def newest_first(folder: Path) -> list[Path]:
    """Returns the whole managed checkpoints, then the named ones, the latest first.

    A checkpoint with a damaged record counts as the oldest.
    """
    managed = [step_path(folder, step) for step in reversed(saved_steps(folder))]
    named = [folder / NAMED / name for name in saved_names(folder)]
    return managed + sorted(named, key=step_of, reverse=True)


def step_path(folder: Path, step: int) -> Path:
    """Returns the path of the managed checkpoint of a step, even if it is missing."""
    return folder / f"{STEP_PREFIX}{step}"


def step_of(path: Path) -> int:
    """Returns the environment steps of a checkpoint; -1 if its record is damaged."""
    record = _record_or_none(path)
    return -1 if record is None else record.step


def is_checkpoint(path: Path) -> bool:
    """Whether a folder is one whole checkpoint."""
    hidden = path.name.startswith(".") or UNFINISHED in path.name
    return not hidden and (path / META_ITEM / RECORD_FILE).is_file()


def saved_steps(folder: Path) -> list[int]:
    """Returns the steps of the whole managed checkpoints, lowest first."""
    names = [path.name for path in _children(folder)]
    numbers = [n.removeprefix(STEP_PREFIX) for n in names if n.startswith(STEP_PREFIX)]
    steps = sorted(int(number) for number in numbers if number.isdecimal())
    return [step for step in steps if is_checkpoint(step_path(folder, step))]


def saved_names(folder: Path) -> list[str]:
    """Returns the names of the whole named checkpoints, in order."""
    return [path.name for path in _children(folder / NAMED) if is_checkpoint(path)]


def unfinished(folder: Path) -> list[Path]:
    """Returns the leftovers of interrupted saves and removals."""
    managed = [path for path in _children(folder) if STEP_PREFIX in path.name]
    candidates = managed + _children(folder / NAMED)
    return [path for path in candidates if not is_checkpoint(path)]


def best_step(folder: Path) -> int | None:
    """Returns the step of the largest metric, the earliest of equals, or None."""
    return best_of({s: metric_of(step_path(folder, s)) for s in saved_steps(folder)})


def best_of(metrics: Mapping[int, float | None]) -> int | None:
    """Returns the step of the largest of given metrics, as `best_step`."""
    known = {step: metric for step, metric in metrics.items() if metric is not None}
    return min(known, key=lambda step: (-known[step], step)) if known else None


def metric_of(path: Path) -> float | None:
    """Returns the metric that "best" compares, None without one or a sound record."""
    record = _record_or_none(path)
    return None if record is None else record.metric


def checkpoints_folder(path: str | os.PathLike[str]) -> Path:
    """Returns the absolute path of a folder of checkpoints.

    Args:
        path: The folder, or a run directory.

    Raises:
        NoCheckpointError: If there is no such folder.
        CheckpointError: If the path is of another level; names the expected one.
    """
    path = local_path(path).resolve()
    if not path.is_dir():
        raise NoCheckpointError(f"there is no folder {path}")
    for outer in (path, *path.parents):
        if is_checkpoint(outer):
            raise CheckpointError(
                f"{path} is {'' if outer == path else 'inside '}one checkpoint: the "
                f"folder of checkpoints is {_folder_of(outer)}"
            )
    if path.name == NAMED and saved_names(path.parent):
        raise CheckpointError(
            f"{path} holds the named checkpoints {', '.join(saved_names(path.parent))}"
            f": give one of them, or {path.parent}"
        )
    if (path / FOLDER).is_dir():
        return path / FOLDER
    return path


def find_checkpoint(path: str | os.PathLike[str], which: int | str = LATEST) -> Path:
    """Returns the absolute path of one checkpoint.

    Warns of unfinished saves, which are never returned.

    Args:
        path: A run directory, its folder of checkpoints, or one checkpoint, which is
            returned; `best` and `latest` in such a folder are found from the records.
        which: A step, "latest" (the highest step; a named one only if there is no
            other), "best", or a name.

    Raises:
        NoCheckpointError: If there is none; lists those that exist.
        CheckpointError: If the path is of another level; names the expected one.
    """
    path = local_path(path)
    if _is_rule(path.absolute()):
        path, which = path.absolute().parent, path.name
    given = path.resolve()
    if is_checkpoint(given):
        return given
    folder = checkpoints_folder(path)
    for part in unfinished(folder):
        warnings.warn(
            f"{part} is not used: it is not a whole checkpoint, because a save was cut "
            "off or is going on",
            stacklevel=2,
        )
    found = _chosen(folder, which)
    if found is not None and is_checkpoint(found):
        return found
    runs = [] if has_any(folder) else _runs_below(folder)
    if runs:
        raise CheckpointError(
            f"{folder} holds runs, not checkpoints: give one of them, such as "
            f"{runs[-1]}"
        )
    raise NoCheckpointError(f"no checkpoint {_described(which)} in {stock(folder)}")


def stock(folder: Path) -> str:
    """Returns a folder and its checkpoints in words, for messages."""
    steps = ", ".join(str(step) for step in saved_steps(folder))
    names = ", ".join(saved_names(folder))
    held = [f"steps {steps}"] * bool(steps) + [f"names {names}"] * bool(names)
    return f"{folder}, which holds {' and '.join(held) or 'none'}"


def has_any(folder: Path) -> bool:
    """Whether a folder holds a whole checkpoint."""
    return bool(saved_steps(folder) or saved_names(folder))


def _chosen(folder: Path, which: int | str) -> Path | None:
    if which == LATEST:
        return next(iter(newest_first(folder)), None)
    if which == BEST:
        best = best_step(folder)
        return None if best is None else step_path(folder, best)
    if isinstance(which, int):
        return step_path(folder, which)
    return folder / NAMED / which


def _record_or_none(path: Path) -> Record | None:
    try:
        return read_record(path)
    except DamagedError:
        return None


def _is_rule(path: Path) -> bool:
    """Whether a path is `best` or `latest` in a folder of checkpoints."""
    if path.name not in (BEST, LATEST) or (path.is_dir() and not path.is_symlink()):
        return False
    return has_any(path.parent)


def _described(which: int | str) -> str:
    if isinstance(which, int):
        return f"of step {which}"
    return {LATEST: "at all", BEST: "with a metric"}.get(which, repr(which))


def _runs_below(path: Path) -> list[Path]:
    """Returns the run directories under a folder: exp/<family>/<name>/<run> at most."""
    depths = ("*", "*/*", "*/*/*")
    return sorted(m.parent for depth in depths for m in path.glob(f"{depth}/meta.json"))


def _folder_of(checkpoint: Path) -> Path:
    parent = checkpoint.parent
    return parent.parent if parent.name == NAMED else parent


def _children(folder: Path) -> list[Path]:
    """Returns the folders inside a folder, in order; none if there is no folder."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as found:
        return sorted(
            folder / entry.name
            for entry in found
            if entry.is_dir(follow_symlinks=False)
        )
