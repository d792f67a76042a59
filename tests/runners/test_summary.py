"""Means over seeds and their intervals."""

import math

import pytest

from runners.engine.statistics import estimate, t_quantile


def test_the_interval_is_students_t_of_the_seeds():
    result = estimate([1.0, 2.0, 3.0])
    assert result.mean == 2.0
    # t(2) = 4.3027, s = 1, sqrt(3) = 1.7321.
    assert result.half_width == pytest.approx(2.48414, abs=1e-4)
    assert result.interval == pytest.approx((-0.48414, 4.48414), abs=1e-4)


def test_one_seed_has_no_interval():
    result = estimate([1.5])
    assert (result.mean, result.half_width, result.interval) == (1.5, None, None)
    assert result.as_dict() == {
        "mean": 1.5,
        "ci95": None,
        "count": 1,
        "per_seed": [1.5],
    }


def test_seeds_without_a_value_are_left_out_and_counted():
    result = estimate([math.nan, 1.0, 3.0])
    assert (result.mean, result.count) == (2.0, 2)
    assert result.as_dict()["per_seed"] == [None, 1.0, 3.0]


def test_no_value_at_all_is_nothing_and_not_zero():
    result = estimate([math.nan, math.nan])
    assert math.isnan(result.mean)
    assert result.as_dict()["mean"] is None


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.7062), (2, 4.3027), (30, 2.0423), (1000, 1.9623)]
)
def test_quantiles_are_those_of_printed_tables(degrees, quantile):
    assert t_quantile(degrees) == pytest.approx(quantile, abs=1e-4)


def test_no_degrees_of_freedom_are_an_error():
    with pytest.raises(ValueError, match="degrees of freedom must be >= 1, got 0"):
        t_quantile(0)
