"""Values by the type of their field."""

import re
from typing import Annotated

import pytest

from paxenv.options import one_of
from runners.config import ConfigError
from runners.config.building import coerce
from runners.config.schema import Reset, Stop


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (1e6, int, 1_000_000),
        ("1e6", int, 1_000_000),
        ("1_000", int, 1000),
        (3, float, 3.0),
        ("1e-3", float, 0.001),
        ("yes", bool, True),
        ("off", bool, False),
        (7, str, "7"),
        (None, int | None, None),
        ("5", int | None, 5),
        ([16.0, 16], tuple[int, ...], (16, 16)),
        ([1, [2, 3]], object, (1, (2, 3))),
    ],
)
def test_values_become_the_type_of_the_field(value, annotation, expected):
    result = coerce(value, annotation, "field")
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "annotation", "message"),
    [
        (1.5, int, "field must be a whole number, got 1.5"),
        (True, int, "field must be a whole number, got True"),
        ("many", int, "field must be a whole number, got 'many'"),
        ("1e400", float, "field must be a finite number, got '1e400'"),
        (float("nan"), float, "field must be a finite number"),
        ("maybe", bool, "field must be true or false, got 'maybe'"),
        (3, tuple[int, ...], "field must be a list, got 3"),
        ([1], tuple[int, int], "field must have 2 entries"),
        (["a"], tuple[int, ...], "field[0] must be a whole number"),
        ([1], str, "field must be a text"),
        (10**400, int, "field must be a whole number below 2**63, got 1000"),
        (1e300, int, "field must be a whole number below 2**63, got 1e+300"),
        ("9" * 5000, int, "field must be a whole number below 2**63, got '999"),
        (10**400, float, "field must be a finite number, got 1000"),
        ([1], Reset, "field must be never, trial or a number of trials, got [1]"),
        (True, Reset, "field must be never, trial or a number of trials, got True"),
        (True, Stop, "field must be uniform or a number of inner episodes, got True"),
        (None, Annotated[str, one_of("a", "b")], "field must be one of a, b, got None"),
    ],
)
def test_a_value_that_does_not_fit_names_field_and_value(value, annotation, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        coerce(value, annotation, "field")
    assert len(str(caught.value)) < 200
