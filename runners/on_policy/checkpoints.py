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


def chosen(store: CheckpointStore | None, which: Which) -> list[Path]:
    """Returns the path of the checkpoint that is meant.

    After the latest come those before it, for the case that it is damaged.

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
        return [find_checkpoint(which)]
    if isinstance(which, int) or which == files.LATEST:
        store.wait()
        steps = {files.step_of(path): path for path in files.newest_first(store.folder)}
        if which == files.LATEST and steps:
            return [steps[step] for step in sorted(steps, reverse=True)]
        if isinstance(which, int) and which in steps:
            return [steps[which]]
    return [store.find(which)]


def described(config: Any) -> Any:
    """Returns a config as JSON values; what JSON does not know is shown as text."""
    plain: Any = vars(config) if dataclasses.is_dataclass(config) else config
    return json.loads(json.dumps(plain, default=repr))
