"""Interquartile means over seeds."""

import numpy as np
import pytest

from runners.engine.statistics import estimate, interquartile_mean, robust


def test_the_middle_half_is_what_counts():
    assert interquartile_mean(np.array([100.0, 1, 2, 3, 4, 5, 6, -100])) == 3.5


def test_one_bad_seed_of_ten_does_not_move_it_and_failed_ones_are_named():
    values = [-1.0] * 7 + [-1.1, -50.0, np.nan]
    found = robust(values)
    assert found.mean == pytest.approx(-1.0)
    assert found.failed == (9,)
    assert found.interval[0] <= found.mean <= found.interval[1]
    assert found.as_dict()["failed_seeds"] == [9]


def test_the_interval_covers_the_middle_of_a_normal_sample():
    """The interquartile mean of 40 standard normals has a standard error of 0.19."""
    found = robust(np.random.default_rng(1).normal(size=40))
    low, high = found.interval
    assert low < 0 < high
    assert 0.4 < high - low < 1.1
    assert robust(np.random.default_rng(1).normal(size=40)) == found


def test_equal_values_have_an_interval_of_no_width():
    assert robust(estimate([2.0] * 5)).interval == (2.0, 2.0)


def test_three_seeds_have_no_quarters():
    assert robust([1.0, 2.0, 3.0]) is None
