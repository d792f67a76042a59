"""Whether two trees agree; what `check_agent` says where they do not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

#: Tolerances between two ways to compute the same numbers.
RTOL, ATOL = 1e-4, 1e-5


class AgentCheckError(AssertionError):
    """An agent breaks a promise; the message names it."""


def same_avals(what: str, got: Any, whose: str, expected: Any) -> None:
    """Raises unless two trees agree in structure, shape, dtype and weak type."""
    if jax.tree.structure(got) != jax.tree.structure(expected):
        raise AgentCheckError(
            f"{what} differs in structure from {whose}: {jax.tree.structure(got)} and "
            f"{jax.tree.structure(expected)}"
        )
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True
    ):
        if _aval(a) != _aval(b):
            raise AgentCheckError(
                f"{what}{jax.tree_util.keystr(path)} differs from {whose}: {_aval(a)} "
                f"and {_aval(b)} (shape, dtype, weak type)"
            )


def equal(got: Any, expected: Any) -> bool:
    """Returns whether two trees of one structure hold the same bits."""
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True)
    return all(np.array_equal(_host(a), _host(b)) for a, b in pairs)


def close(what: str, got: Any, expected: Any) -> None:
    """Raises unless two trees of one structure hold the same numbers, nearly."""
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        if not np.allclose(_host(a), _host(b), rtol=RTOL, atol=ATOL):
            raise AgentCheckError(f"{what} must agree: got {a}, expected {b}")


def _aval(x: Any) -> tuple[Any, Any, bool]:
    return x.shape, x.dtype, bool(getattr(x, "weak_type", False))


def _host(x: Any) -> np.ndarray:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(x))
    return np.asarray(x)
