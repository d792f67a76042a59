"""The decorator of classes of games."""

import dataclasses
from typing import TypeVar, dataclass_transform

Game = TypeVar("Game", bound=type)

BATCHED_STEP = (
    "step = jax.vmap(env.step, in_axes=(0, None, 0, None), out_axes=(0, None, 0, 0, 0))"
)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def game(cls: Game) -> Game:
    """Makes a class of games a frozen dataclass that explains how to batch `step`.

    To assign to an attribute of such a game raises `dataclasses.FrozenInstanceError`;
    for methods the message shows what to write instead of `env.step = jax.vmap(...)`.
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    cls.__setattr__ = _refuse_assignment  # type: ignore[method-assign]
    return cls


def _refuse_assignment(self: object, name: str, value: object) -> None:
    advice = "use dataclasses.replace for a copy with another value"
    if callable(getattr(type(self), name, None)):
        advice = (
            f"batch it into a function of your own, `{BATCHED_STEP}` for a matrix "
            "game without random ends, whose state is the clock alone; other games "
            "take in_axes=(0, 0, 0, None), out_axes=0"
        )
    raise dataclasses.FrozenInstanceError(
        f"cannot assign to {name!r} of {type(self).__name__}, it is frozen: {advice}"
    )
