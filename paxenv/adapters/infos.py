"""Gymnasium's vector form of info: entries as arrays, with masks of who has them."""

from typing import Any

import jax
import numpy as np


def at(mask: np.ndarray, entries: dict[str, Any]) -> dict[str, Any]:
    """Returns entries of NumPy arrays, at all depths with copies of a mask."""
    marked: dict[str, Any] = {}
    for name, value in entries.items():
        marked[name] = at(mask, value) if isinstance(value, dict) else value
        marked[f"_{name}"] = mask.copy()
    return marked


def masked(mask: jax.Array, entries: dict[str, Any]) -> dict[str, Any]:
    """Returns entries of JAX arrays, at all depths with the same mask."""
    marked: dict[str, Any] = {}
    for name, value in entries.items():
        marked[name] = masked(mask, value) if isinstance(value, dict) else value
        marked[f"_{name}"] = mask
    return marked


def objects(obs: Any, mask: np.ndarray) -> np.ndarray:
    """Returns an object array of single observations where `mask` holds, else None."""
    picked = np.full(mask.shape, None, dtype=object)
    for lane in np.flatnonzero(mask):
        picked[lane] = jax.tree.map(lambda x, lane=lane: x[lane].copy(), obs)
    return picked
