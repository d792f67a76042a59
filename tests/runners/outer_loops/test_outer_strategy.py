"""Strategies of evosax: all are known, and none is told what it cannot read."""

import jax
import jax.numpy as jnp
import pytest

from runners.outer_loops import families
from runners.outer_loops.strategy import Strategy

START = {
    "parameters": [jnp.zeros(4)],
    "hyper": {"x": jnp.zeros(()), "y": jnp.zeros(())},
}
SIGMA = {"parameters": 0.5, "hyper": 0.5}
SHIFT = (1.0, 1.0, 1.0, 1.0, -1.0, -1.0)


def fitness(members):
    """Returns minus the square distance from ones and minus ones; 6 dimensions."""
    first, rest = members["parameters"][0], members["hyper"]
    numbers = jnp.concatenate([first, rest["x"][:, None], rest["y"][:, None]], -1)
    return -jnp.sum((numbers - jnp.asarray(SHIFT)) ** 2, -1)


def improved(name, generations=60, size=16):
    """Returns the fitness of the middle and of the best member at the end."""
    strategy = Strategy(name, size, START, sigma=SIGMA)
    root = jax.random.key(1)

    def generation(i, carry):
        state, best = carry
        key = jax.random.fold_in(root, i)
        members, state = strategy.ask(jax.random.fold_in(key, 0), state)
        found = fitness(members)
        state = strategy.tell(jax.random.fold_in(key, 1), state, members, found)
        return state, jnp.maximum(best, found.max())

    @jax.jit
    def search(state):
        opening = (state, jnp.float32(-jnp.inf))
        state, best = jax.lax.fori_loop(0, generations, generation, opening)
        middle = jax.tree.map(lambda x: x[None], strategy.mean(state))
        return fitness(middle)[0], best

    return tuple(map(float, search(strategy.init(jax.random.key(0), START))))


def test_the_table_of_strategies_is_that_of_evosax():
    from evosax.algorithms import algorithms, population_based_algorithms

    assert set(families.names()) == set(algorithms)
    assert set(families.POPULATIONS) == set(population_based_algorithms)


def test_the_families_are_those_of_evosax_own_defaults():
    import inspect

    from evosax.algorithms import algorithms
    from evosax.core import fitness_shaping

    for name, made in algorithms.items():
        default = inspect.signature(made.__init__).parameters["fitness_shaping_fn"]
        own = getattr(
            fitness_shaping, f"{families.own_shaper(name)}_fitness_shaping_fn"
        )
        assert default.default is own, name


@pytest.mark.parametrize("name", ["CMAES", "cma-es", "Cma_Es"])
def test_case_and_underscores_do_not_matter(name):
    assert families.find(name) == "CMA_ES"


@pytest.mark.slow
def test_one_member_of_the_weights_family_improves_a_quadratic():
    """At the start the fitness is -6; told centred ranks it would diverge."""
    middle, best = improved("SNES", generations=80)
    assert middle > -1e-3
    assert best > -1e-2


@pytest.mark.slow
@pytest.mark.parametrize("name", families.names())
def test_every_strategy_improves_a_quadratic(name):
    """At the start the fitness is -6. Some only creep, random search just draws."""
    middle, best = improved(name, generations=100)
    assert max(middle, best) > -4.0
    if name in (
        "SNES",
        "xNES",
        "Open_ES",
        "PGPE",
        "Sep_CMA_ES",
        "DifferentialEvolution",
    ):
        assert middle > -0.05


@pytest.mark.parametrize(
    ("name", "shaper"),
    [
        ("xNES", "centered_rank"),
        ("CMA_ES", "identity"),
        ("Open_ES", "weights"),
        ("PSO", "centered_rank"),
        ("HillClimbing", "standardize"),
    ],
)
def test_a_shaping_that_a_strategy_is_not_made_for_is_refused(name, shaper):
    with pytest.raises(ValueError, match=f"fit_shaper={shaper!r} does not fit {name}"):
        Strategy(name, 8, START, fit_shaper=shaper)


@pytest.mark.parametrize("shaper", ["centered_rank", "standardize", "identity"])
def test_a_strategy_that_follows_a_gradient_takes_ranks_or_costs(shaper):
    assert families.check_shaper("Open_ES", shaper) == shaper


def test_auto_is_the_shaping_of_the_family():
    assert families.check_shaper("SNES", "auto") == "weights"
    assert families.check_shaper("pgpe", "auto") == "centered_rank"
    assert families.check_shaper("SimpleGA", "auto") == "identity"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Strategy("Open_ES", 7, START), "multiple of 2, got 7"),
        (lambda: Strategy("CMA_ES", 2, START), ">= 4"),
        (lambda: Strategy("CMA_ES", 8, START, learning_rate=0.1), "no gradient"),
        (lambda: Strategy("CMA_ES", 8, jnp.zeros(5000)), "5000 x 5000"),
        (lambda: Strategy("CMA_ES", 8, {}), "nothing to search"),
        (lambda: Strategy("CMA_ES", 8, START, fit_shaper="rank"), "one of auto"),
    ],
)
def test_what_does_not_fit_a_strategy_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_member_that_failed_is_no_better_than_the_worst():
    strategy = Strategy("SimpleES", 4, jnp.zeros(2))
    state = strategy.init(jax.random.key(0), jnp.zeros(2))
    members, state = strategy.ask(jax.random.key(1), state)
    nan = jnp.asarray([1.0, jnp.nan, -3.0, 2.0])
    worst = jnp.asarray([1.0, -3.0, -3.0, 2.0])
    told = [strategy.tell(jax.random.key(2), state, members, f) for f in (nan, worst)]
    means = [strategy.mean(state) for state in told]
    assert means[0].tolist() == means[1].tolist()
    assert jnp.isfinite(means[0]).all()


def test_a_generation_in_which_all_failed_teaches_nothing():
    strategy = Strategy("SimpleES", 4, jnp.zeros(2))
    state = strategy.init(jax.random.key(0), jnp.zeros(2))
    members, state = strategy.ask(jax.random.key(1), state)
    told = strategy.tell(jax.random.key(2), state, members, jnp.full(4, jnp.nan))
    assert strategy.mean(told).tolist() == strategy.mean(state).tolist()
    assert int(told.generation) == 1
