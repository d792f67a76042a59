"""Strategies by name: all of evosax are known, and none is told what it cannot read."""

import inspect

import pytest
from evosax.algorithms import algorithms, population_based_algorithms
from evosax.core import fitness_shaping

from runners.search import families
from runners.search.options import ESOptions


def family_of(name, made):
    """Returns the family that evosax's own constructor tells."""
    arguments = inspect.signature(made.__init__).parameters
    shaping = arguments["fitness_shaping_fn"].default
    if shaping is fitness_shaping.weights_fitness_shaping_fn:
        return families.RANKS
    if name in population_based_algorithms:
        return families.POPULATION
    return families.GRADIENT if "optimizer" in arguments else families.OWN


def test_the_table_of_strategies_is_that_of_evosax():
    assert set(families.names()) == set(algorithms)
    assert set(families.ALIASES.values()) <= set(algorithms)


@pytest.mark.parametrize("name", families.names())
def test_the_families_are_those_of_evosax_own_constructors(name):
    assert families.family(name) == family_of(name, algorithms[name])


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("CMAES", "CMA_ES"),
        ("cma-es", "CMA_ES"),
        ("sepcmaes", "Sep_CMA_ES"),
        ("OpenES", "Open_ES"),
        ("Simple_GA", "SimpleGA"),
        ("DE", "DifferentialEvolution"),
        ("PGPE", "PGPE"),
    ],
)
def test_case_underscores_and_hyphens_do_not_matter_and_aliases_are_known(name, own):
    assert families.find(name) == own


@pytest.mark.parametrize(
    ("name", "shaping", "takes"),
    [
        ("xNES", "centered_rank", "by their rank itself .* 'weights'"),
        ("CMA_ES", "identity", "diverges"),
        ("Open_ES", "weights", "no weights: it takes 'centered_rank' or 'z_score'"),
        ("PSO", "centered_rank", "over generations .* 'none'"),
        ("HillClimbing", "standardize", "over generations"),
    ],
)
def test_a_shaping_that_a_strategy_is_not_made_for_is_refused(name, shaping, takes):
    said = f"fit_shaper='{shaping}' does not fit {name}, .*{takes}"
    with pytest.raises(ValueError, match=said):
        families.check_shaping(name, shaping, "fit_shaper")


@pytest.mark.parametrize(
    ("name", "shapings"),
    [
        ("Open_ES", ("auto", "centered_rank", "standardize", "normalize", "identity")),
        ("SNES", ("auto", "weights")),
        ("SimpleGA", ("auto", "identity", "none")),
    ],
)
def test_a_shaping_that_a_strategy_is_made_for_is_taken(name, shapings):
    for shaping in shapings:
        families.check_shaping(name, shaping, "fit_shaper")


def test_the_names_that_evosax_has_for_shapings_mean_the_same():
    shaped = {s: ESOptions(fitness_shaping=s) for s in ("identity", "standardize")}
    assert shaped["identity"] == ESOptions(fitness_shaping="none")
    assert shaped["standardize"] == ESOptions(fitness_shaping="z_score")
    with pytest.raises(ValueError, match=r"es\.fitness_shaping must be one of auto"):
        ESOptions(fitness_shaping="rank")
