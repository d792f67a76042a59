"""Values by the type of the field that they are meant for."""

import math
import types
import typing
from typing import Annotated, Any

from paxenv.options import rule_of
from runners.config.schema import ConfigError

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def coerce(value: Any, annotation: Any, where: str) -> Any:
    """Returns `value` as the type that `annotation` asks for.

    Whole floats and their texts become ints (`1e6`), numbers become floats, words
    such as `yes` become bools, lists become tuples. Other annotations than plain types,
    unions, tuples and these with a rule let a value pass.

    Args:
        value: What YAML or the command line gave.
        annotation: The type of the field.
        where: The field's name, for messages.

    Raises:
        ConfigError: If the value does not fit; names field, value and type.
    """
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _by_rule(coerce(value, annotation.__origin__, where), annotation, where)
    if origin in (typing.Union, types.UnionType):
        return _coerce_union(value, typing.get_args(annotation), where)
    if origin is tuple and isinstance(value, list | tuple):
        return _coerce_tuple(value, typing.get_args(annotation), where)
    if annotation is bool:
        return _to_bool(value, where)
    if annotation is int:
        return _to_int(value, where)
    if annotation is float:
        return _to_float(value, where)
    if annotation is str:
        return _to_str(value, where)
    if origin is tuple:
        raise ConfigError(f"{where} must be a list, got {value!r}")
    return hashable(value)


def hashable(value: Any) -> Any:
    """Returns free data with tuples for lists, so that it can be hashed."""
    if isinstance(value, list | tuple):
        return tuple(hashable(v) for v in value)
    if isinstance(value, dict):
        return {key: hashable(v) for key, v in value.items()}
    return value


def _by_rule(value: Any, annotation: Any, where: str) -> Any:
    rule = rule_of(annotation)
    if rule is not None and not rule.holds(value):
        raise ConfigError(f"{where} must be {rule.claim}, got {value!r}")
    return value


def _coerce_union(value: Any, members: tuple[Any, ...], where: str) -> Any:
    if value is None and type(None) in members:
        return None
    for member in members:
        if type(value) is getattr(member, "__origin__", member):
            return coerce(value, member, where)
    errors = []
    for member in members:
        if member is type(None):
            continue
        try:
            return coerce(value, member, where)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _coerce_tuple(value: Any, members: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if len(members) == 2 and members[1] is Ellipsis:
        members = (members[0],) * len(value)
    if len(members) != len(value):
        raise ConfigError(f"{where} must have {len(members)} entries, got {value!r}")
    pairs = zip(value, members, strict=True)
    return tuple(coerce(v, m, f"{where}[{i}]") for i, (v, m) in enumerate(pairs))


def _to_bool(value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ConfigError(f"{where} must be true or false, got {value!r}")


def _to_int(value: Any, where: str) -> int:
    number = _number(value)
    if number is None or not math.isfinite(number) or number != int(number):
        raise ConfigError(f"{where} must be a whole number, got {value!r}")
    return int(number)


def _to_float(value: Any, where: str) -> float:
    number = _number(value)
    if number is None or not math.isfinite(number):
        raise ConfigError(f"{where} must be a finite number, got {value!r}")
    return float(number)


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    try:
        return int(value)
    except (TypeError, ValueError):
        pass
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _to_str(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ConfigError(f"{where} must be a text, got {value!r}")
