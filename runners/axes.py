"""A leading axis of independent copies, such as seeds or opponents."""

from collections.abc import Callable
from typing import Any

import jax


def map_axis(
    f: Callable[..., Any], in_axes: tuple[Any, ...], size: int
) -> Callable[..., Any]:
    """Returns `f` over a leading axis of `size`: `jax.vmap`, which one copy needs not.

    Under `vmap` both branches of a `lax.cond` are run, so a single copy goes without.

    Args:
        f: A function of one copy.
        in_axes: For each argument 0, None, or a tuple of these for its parts.
        size: Length of the axis.
    """
    if size != 1:
        return jax.vmap(f, in_axes=in_axes)

    def alone(*args: Any) -> Any:
        parts = [_first(axes, arg) for axes, arg in zip(in_axes, args, strict=True)]
        return jax.tree.map(lambda x: x[None], f(*parts))

    return alone


def _first(axes: Any, tree: Any) -> Any:
    if isinstance(axes, tuple):
        return tuple(_first(a, part) for a, part in zip(axes, tree, strict=True))
    return tree if axes is None else jax.tree.map(lambda x: x[0], tree)
