"""The kinds of arrays that the vector environment returns."""

import importlib

import jax
import numpy as np
from jaxtyping import PyTree

ARRAYS = ("numpy", "jax", "torch")


def check_arrays(arrays: str) -> str:
    """Returns `arrays`.

    Raises:
        ValueError: If it is not one of `ARRAYS`.
        ModuleNotFoundError: If it is `"torch"` and Torch is not installed.
    """
    if arrays not in ARRAYS:
        raise ValueError(f"arrays must be one of {ARRAYS}, got {arrays!r}")
    if arrays == "torch":
        importlib.import_module("torch")
    return arrays


def convert(tree: PyTree, arrays: str) -> PyTree:
    """Returns a pytree of JAX arrays as one of the kind asked for.

    NumPy arrays are writable copies; Torch tensors share the memory of the JAX arrays,
    on the same device.
    """
    if arrays == "jax":
        return tree
    if arrays == "numpy":
        return jax.tree.map(np.array, tree)
    from_dlpack = importlib.import_module("torch").from_dlpack
    return jax.tree.map(from_dlpack, tree)
