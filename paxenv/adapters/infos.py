"""The forms of info: flat or nested, and Gymnasium's vector form with masks."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, PyTree, Shaped

from paxenv.types import Info

#: How entries that belong together are named: `metrics/welfare`, or in dictionaries.
FORMS = ("flat", "nested")


def check_form(form: str) -> str:
    """Returns `form`.

    Raises:
        ValueError: If it is not one of `FORMS`.
    """
    if form not in FORMS:
        raise ValueError(f"info must be one of {FORMS}, got {form!r}")
    return form


def arranged(entries: Info, form: str) -> Info:
    """Returns nested entries in one of the `FORMS`."""
    return entries if form == "nested" else dict(_flat(entries))


def lane_of(entries: Info, lane: int) -> Info:
    """Returns one lane's entries of the vector form, without the masks."""
    return {
        name: lane_of(value, lane) if isinstance(value, dict) else value[lane]
        for name, value in entries.items()
        if not name.startswith("_")
    }


def plain(entries: Info) -> Info:
    """Returns entries of NumPy arrays with scalars as Python numbers."""
    return {
        name: plain(value) if isinstance(value, dict) else _plain(value)
        for name, value in entries.items()
    }


def at(mask: Bool[np.ndarray, " lanes"], entries: Info) -> Info:
    """Returns entries of NumPy arrays, at all depths with copies of a mask."""
    marked: Info = {}
    for name, value in entries.items():
        marked[name] = at(mask, value) if isinstance(value, dict) else value
        marked[f"_{name}"] = mask.copy()
    return marked


def masked(mask: Bool[Array, " lanes"], entries: Info) -> Info:
    """Returns entries of JAX arrays, at all depths with the same mask."""
    marked: Info = {}
    for name, value in entries.items():
        marked[name] = masked(mask, value) if isinstance(value, dict) else value
        marked[f"_{name}"] = mask
    return marked


def objects(
    obs: PyTree, mask: Bool[np.ndarray, " lanes"]
) -> Shaped[np.ndarray, " lanes"]:
    """Returns an object array of single observations where `mask` holds, else None."""
    picked = np.full(mask.shape, None, dtype=object)
    for lane in np.flatnonzero(mask):
        picked[lane] = jax.tree.map(lambda x, lane=lane: x[lane].copy(), obs)
    return picked


def _flat(entries: Info, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in entries.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    return value.item() if value.ndim == 0 else value
