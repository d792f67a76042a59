"""Options of dataclasses: their rules, their inheritance and their tables."""

import dataclasses
import math

import numpy as np
import pytest

from paxenv import options
from paxenv.options import Count, Natural, Share, Widths, check, documented, option


@documented
@dataclasses.dataclass(frozen=True)
class Length:
    """How long a run is."""

    num_steps: Count = option(1_000, "Environment steps.", aliases=("steps", "length"))
    warmup: Natural | None = option(
        None, "Steps of random actions, as many as it says."
    )
    share: Share = 0.5
    loud: bool = False
    widths: Widths = ()

    def __post_init__(self) -> None:
        check(self)


@dataclasses.dataclass(frozen=True)
class Shorter(Length):
    """Another default, written down with the plain type."""

    num_steps: int = 10
    share: float = 0.25


@pytest.mark.parametrize("kind", [Length, Shorter])
@pytest.mark.parametrize(
    ("name", "value", "claim"),
    [
        ("num_steps", 0, "a whole number >= 1"),
        ("num_steps", 2.5, "a whole number >= 1"),
        ("num_steps", None, "a whole number >= 1"),
        ("warmup", -1, "a whole number >= 0"),
        ("warmup", True, "a whole number >= 0"),
        ("share", float("nan"), r"a number in \[0, 1\]"),
        ("loud", 1, "True or False"),
        ("widths", (3, 0), "a sequence of whole numbers >= 1"),
    ],
)
def test_a_value_that_its_type_refuses_is_named(kind, name, value, claim):
    with pytest.raises(ValueError, match=f"^{name} must be {claim}, got "):
        kind(**{name: value})


def test_numbers_of_any_type_become_pythons_own():
    length = Length(num_steps=np.float32(1e3), warmup=np.int8(3))  # type: ignore[arg-type]
    assert (length.num_steps, type(length.num_steps)) == (1000, int)
    assert (length.warmup, type(length.warmup)) == (3, int)


def test_an_error_says_where_and_is_of_the_kind_asked_for():
    with pytest.raises(UnicodeError, match=r"^run\.share must be"):
        check(Unchecked(2.0), "run.", UnicodeError)


@dataclasses.dataclass(frozen=True)
class Unchecked:
    """A config that checks nothing by itself."""

    share: Share


def test_other_names_of_an_option_stand_at_its_field():
    both = {"steps": "num_steps", "length": "num_steps"}
    assert options.aliases(Length) == options.aliases(Shorter) == both


def test_a_subclass_that_changes_a_default_inherits_the_rest():
    own, changed = options.described(Length), options.described(Shorter)
    assert changed["num_steps"] == own["num_steps"]._replace(default=10)
    assert changed["share"] == own["share"]._replace(default=0.25)


def test_values_given_by_other_names_stand_under_their_own():
    assert options.own_names(Length, {"steps": 3, "new": 4}, "run") == {
        "num_steps": 3,
        "new": 4,
    }
    with pytest.raises(
        ValueError, match=r"run\.num_steps is given twice, once as steps"
    ):
        options.own_names(Length, {"num_steps": 2, "steps": 3}, "run")


def test_a_docstring_gets_a_table_of_the_options():
    assert Length.__doc__ is not None
    assert Length.__doc__.splitlines() == [
        "How long a run is.",
        "",
        "    Options, their defaults and their meanings:",
        "",
        "    num_steps  1_000  Environment steps.",
        "    warmup     None   Steps of random actions, as many as it says.",
        "    ",
    ]


def test_a_traced_number_has_the_rule_of_the_option_that_it_is():
    @dataclasses.dataclass(frozen=True)
    class Learner:
        rate: options.Weight = 0.1
        limit: float = 1.0

    learner = Learner()
    assert options.number_of(learner, "rate", "lr", np.float32(0.5)) == 0.5
    assert options.number_of(learner, "limit", "limit", math.inf) == math.inf
    assert options.number_of(None, "rate", "rate", -1.0) == -1.0
    with pytest.raises(ValueError, match=r"^lr must be a finite number >= 0, got -1"):
        options.number_of(learner, "rate", "lr", -1.0)
