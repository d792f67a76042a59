"""Searches in units: a solution is start + sigma * u, and the strategy moves u."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runners.search.outer_options import ESConfig
from runners.search.unit_search import UnitSearch, make_search

START = {
    "parameters": [jnp.array([10.0, -10.0])],
    "hyper": {"x": jnp.zeros(()), "y": jnp.ones(())},
}
SIGMA = {"parameters": 0.01, "hyper": 2.0}
#: Twice two units of parameters, and twice one and a half of the others.
TOP = {
    "parameters": [jnp.array([10.02, -10.02])],
    "hyper": {"x": jnp.float32(3.0), "y": jnp.float32(-2.0)},
}


def search(strategy, population_size=16, **options):
    config = ESConfig(strategy=strategy, population_size=population_size, **options)
    return UnitSearch(make_search(config), START, SIGMA)


def in_units(members, origin):
    """Returns how far members are from a solution, part by part, in its unit."""
    apart = jax.tree.map(jnp.subtract, members, origin)
    hyper = jnp.stack([apart["hyper"][name] for name in ("x", "y")], -1)
    return {"parameters": apart["parameters"][0] / 0.01, "hyper": hyper / 2.0}


@pytest.mark.parametrize("name", ["SNES", "Open_ES", "SimpleGA"])
def test_the_first_generation_lies_around_the_start_by_one_unit(name):
    """Whatever the strategy: of each family one."""
    made = search(name, 400)
    key = jax.random.key(0)
    units, members, _ = jax.jit(lambda: made.ask(key, made.begin(key)))()
    for part, u in in_units(members, START).items():
        assert float(jnp.std(u)) == pytest.approx(1.0, abs=0.1), part
        assert float(jnp.mean(u)) == pytest.approx(0.0, abs=0.15), part
    np.testing.assert_allclose(members["hyper"]["x"], 2.0 * units["hyper"]["x"])


def test_a_search_begins_at_its_start():
    for name in ("CMA_ES", "SimpleGA"):
        made = search(name)
        mean = made.mean(made.begin(jax.random.key(0)))
        jax.tree.map(np.testing.assert_array_equal, mean, START)


def worth(members):
    """Returns minus the square distance from the top, in units, `[population]`."""
    apart = jnp.concatenate([*in_units(members, TOP).values()], -1)
    return -jnp.sum(apart**2, -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "near"), [("SNES", 0.1), ("Open_ES", 0.5), ("SimpleGA", 4.0)]
)
def test_a_search_finds_a_top_whose_parts_lie_at_different_scales(name, near):
    """From 12.5 square units; the mutations of a genetic algorithm never shrink."""
    made = search(name, learning_rate=0.3 if name == "Open_ES" else None)

    @jax.jit
    def run():
        def step(i, state):
            key = jax.random.fold_in(jax.random.key(1), i)
            units, members, state = made.ask(jax.random.fold_in(key, 0), state)
            told = jax.random.fold_in(key, 1)
            return made.tell(told, state, units, worth(members))[0]

        state = jax.lax.fori_loop(0, 80, step, made.begin(jax.random.key(0)))
        return worth(made.mean(state))

    assert float(worth(START)) == pytest.approx(-12.5, abs=0.01)
    assert float(run()) > -near


def test_numbers_of_a_solution_are_counted():
    assert search("SNES").num_dims == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategy": "Open_ES", "population_size": 7}, "in pairs. Try 6 or 8"),
        ({"strategy": "CMA_ES", "learning_rate": 0.1}, "no gradient"),
        ({"strategy": "DE", "population_size": 3}, ">= 4. Try 4"),
    ],
)
def test_what_does_not_fit_a_strategy_is_named(options, said):
    with pytest.raises(ValueError, match=said):
        make_search(ESConfig(**options))
