"""A state as named arrays, and back: what is stored, compared and inspected.

Names are the fields, keys and positions on the way to an array, such as
`outer/agents/0/opt_state/1/mu/kernel`. Empty parts of a state hold no array and need no
name: the template of a restore has them.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from runners.checkpoints.files import CheckpointError

Entry = tuple[tuple[int, ...], str]
#: Most entries that one message names.
_MOST_NAMED = 8


def named_leaves(tree: Any) -> dict[str, Any]:
    """Returns the arrays of a tree by name.

    Raises:
        TypeError: If a leaf is no array; names it.
        ValueError: If two leaves have one name.
    """
    named: dict[str, Any] = {}
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


def entries(named: Mapping[str, Any]) -> dict[str, Entry]:
    """Returns shape and dtype by name; a typed key's dtype is `key<...>`."""
    return {
        name: (tuple(leaf.shape), str(leaf.dtype))
        for name, leaf in sorted(named.items())
    }


def storable(named: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is written: keys as their data, arrays without elements left out."""
    return {
        name: jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for name, leaf in named.items()
        if leaf.size
    }


def check_entries(
    saved: Mapping[str, Entry],
    expected: Mapping[str, Entry],
    origin: Any,
    *,
    allow_missing: bool = False,
) -> list[str]:
    """Compares what was saved with what a template expects; returns missing names.

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
        shown = "; ".join(faults[:_MOST_NAMED])
        more = len(faults) - _MOST_NAMED
        raise CheckpointError(
            f"{origin} does not fit this state: {shown}"
            + (f"; and {more} more" if more > 0 else "")
        )
    return missing


def goes_straight_to_devices(leaf: Any) -> bool:
    """Whether an array is read right into the template's sharding.

    Others pass through the host: keys, host arrays, and uncommitted arrays, which must
    stay uncommitted, or else the next call would compile anew.
    """
    if _is_of_the_host(leaf) or _is_key(leaf) or _is_weak(leaf):
        return False
    return getattr(leaf, "sharding", None) is not None and _is_committed(leaf)


def like(leaf: Any, stored: Any) -> Any:
    """Returns a stored array as what the template has in its place.

    Args:
        leaf: The template's array, or its `jax.ShapeDtypeStruct`.
        stored: What was read: a NumPy array, or an array already in place.
    """
    if _is_of_the_host(leaf) or goes_straight_to_devices(leaf):
        return stored
    if _is_key(leaf):
        # A key made from the dtype tells its implementation, also for a struct.
        impl = jax.random.key_impl(jnp.empty((), leaf.dtype))
        value = jax.random.wrap_key_data(jnp.array(stored), impl=impl)
    elif _is_weak(leaf):
        zero = jnp.asarray(leaf.dtype.type(0).item())
        value = jnp.broadcast_to(zero, leaf.shape).at[...].set(stored)
    else:
        value = jnp.array(stored, dtype=leaf.dtype)
    sharding = getattr(leaf, "sharding", None)
    if sharding is not None and _is_committed(leaf):
        value = jax.device_put(value, sharding)
    return value


def without_elements(leaf: Any) -> np.ndarray:
    """Returns an array that was not written because it has no elements."""
    if _is_key(leaf):
        data = jax.eval_shape(jax.random.key_data, leaf)
        return np.zeros(data.shape, data.dtype)
    return np.zeros(leaf.shape, leaf.dtype)


def _is_of_the_host(leaf: Any) -> bool:
    """Whether NumPy holds it: also one number, of 64 bits where JAX has but 32."""
    return isinstance(leaf, np.ndarray | np.generic)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _is_weak(leaf: Any) -> bool:
    return bool(getattr(leaf, "weak_type", False))


def _is_committed(leaf: Any) -> bool:
    """Whether an array is bound to its devices; a struct with a sharding is."""
    return bool(getattr(leaf, "committed", True))
