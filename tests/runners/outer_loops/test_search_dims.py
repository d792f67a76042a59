"""Search targets: ranges that hold, texts that are read, mistakes that are named."""

import math

import jax.numpy as jnp
import pytest

from runners.search.dims import SearchDim, dims_of, parse_target
from runners.search.outer_options import ESConfig


@pytest.mark.parametrize("z", [-1e9, -50.0, -1.0, 0.0, 0.3, 50.0, 1e9])
@pytest.mark.parametrize(
    "dim",
    [
        SearchDim("x", 0.1, 0.9),
        SearchDim("x", 1e-5, 1e-1, "log"),
        SearchDim("x", 1, 4, "int"),
    ],
)
def test_a_value_is_in_its_range_whatever_the_search_does(dim, z):
    """A learning rate is never negative, a batch size never 0."""
    assert dim.low <= dim.value(z) <= dim.high
    assert dim.low <= float(dim.value(jnp.float32(z), jnp)) <= dim.high * (1 + 1e-6)


def test_the_middle_of_a_range_is_its_mean_or_its_geometric_mean():
    assert SearchDim("x", 2.0, 4.0).value(0.0) == pytest.approx(3.0)
    assert SearchDim("x", 1e-4, 1e-2, "log").value(0.0) == pytest.approx(1e-3)


def test_whole_numbers_reach_both_ends_and_every_one_between():
    dim = SearchDim("x", 1, 3, "int")
    values = [dim.value(z / 10) for z in range(-100, 101)]
    assert sorted(set(values)) == [1, 2, 3]
    assert all(isinstance(value, int) for value in values)


def test_a_choice_is_one_of_its_values():
    dim = SearchDim("x", scale="choice", choices=(32, 64, 128))
    assert [dim.value(z) for z in (-9.0, 0.0, 9.0)] == [32, 64, 128]
    assert [int(dim.value(jnp.float32(z), jnp)) for z in (-9.0, 0.0, 9.0)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("dim", "value"),
    [
        (SearchDim("x", 0.1, 0.9), 0.3),
        (SearchDim("x", 1e-5, 1e-1, "log"), 3e-4),
        (SearchDim("x", 1, 9, "int"), 4),
        (SearchDim("x", scale="choice", choices=(16, 32)), 32),
    ],
)
def test_a_search_begins_at_the_value_that_the_agent_has(dim, value):
    assert dim.value(dim.place(value)) == pytest.approx(value, rel=1e-6)


def test_a_value_out_of_range_begins_at_the_nearest_end():
    dim = SearchDim("x", 1e-4, 1e-2, "log")
    assert dim.value(dim.place(0.0)) == pytest.approx(1e-4, rel=0.2)
    assert dim.value(dim.place(math.inf)) == pytest.approx(1e-2, rel=0.2)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("parameters", "parameters"),
        ("lr:1e-4:1e-1:log", SearchDim("lr", 1e-4, 1e-1, "log")),
        ("env.gravity:5:15", SearchDim("env.gravity", 5.0, 15.0)),
        ("batch_size:32,64", SearchDim("batch_size", scale="choice", choices=(32, 64))),
    ],
)
def test_targets_are_read_from_texts(text, target):
    assert parse_target(text) == target


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SearchDim("x", 2.0, 1.0), "low < high"),
        (lambda: SearchDim("x", 0.0, 1.0, "log"), "low must be > 0"),
        (lambda: SearchDim("x", 0.5, 3, "int"), "whole"),
        (lambda: SearchDim("x", 0, 1, "cubic"), "'cubic'"),
        (lambda: SearchDim("x", scale="choice", choices=(3,)), "two different"),
        (lambda: dims_of(()), "search_targets is empty"),
        (lambda: dims_of(("lr", "learning_rate")), "twice"),
        (lambda: dims_of(("learning_rat",)), "did you mean 'learning_rate'"),
        (lambda: parse_target("x:1:2:3:4"), "NAME:LOW:HIGH"),
        (lambda: parse_target("x:a:b"), "'x:a:b': low of x must be a number, got 'a'"),
        (lambda: SearchDim(None, 0, 1), "name of a search target must be a text"),
        (lambda: ESConfig(population_size=0), "population_size"),
        (lambda: ESConfig(iterations=0), "iterations"),
        (lambda: ESConfig(sigma_hyper=0.0), "sigma_hyper"),
        (lambda: ESConfig(strategy="CMAS"), "did you mean 'CMA_ES'"),
        (lambda: ESConfig(strategy="xNES", fit_shaper="centered_rank"), "xNES"),
        (lambda: ESConfig(evaluate_in="both"), "evaluate_in"),
    ],
)
def test_a_mistake_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_parameters_are_searched_where_they_are_a_target():
    assert ESConfig(search_targets=("parameters", "lr")).searches_parameters
    assert not ESConfig(search_targets=("lr",)).searches_parameters
