"""What tests check of signatures: shapes and dtypes of the arrays that they name.

All other values are left to the functions' own checks, whose messages tests read.
"""

import typing

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray

#: An int is a float, as type checkers have it.
RULES = BeartypeConf(is_pep484_tower=True)


def checked(function):
    """Returns a function that checks its arguments where their types name arrays.

    Fields of dataclasses are not checked when they are set: a pytree holds anything
    that JAX puts into it, such as axes.
    """
    hints = {
        name: hint if names_arrays(hint) else typing.Any
        for name, hint in function.__annotations__.items()
    }
    if function.__name__ == "__init__" or set(hints.values()) <= {typing.Any}:
        return function
    function.__annotations__ = hints
    return beartype(function, conf=RULES)


def names_arrays(hint):
    """Returns whether a type is one of arrays, or made of such."""
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(map(names_arrays, typing.get_args(hint)))
