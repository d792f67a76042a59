"""How every classic control problem is made: from its class and its numbers."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from paxenv.environment import Environment
from paxenv.params import GameParams, from_numbers
from paxenv.registry import unknown_option

Problem = TypeVar("Problem", bound=Environment)
Params = TypeVar("Params", bound=GameParams)


def make_problem(
    kind: type[Problem], params_kind: type[Params], options: Mapping[str, Any]
) -> tuple[Problem, Params]:
    """Returns a problem and its numbers.

    Args:
        kind: The class of the problem.
        params_kind: The class of its numbers.
        options: Arguments of `kind`, such as `num_inner_steps`, the time limit, and
            fields of `params_kind`, such as `gravity`, by name.

    Raises:
        UnknownOptionError: If there is no such option.
        ValueError: If an option is out of range.
    """
    settings = [field.name for field in dataclasses.fields(kind) if field.init]
    known = [*settings, *(field.name for field in dataclasses.fields(params_kind))]
    for name in options:
        if name not in known:
            raise unknown_option(kind.name, name, known)
    env = kind(**{k: v for k, v in options.items() if k in settings})
    numbers = {k: v for k, v in options.items() if k not in settings}
    return env, from_numbers(params_kind, numbers)
