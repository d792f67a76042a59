"""States as named arrays, and back, for storing, comparing and inspecting them.

Names are the fields, keys and positions on the way to an array, such as
`outer/agents/0/opt_state/1/mu/kernel`. Empty parts of a state hold no array and have no
name: the template of a restore provides them.
"""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from paxenv.wording import listed
from runners.storage.checkpoints import files
from runners.storage.checkpoints.files import (
    CheckpointError,
    DamagedError,
    find_checkpoint,
)

#: A leaf of a template: an array, or its shape and dtype.
Leaf = jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct
Entry = tuple[tuple[int, ...], str]


def named_leaves(tree: PyTree) -> dict[str, Leaf]:
    """Returns the arrays of a tree by name.

    Raises:
        TypeError: If a leaf is not an array; names it.
        ValueError: If two leaves have one name.
    """
    named: dict[str, Leaf] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator="/") or "value"
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise TypeError(
                f"{name} is {leaf!r} of type {type(leaf).__name__}: a state that is "
                "saved holds arrays only; use jnp.asarray"
            )
        if name in named:
            raise ValueError(f"two entries of the state are both named {name}")
        named[name] = leaf
    return named


def entries(named: Mapping[str, Leaf]) -> dict[str, Entry]:
    """Returns shape and dtype by name; a typed key's dtype is `key<...>`."""
    return {
        name: (tuple(leaf.shape), str(leaf.dtype))
        for name, leaf in sorted(named.items())
    }


def storable(named: Mapping[str, Leaf]) -> dict[str, Leaf]:
    """Returns the arrays to write: keys as their data, none without elements."""
    return {
        name: jax.random.key_data(leaf)
        if isinstance(leaf, jax.Array) and _is_key(leaf)
        else leaf
        for name, leaf in named.items()
        if leaf.size
    }


def check_entries(
    saved: Mapping[str, Entry],
    expected: Mapping[str, Entry],
    origin: Path,
    *,
    allow_missing: bool = False,
) -> list[str]:
    """Compares saved entries with those of a template; returns missing names.

    Args:
        saved: Entries of the checkpoint.
        expected: Entries of the template.
        origin: The checkpoint, for messages.
        allow_missing: Whether entries of the template may be missing.

    Raises:
        CheckpointError: If entries are missing, surplus, or of another shape or dtype;
            names them.
    """
    missing = [name for name in expected if name not in saved]
    faults = [] if allow_missing else [f"{name} is missing" for name in missing]
    faults += [f"{name} is surplus" for name in saved if name not in expected]
    for name, (shape, dtype) in expected.items():
        has_shape, has_dtype = saved.get(name, (shape, dtype))
        if tuple(has_shape) != tuple(shape):
            faults.append(f"{name} has shape {tuple(has_shape)}, expected {shape}")
        elif has_dtype != dtype:
            faults.append(f"{name} has dtype {has_dtype}, expected {dtype}")
    if faults:
        raise CheckpointError(f"{origin} does not fit this state: {listed(faults)}")
    return missing


def direct_sharding(leaf: Leaf) -> jax.sharding.Sharding | None:
    """Returns the template's sharding, if an array is read directly into it.

    Other arrays pass through the host: keys, host arrays, and uncommitted arrays, which
    must stay uncommitted, or else the next call would compile anew.
    """
    if _is_of_the_host(leaf) or _is_key(leaf) or _is_weak(leaf):
        return None
    return _bound_sharding(leaf)


