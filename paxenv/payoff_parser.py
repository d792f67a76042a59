"""Reads tables of numbers as people write them, and says which cell is wrong.

No JAX here: the command line parses its options with this module.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import yaml
from jaxtyping import Bool, Float64

LARGEST = float(np.finfo(np.float32).max)
AXES = ("row", "column", "player")


class PayoffError(ValueError):
    """A payoff that cannot be read; the message names the row and the column."""


def parse_table(
    value: Any,
    shape: tuple[int, ...] | None = None,
    *,
    name: str = "payoff",
    form: str = "",
    unused: Bool[np.ndarray, "..."] | None = None,
) -> Float64[np.ndarray, "..."]:
    """Returns a rectangular table of finite numbers, float64.

    Args:
        value: Nested lists or tuples, an array, or JSON or YAML text such as
            `"[[1, 1, -2], [1, 1, -2]]"`. Rows and columns in messages count from 1.
        shape: The only shape to accept; by default any shape of two axes or more.
        name: What messages call the table.
        form: An example that messages show.
        unused: Bool array of `shape`: cells that nothing reads. They may hold
            anything and come back as 0.

    Raises:
        PayoffError: If the value is not such a table.

    Example:
        >>> parse_table("[[1, 1, -2], [1, 1, -2]]", shape=(2, 3)).shape
        (2, 3)
    """
    hint = f"; expected {form}" if form else ""
    nested = read(value, name=name, hint=hint)
    found = shape_of(nested, name, hint)
    if shape is not None and found != shape:
        raise PayoffError(f"{name} has {size(found)} and needs {size(shape)}{hint}")
    table = np.zeros(found)
    for cell in np.ndindex(found):
        if unused is None or not unused[cell]:
            table[cell] = _number(nested, cell, name, hint)
    return table


def read(value: Any, *, name: str = "payoff", hint: str = "") -> Any:
    """Returns the nested lists, or the mapping, that a value or its text spells.

    Scalars of a text stay text, so that later messages can quote them as written.

    Raises:
        PayoffError: If the text is neither JSON nor YAML, or spells nothing.
    """
    if isinstance(value, str):
        text = value.strip().replace("\t", " ")
        if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1]
        try:
            value = yaml.load(text, Loader=yaml.BaseLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = (
                f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            )
            raise PayoffError(f"cannot read {name}{place}: {text!r}{hint}") from error
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or (isinstance(value, str) and value in ("", "null", "~")):
        raise PayoffError(f"{name} is empty: it has no row and no column{hint}")
    return value


def shape_of(nested: Any, name: str = "payoff", hint: str = "") -> tuple[int, ...]:
    """Returns the shape of nested lists, two axes or more.

    Raises:
        PayoffError: If they are not rectangular.
    """
    shape: list[int] = []
    first = nested
    while _is_list(first):
        shape.append(len(first))
        if not first:
            place = position((0,) * (len(shape) - 1)) or "it"
            raise PayoffError(f"{name} is empty: {place} has no column{hint}")
        first = first[0]
    if len(shape) < 2:
        raise PayoffError(f"{name} has no rows and columns: {nested!r}{hint}")
    for depth in range(1, len(shape)):
        for outer in np.ndindex(*shape[:depth]):
            item = _item(nested, outer)
            length = len(item) if _is_list(item) else 0
            if length != shape[depth]:
                missing = (*outer, min(length, shape[depth]))
                raise PayoffError(
                    f"{name} is ragged: {position(outer)} holds {length} entries and "
                    f"the first one holds {shape[depth]}, so {position(missing)} is "
                    f"{'missing' if length < shape[depth] else 'too much'}{hint}"
                )
    return tuple(shape)


def position(cell: Sequence[int]) -> str:
    """Returns the place of a cell in words, counted from 1."""
    if len(cell) > len(AXES):
        return f"cell {tuple(i + 1 for i in cell)}"
    return ", ".join(f"{axis} {i + 1}" for axis, i in zip(AXES, cell, strict=False))


def size(shape: tuple[int, ...]) -> str:
    """Returns a shape in words: rows and columns where it has two axes."""
    if len(shape) != 2:
        return f"the shape {shape} (row, column, ...)"
    return f"{shape[0]} rows and {shape[1]} columns"


def labelled_rows(value: Any, labels: Sequence[str]) -> Any:
    """Returns the rows of a labelled table in the order of `labels`.

    Args:
        value: Text such as `"CC=-1,-1 CD=-3,0 DC=0,-3 DD=-2,-2"`, in any order, or a
            mapping from labels to rows. Anything else is returned as it is.
        labels: The labels that must all be there.

    Raises:
        PayoffError: If a label is unknown, missing or there twice.
    """
    if isinstance(value, str) and "=" in value:
        words = re.sub(r"\s*([,=])\s*", r"\1", value.replace(";", " ")).split()
        pairs = [word.partition("=")[::2] for word in words]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        return value
    rows: dict[str, Any] = {}
    for label, row in pairs:
        label = str(label).strip().upper()
        if label not in labels or label in rows:
            fault = "there twice" if label in rows else "unknown"
            raise PayoffError(
                f"payoff row {label!r} is {fault}; the rows are {', '.join(labels)}, "
                "each with one column for each player, such as CD=-3,0"
            )
        rows[label] = row.strip("[]()").split(",") if isinstance(row, str) else row
    for label in labels:
        if label not in rows:
            raise PayoffError(
                f"payoff row {label} is missing (columns: player 1, player 2); "
                "write it such as CD=-3,0"
            )
    return [rows[label] for label in labels]


def _number(nested: Any, cell: tuple[int, ...], name: str, hint: str) -> float:
    item = _item(nested, cell)
    try:
        number = float("nan") if isinstance(item, bool) else float(item)
    except (TypeError, ValueError):
        number = float("nan")
    if not abs(number) <= LARGEST:
        reason = "not a finite number" if np.isnan(number) else "too large"
        raise PayoffError(f"{name}, {position(cell)}: {item!r} is {reason}{hint}")
    return number


def _item(nested: Any, cell: Sequence[int]) -> Any:
    for index in cell:
        nested = nested[index]
    return nested


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
