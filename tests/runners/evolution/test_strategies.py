"""Strategies by name: all of evosax are known, and none is told what it cannot read."""

import dataclasses
import inspect
import json

import jax.numpy as jnp
import pytest
from evosax.algorithms import algorithms, population_based_algorithms
from evosax.core import fitness_shaping

from runners.search import strategies
from runners.search.options import ESOptions
from runners.search.strategies import STRATEGIES

#: What a constructor may want to be told, with values for a look at it.
WANTED = {"num_populations": 2, "sampling_fn": lambda _: jnp.zeros(8)}
#: Where evosax takes a spread; params that follow a schedule have no use for theirs.
SPREADS = ("std_schedule", "sampling_fn", "std_init", "std_m")


def arguments_of(name):
    parameters = inspect.signature(algorithms[name].__init__).parameters
    return {key: p.default for key, p in parameters.items() if key != "self"}


def made(name, population_size=8, num_dims=8):
    """Returns a strategy of its own defaults."""
    given = {k: v for k, v in WANTED.items() if k in arguments_of(name)}
    solution = jnp.zeros(num_dims)
    make = algorithms[name]
    return make(population_size=population_size, solution=solution, **given)


def plain(named):
    return {k: v for k, v in named.items() if isinstance(v, bool | int | float)}


def params_of(algorithm):
    params = algorithm.default_params
    return plain({f.name: getattr(params, f.name) for f in dataclasses.fields(params)})


def family_of(name):
    """Returns the family that evosax's own constructor tells."""
    arguments = arguments_of(name)
    if arguments["fitness_shaping_fn"] is fitness_shaping.weights_fitness_shaping_fn:
        return strategies.RANKS
    if name in population_based_algorithms:
        return strategies.POPULATION
    return strategies.GRADIENT if "optimizer" in arguments else strategies.OWN


def test_the_table_of_strategies_is_that_of_evosax():
    assert set(STRATEGIES) == set(algorithms)
    assert list(STRATEGIES) == sorted(STRATEGIES, key=str.lower)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_families_are_those_of_evosax_own_constructors(name):
    assert STRATEGIES[name].family == family_of(name)


@pytest.mark.parametrize("name", STRATEGIES)
def test_options_and_their_defaults_are_those_of_evosax(name):
    row, arguments = STRATEGIES[name], plain(arguments_of(name))
    arguments |= plain({k: v for k, v in WANTED.items() if k in arguments_of(name)})
    arguments.pop("num_generations", None)
    assert row.arguments == arguments

    params, others = params_of(made(name)), params_of(made(name, 10, 9))
    of_sizes = {k: None for k in params if params[k] != others[k]}
    known = {k: v for k, v in {**params, **of_sizes}.items() if k not in SPREADS}
    assert row.params == known
    assert list(row.numbers) == [*arguments, *known]


@pytest.mark.parametrize("name", STRATEGIES)
def test_spreads_and_elites_are_those_of_evosax(name):
    row, algorithm = STRATEGIES[name], made(name)
    places = {*arguments_of(name), *vars(algorithm.default_params)}
    assert row.spread == next((place for place in SPREADS if place in places), None)
    assert row.elites == (algorithm.elite_ratio != 1.0)
    assert row.planned == ("num_generations" in arguments_of(name))


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_a_strategy_is_called_is_what_evosax_calls_it(name):
    words = inspect.getdoc(algorithms[name]) or ""
    assert STRATEGIES[name].summary == " ".join(words.split()).rstrip(".")


def test_strategies_are_listed_with_their_names_and_numbers(paxrun):
    rows = {
        row["name"]: row for row in json.loads(paxrun("list", "es", "--json").stdout)
    }
    assert list(rows) == list(STRATEGIES)
    assert rows["Open_ES"]["also"] == "OpenES, OpenAI_ES"
    assert rows["PGPE"]["options"] == "std_lr=0.1, std_max_change=0.2"
    assert "std_lr" not in paxrun("list", "es").stdout


def test_options_are_checked_without_evosax(run_python):
    code = (
        "import sys; from runners.search import strategies; "
        "from runners.search.options import ESOptions; "
        "strategies.check(ESOptions('PGPE', options={'std_lr': 0.2})); "
        "print([name for name in ('evosax', 'jax') if name in sys.modules])"
    )
    assert run_python(code) == "[]"


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
    assert strategies.find(name).name == own


@pytest.mark.parametrize(
    ("name", "shaping", "takes"),
    [
        ("xNES", "centered_rank", "by their rank itself .* 'weights'"),
        ("CMA_ES", "identity", "diverges"),
        (
            "Open_ES",
            "weights",
            "no weights of ranks: it takes 'centered_rank' or 'z_score'",
        ),
        ("PSO", "centered_rank", "over generations .* 'none'"),
        ("HillClimbing", "standardize", "over generations"),
    ],
)
def test_a_shaping_that_a_strategy_is_not_made_for_is_refused(name, shaping, takes):
    said = f"fit_shaper='{shaping}' does not fit {name}, .*{takes}"
    with pytest.raises(ValueError, match=said):
        strategies.check_shaping(name, shaping, "fit_shaper")


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
        strategies.check_shaping(name, shaping, "fit_shaper")


def test_the_names_that_evosax_has_for_shapings_mean_the_same():
    shaped = {s: ESOptions(fitness_shaping=s) for s in ("identity", "standardize")}
    assert shaped["identity"] == ESOptions(fitness_shaping="none")
    assert shaped["standardize"] == ESOptions(fitness_shaping="z_score")
    with pytest.raises(ValueError, match=r"es\.fitness_shaping must be one of auto"):
        ESOptions(fitness_shaping="rank")