def like(leaf: Leaf, stored: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    """Returns a stored array in the form of the template's leaf.

    Args:
        leaf: The template's array, or its `jax.ShapeDtypeStruct`.
        stored: The array that was read: of NumPy, or already on its devices.
    """
    if _is_of_the_host(leaf) or direct_sharding(leaf) is not None:
        return stored
    if _is_key(leaf):
        # A key made from the dtype shows its implementation, also for a struct.
        impl = jax.random.key_impl(jnp.empty((), leaf.dtype))
        value = jax.random.wrap_key_data(jnp.array(stored), impl=impl)
    elif _is_weak(leaf):
        zero = jnp.asarray(leaf.dtype.type(0).item())
        value = jnp.broadcast_to(zero, leaf.shape).at[...].set(stored)
    else:
        value = jnp.array(stored, dtype=leaf.dtype)
    sharding = _bound_sharding(leaf)
    return value if sharding is None else jax.device_put(value, sharding)


def without_elements(leaf: Leaf) -> np.ndarray:
    """Returns an array that was not written because it has no elements."""
    if _is_key(leaf):
        data = jax.eval_shape(jax.random.key_data, leaf)
        return np.zeros(data.shape, data.dtype)
    return np.zeros(leaf.shape, leaf.dtype)


def _is_of_the_host(leaf: Leaf) -> bool:
    """Whether NumPy holds a leaf, be it one number; its 64 bits are then kept."""
    return isinstance(leaf, np.ndarray | np.generic)


def _is_key(leaf: Leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _is_weak(leaf: Leaf) -> bool:
    return bool(getattr(leaf, "weak_type", False))


def _bound_sharding(leaf: Leaf) -> jax.sharding.Sharding | None:
    """Returns the sharding of an array that is bound to its devices, else None.

    A struct with a sharding is bound to its devices.
    """
    committed = getattr(leaf, "committed", True)
    return getattr(leaf, "sharding", None) if committed else None


#: Folders are made before `save` returns, not in the background. A folder that cannot
#: be made is then an error of `save` itself. And orbax signals that a folder exists by
#: the number of "the current save", of which a process has one: of two threads that
#: save to different places, one would write before its folder exists.
SYNCHRONOUS_FOLDERS = ocp.options.AsyncOptions(create_directories_asynchronously=False)


def restore_checkpoint(
    path: str | os.PathLike[str], template: PyTree, *, allow_missing: bool = False
) -> tuple[PyTree, dict[str, Any]]:
    """Returns (state, meta) of a checkpoint.

    The state has exactly the structure of the template, with the template's shardings
    on the devices of this process, whatever devices it was saved from.

    Args:
        path: One checkpoint, or a path in which `find_checkpoint` finds one.
        template: A state of the same structure: arrays, or `jax.ShapeDtypeStruct`s.
        allow_missing: Whether entries of the template may be missing, as in files of
            an older version: the template's own arrays are then used, and a warning
            names them.

    Raises:
        CheckpointError: If entries are missing, surplus, or of another shape or dtype.
        DamagedError: If the files are damaged.
    """
    path = find_checkpoint(os.fspath(path))
    record = files.read_record(path)
    named = named_leaves(template)
    missing = check_entries(
        record.entries, entries(named), path, allow_missing=allow_missing
    )
    if missing:
        warnings.warn(
            f"{path} has no {', '.join(missing)}: kept as in a fresh state",
            stacklevel=2,
        )
    wanted = {name: leaf for name, leaf in named.items() if name not in missing}
    stored = _read(path, {n: direct_sharding(x) for n, x in wanted.items() if x.size})
    for name, leaf in wanted.items():
        named[name] = like(leaf, stored[name] if leaf.size else without_elements(leaf))
    restored = jax.tree.unflatten(jax.tree.structure(template), named.values())
    return restored, dict(record.meta)


def restore_first_whole(
    paths: Sequence[Path],
    template: PyTree | Callable[[Path], PyTree],
    *,
    allow_missing: bool = False,
) -> tuple[PyTree, dict[str, Any]]:
    """Returns (state, meta) of the first checkpoint that is not damaged.

    A warning names each damaged one.

    Args:
        paths: At least one checkpoint, the preferred one first.
        template: As in `restore_checkpoint`, or a function that returns it for a path.
        allow_missing: As in `restore_checkpoint`.

    Raises:
        CheckpointError: As in `restore_checkpoint`; DamagedError if all are damaged.
    """

    def restored(path: Path) -> tuple[PyTree, dict[str, Any]]:
        wanted = template(path) if callable(template) else template
        return restore_checkpoint(path, wanted, allow_missing=allow_missing)

    for path in paths[:-1]:
        try:
            return restored(path)
        except DamagedError as error:
            warnings.warn(f"{error}; the one before it is taken", stacklevel=2)
    return restored(paths[-1])


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
    return _read(path, {n: None for n in names if n not in empty}) | empty


def handler() -> ocp.CompositeCheckpointHandler:
    """Returns orbax's handler of the two parts of a checkpoint."""
    return ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(async_options=SYNCHRONOUS_FOLDERS),
        **{
            files.STATE_ITEM: ocp.PyTreeCheckpointHandler(),
            files.META_ITEM: ocp.JsonCheckpointHandler(files.RECORD_FILE),
        },
    )


def _read(
    path: Path, shardings: Mapping[str, jax.sharding.Sharding | None]
) -> dict[str, Any]:
    """Returns stored arrays by name, each in its sharding, or on the host for None."""
    if not shardings:
        return {}
    how = {
        name: ocp.RestoreArgs(restore_type=np.ndarray)
        if sharding is None
        else ocp.ArrayRestoreArgs(sharding=sharding)
        for name, sharding in shardings.items()
    }
    wanted = ocp.args.PyTreeRestore(
        item=dict.fromkeys(shardings, 0), restore_args=how, partial_restore=True
    )
    with ocp.Checkpointer(handler()) as checkpointer:
        try:
            read = checkpointer.restore(
                path, args=ocp.args.Composite(**{files.STATE_ITEM: wanted})
            )
        except Exception as error:
            raise DamagedError(f"{path} is damaged: {error}") from error
    return read[files.STATE_ITEM]
