"""How a class of games is declared, and how a game of it is made from options."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, dataclass_transform

from paxenv.options import check_keywords
from paxenv.params import GameParams, from_numbers
from paxenv.registry import unknown_option

Kind = TypeVar("Kind", bound=type)
Game = TypeVar("Game")
Params = TypeVar("Params", bound=GameParams)
Make = TypeVar("Make", bound=Callable[..., Any])

BATCHED_STEP = (
    "step = jax.vmap(env.step, in_axes=(0, None, 0, None), out_axes=(0, None, 0, 0, 0))"
)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def game(cls: Kind) -> Kind:
    """Makes a class of games a frozen dataclass that explains how to batch `step`.

    To assign to an attribute of such a game raises `dataclasses.FrozenInstanceError`;
    for methods the message shows what to write instead of `env.step = jax.vmap(...)`.
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    cls.__setattr__ = _refuse_assignment  # type: ignore[method-assign]
    return cls


def makes(kind: type, params_kind: type[GameParams]) -> Callable[[Make], Make]:
    """Returns a decorator of the function that makes games of a class.

    Beside arguments of its own the function takes `**options`: the fields of the game
    and of its params. Its signature names all of them, with their defaults, and a
    keyword that is none of them raises an `UnknownOptionError`, a text where a number
    should be an `OptionError`.
    """

    def decorate(make: Make) -> Make:
        own = inspect.signature(make).parameters.values()
        named = {p.name: p for p in own if p.kind is not p.VAR_KEYWORD}
        for cls in (kind, params_kind):
            for field in filter(lambda field: field.init, dataclasses.fields(cls)):
                named.setdefault(field.name, _parameter(field))

        keywords = [(p.name, p.annotation, p.default) for p in named.values()]

        @functools.wraps(make)
        def checked(*args: Any, **options: Any) -> Any:
            for name in options:
                if name not in named:
                    raise unknown_option(kind.__name__, name, named)
            check_keywords(keywords, options)
            return make(*args, **options)

        checked.__signature__ = inspect.Signature([*named.values()])  # type: ignore
        return checked  # type: ignore[return-value]

    return decorate


def make_game(
    kind: type[Game], params_kind: type[Params], options: Mapping[str, Any]
) -> tuple[Game, Params]:
    """Returns a game and its numbers.

    Args:
        kind: The class of the game.
        params_kind: The class of its numbers.
        options: Arguments of `kind`, such as `num_inner_steps`, and fields of
            `params_kind`, such as `continuation_prob`, by name.

    Raises:
        UnknownOptionError: If there is no such option.
        ValueError: If an option is out of range.
    """
    env, numbers = from_options(kind, options)
    return env, from_numbers(params_kind, numbers)


def from_options(
    kind: type[Game], options: Mapping[str, Any]
) -> tuple[Game, dict[str, Any]]:
    """Returns a game of the options that are its fields, and the other options."""
    fields = {field.name for field in dataclasses.fields(kind) if field.init}  # type: ignore
    env = kind(**{name: options[name] for name in options if name in fields})
    return env, {name: options[name] for name in options if name not in fields}


def _parameter(field: dataclasses.Field) -> inspect.Parameter:
    """Returns a field as a keyword of a function."""
    default = inspect.Parameter.empty
    if field.default is not dataclasses.MISSING:
        default = field.default
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=field.type,
    )


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
