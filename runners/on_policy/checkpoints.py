"""Checkpoints of an `OnPolicyRunner`: which one is meant, and what they say."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from runners.checkpoints import files
from runners.checkpoints.store import (
    CheckpointStore,
    NoCheckpointError,
    find_checkpoint,
)

FINAL = "checkpoint_final.pt"

Which = int | str | os.PathLike[str]


def chosen(store: CheckpointStore | None, which: Which) -> Path:
    """Returns the path of the checkpoint that is meant.

    Args:
        store: The runner's own checkpoints; None: it has none.
        which: A name, the environment steps, a path, "latest" (most environment steps,
            named or not) or "best".

    Raises:
        NoCheckpointError: If there is none.
    """
    if store is None:
        if isinstance(which, int) or which in (files.LATEST, files.BEST):
            raise NoCheckpointError(
                f"there is no place to look for {which!r}: give OnPolicyRunner a "
                "save_dir or a log_dir, or load_checkpoint a path"
            )
        return find_checkpoint(Path(which))
    if isinstance(which, int) or which == files.LATEST:
        steps = {files.read_record(path).step: path for path in _all(store)}
        step = which if isinstance(which, int) else max(steps, default=-1)
        if step in steps:
            return steps[step]
    return store.find(which)


def _all(store: CheckpointStore) -> list[Path]:
    named = [store.folder / files.NAMED / name for name in store.names()]
    return [*(files.step_path(store.folder, step) for step in store.steps()), *named]


def described(config: Any) -> Any:
    """Returns a config as JSON values; what JSON does not know is shown as text."""
    plain: Any = vars(config) if dataclasses.is_dataclass(config) else config
    return json.loads(json.dumps(plain, default=repr))
