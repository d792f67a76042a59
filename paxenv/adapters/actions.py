"""Actions that come from outside: checked against their spaces before a game runs."""

from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Bool, Shaped

#: Kinds of dtypes that hold numbers: bool, signed, unsigned, float.
NUMBERS = "biuf"


def checked_action(
    action: Any, space: gymnasium.Space, player: str
) -> Shaped[np.ndarray, "..."] | np.generic:
    """Returns one action in its space's dtype.

    Whole numbers in floats are accepted by discrete spaces, fractions are not.

    Args:
        action: What the caller passed: a number, an array, or a tensor.
        space: The space it must be in.
        player: Who acts, for the message.

    Raises:
        ValueError: If the action is not in the space; names the player and the value.
    """
    if isinstance(action, int | np.integer) and isinstance(
        space, gymnasium.spaces.Discrete
    ):
        if 0 <= action - space.start < space.n:
            return space.dtype.type(action)  # type: ignore[union-attr]
        raise ValueError(f"{player}'s action {action!r} is not in {space}")
    value = on_host(action)
    fits = value.shape == space.shape and value.dtype.kind in NUMBERS
    if fits and np.all(_inside(value, space)):
        return value.astype(space.dtype)
    raise ValueError(f"{player}'s action {action!r} is not in {space}")


def checked_actions(
    actions: Any, space: gymnasium.Space, num_lanes: int, player: str
) -> tuple[Shaped[np.ndarray, "lanes ..."], Bool[np.ndarray, " lanes"]]:
    """Returns a batch of actions on the host, and which lanes' are in the space.

    Args:
        actions: `[num_lanes, ...]`: a list, an array, or a tensor.
        space: The space of one action.
        num_lanes: The number of lanes.
        player: Who acts, for the message.

    Raises:
        ValueError: If the batch has the wrong shape or does not hold numbers.
    """
    shape = (num_lanes, *(space.shape or ()))
    values = on_host(actions)
    if values.shape != shape or values.dtype.kind not in NUMBERS:
        raise ValueError(
            f"{player}'s actions must be numbers of shape {shape}, one for each lane, "
            f"got {values.dtype} of shape {values.shape}"
        )
    inside = np.asarray(_inside(values, space)).reshape(num_lanes, -1)
    return values, np.asarray(inside.all(axis=1))


def on_host(actions: Any) -> Shaped[np.ndarray, "..."]:
    """Returns numbers, a JAX array or a Torch tensor as a NumPy array."""
    if hasattr(actions, "detach"):
        actions = actions.detach().cpu()
    return np.asarray(actions)


def _inside(values: np.ndarray, space: gymnasium.Space) -> Any:
    """Returns where numbers are in the space, elementwise; NaN is in none."""
    if isinstance(space, gymnasium.spaces.Discrete):
        offset = values - space.start
        return (offset >= 0) & (offset < space.n) & (values == np.floor(values))
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        offset = values - space.start
        return (offset >= 0) & (offset < space.nvec) & (values == np.floor(values))
    if isinstance(space, gymnasium.spaces.Box):
        cast = values.astype(space.dtype)
        return (cast >= space.low) & (cast <= space.high)
    raise TypeError(f"actions in {space} are not supported")
