"""Formulas of the statistics, on numbers worked by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv import metrics

#: Of two states the first.
FIRST = jnp.arange(2) == 0


@pytest.mark.parametrize(
    ("returns", "welfare", "equality"),
    [
        ((1.0, 1.0), 2.0, 1.0),
        ((0.0, 0.0), 0.0, 1.0),
        ((4.0, 0.0), 4.0, 0.5),
        ((3.0, 1.0), 4.0, 0.75),
        ((-3.0, -1.0), -4.0, 0.75),
        ((3.0, 0.0, 0.0), 3.0, 1 / 3),
        # |3 + 3| twice over 2 * 2 * 6: opposite returns are not negative equality.
        ((3.0, -3.0), 0.0, 0.5),
    ],
)
def test_welfare_and_equality(returns, welfare, equality):
    returns = jnp.array(returns)
    assert float(metrics.welfare(returns)) == welfare
    assert float(metrics.equality(returns)) == pytest.approx(equality, abs=1e-6)


def test_a_rate_of_nothing_is_not_a_number():
    rates = metrics.rate(jnp.array([0, 1, 0]), jnp.array([0, 2, 3]))
    np.testing.assert_array_equal(rates, [np.nan, 0.5, 0.0])


def test_counts_stay_exact_beyond_small_integers():
    acc = metrics.state_counts(2, 3)
    full = {name: counts + 40_000 for name, counts in acc.totals.items()}
    states = jnp.arange(3) == 1, jnp.arange(3) == 2
    acc = metrics.count_step(
        acc.replace(totals=full), states, (jnp.array(True), jnp.array(False)), True
    )
    visits, hits = acc.totals["visits"], acc.totals["cooperations"]
    assert visits.dtype == hits.dtype == jnp.int32
    np.testing.assert_array_equal(visits - 40_000, [[0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(hits - 40_000, [[0, 1, 0], [0, 0, 0]])


def test_steps_that_are_not_valid_count_nothing():
    acc = metrics.state_counts(1, 2)
    acc = metrics.count_step(acc, (FIRST,), (jnp.array(True),), jnp.array(False))
    assert int(acc.totals["visits"].sum()) == 0
    assert int(acc.totals["cooperations"].sum()) == 0


def test_totals_of_games_add_up_before_rates_are_taken():
    one = metrics.count_step(
        metrics.state_counts(1, 2), (FIRST,), (jnp.array(True),), True
    )
    two = metrics.count_step(
        metrics.state_counts(1, 2), (FIRST,), (jnp.array(False),), True
    )
    totals = {name: one.totals[name] + two.totals[name] for name in one.totals}
    both = metrics.Accumulator(totals=totals)
    named = metrics.cooperation(both, (("A", "B"),)) | metrics.visitation(
        both, (("A", "B"),)
    )
    assert float(named["cooperation_probability/player_1/A"]) == 0.5
    assert np.isnan(named["cooperation_probability/player_1/B"])
    assert float(named["cooperation_rate/player_1"]) == 0.5
    assert float(named["state_visitation/player_1/A"]) == 1.0


def test_numbers_among_a_steps_metrics_are_scalars_and_one_for_each_player():
    found = metrics.reported_metrics(
        {
            "sum": jnp.int32(3),
            "took": jnp.array([True, False]),
            "pair": (jnp.float32(1.0), 2),
            "inner": {"x": 0.5, "map": jnp.zeros((2, 3))},
            "map": jnp.zeros((3, 3)),
            "three": (1, 2, 3),
        },
        num_players=2,
    )
    assert jax.tree.map(float, found) == {
        "sum": 3.0,
        "took": (1.0, 0.0),
        "pair": (1.0, 2.0),
        "inner": {"x": 0.5},
    }
