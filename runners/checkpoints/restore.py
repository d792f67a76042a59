"""Reading checkpoints back: a whole state by its template, or some arrays by name."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from runners.checkpoints import files, tree
from runners.checkpoints.files import CheckpointError, DamagedError, find_checkpoint

#: Folders are made before `save` returns, not in the background. A folder that cannot
#: be made is then an error of `save` itself. And orbax tells who writes into a folder
#: that it is there by the number of "the current save", of which a process has one: of
#: two threads that save, each in a place of its own, one would write too early.
SYNCHRONOUS_FOLDERS = ocp.options.AsyncOptions(create_directories_asynchronously=False)


def restore_checkpoint(
    path: str | os.PathLike[str], template: Any, *, allow_missing: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Returns (state, meta) of a checkpoint.

    The state has exactly the structure of the template, with the template's shardings
    on the devices of this process, whatever devices it was saved from.

    Args:
        path: One checkpoint, or what `find_checkpoint` makes one of.
        template: A state of the same structure: arrays, or `jax.ShapeDtypeStruct`s.
        allow_missing: Whether entries of the template may be missing, as in files of
            an older version: then the template's own arrays stand there, and a
            warning names them.

    Raises:
        CheckpointError: If entries are missing, surplus, or of another shape or dtype.
        DamagedError: If the files are damaged.
    """
    path = find_checkpoint(os.fspath(path))
    record = files.read_record(path)
    named = tree.named_leaves(template)
    missing = tree.check_entries(
        record.entries, tree.entries(named), path, allow_missing=allow_missing
    )
    if missing:
        warnings.warn(
            f"{path} has no {', '.join(missing)}: kept as in a fresh state",
            stacklevel=2,
        )
    wanted = {name: leaf for name, leaf in named.items() if name not in missing}
    restored = {name: leaf for name, leaf in named.items() if name in missing}
    stored = _read(path, {n: leaf for n, leaf in wanted.items() if leaf.size})
    for name, leaf in wanted.items():
        data = stored[name] if leaf.size else tree.without_elements(leaf)
        restored[name] = tree.like(leaf, data)
    structure = jax.tree.structure(template)
    leaves = [restored[name] for name in named]
    return jax.tree.unflatten(structure, leaves), dict(record.meta)


def restore_first_whole(
    paths: Sequence[Path], template: Any, *, allow_missing: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Returns (state, meta) of the first checkpoint that is not damaged.

    A warning names each one that is.

    Args:
        paths: At least one checkpoint, the one that is wanted most first.
        template: As in `restore_checkpoint`, or a function that returns it for a path.
        allow_missing: As in `restore_checkpoint`.

    Raises:
        CheckpointError: As `restore_checkpoint`; DamagedError if all are damaged.
    """
    for path, is_last in zip(paths, (*[False] * (len(paths) - 1), True), strict=True):
        try:
            wanted = template(path) if callable(template) else template
            return restore_checkpoint(path, wanted, allow_missing=allow_missing)
        except DamagedError as error:
            if is_last:
                raise
            warnings.warn(f"{error}; the one before it is taken", stacklevel=2)
    raise ValueError("there is no path to restore from")


def read_arrays(
    path: str | os.PathLike[str], names: Sequence[str]
) -> dict[str, np.ndarray]:
    """Returns some entries of a checkpoint as host arrays, keys as their data.

    Raises:
        CheckpointError: If an entry is missing, or the files are damaged.
    """
    path = find_checkpoint(os.fspath(path))
    known = files.read_record(path).entries
    missing = [name for name in names if name not in known]
    if missing:
        raise CheckpointError(f"{path} has no {', '.join(missing)}")
    empty = {n: np.zeros(known[n][0]) for n in names if 0 in known[n][0]}
    return _read(path, {n: np.zeros(()) for n in names if n not in empty}) | empty


def handler() -> ocp.CompositeCheckpointHandler:
    """Returns what writes and reads the two parts of a checkpoint."""
    return ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(async_options=SYNCHRONOUS_FOLDERS),
        **{
            files.STATE_ITEM: ocp.PyTreeCheckpointHandler(),
            files.META_ITEM: ocp.JsonCheckpointHandler(files.RECORD_FILE),
        },
    )


def _read(path: Path, leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Returns stored arrays by name: in the leaf's sharding, or on the host."""
    if not leaves:
        return {}
    how = {
        name: ocp.ArrayRestoreArgs(sharding=leaf.sharding)
        if tree.goes_straight_to_devices(leaf)
        else ocp.RestoreArgs(restore_type=np.ndarray)
        for name, leaf in leaves.items()
    }
    wanted = ocp.args.PyTreeRestore(
        item=dict.fromkeys(leaves, 0), restore_args=how, partial_restore=True
    )
    with ocp.Checkpointer(handler()) as checkpointer:
        try:
            read = checkpointer.restore(
                path, args=ocp.args.Composite(**{files.STATE_ITEM: wanted})
            )
        except Exception as error:
            raise DamagedError(f"{path} is damaged: {error}") from error
    return read[files.STATE_ITEM]
