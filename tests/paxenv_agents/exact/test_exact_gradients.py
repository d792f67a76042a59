"""Exact gradients equal published numbers, central differences, and each other.

Literal numbers: gamma 0.96, un-normalised values, look-ahead rate 1, logits in the
order CC, CD, DC, DD, START; computed by an independent program and by central
differences.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv.envs.infinite_matrix_game import discounted_values
from paxenv_agents.exact import games, gradients

IPD = np.array([[-1, -1], [-3, 0], [0, -3], [-2, -2]], float)
IMP = np.array([[1, -1], [-1, 1], [-1, 1], [1, -1]], float)
PAYOFFS = {"IPD": IPD, "IMP": IMP}
#: Logits of both players.
POINTS = {
    "A": ((0.0,) * 5, (0.0,) * 5),
    "B": ((0.1, -0.2, 0.3, -0.4, 0.5), (-0.5, 0.4, -0.3, 0.2, -0.1)),
    "C": ((2.0, -2.0, 2.0, -2.0, 2.0),) * 2,
}
NAIVE = {
    ("IPD", "A"): (-1.5, -1.5, -1.5, -1.5, -0.25),
    ("IPD", "B"): (-1.87308287, -1.94072275, -1.90568951, -1.96363709, -0.30652422),
    ("IPD", "C"): (0.80017663, 0.59289353, 0.59289353, 0.51662546, 0.10427455),
    ("IMP", "A"): (0.0,) * 5,
    ("IMP", "B"): (-0.70035322, -0.44324828, 0.55656551, 0.28641267, -0.02422506),
    ("IMP", "C"): (2.76916158, 2.05181947, -2.05181947, -1.78787950, 0.36086167),
}
#: eta (grad_2 V_1)^T grad_1 grad_2 V_2.
SHAPING = {
    ("IPD", "A"): (4.35, -4.35, 4.35, -4.35, 0.0),
    ("IPD", "B"): (4.24005685, -3.42390536, 3.38346633, -4.42593904, 0.00199091),
    ("IPD", "C"): (2.68186225, -0.50136675, 0.17287286, -1.97943569, 0.01846029),
    ("IMP", "A"): (0.0,) * 5,
    ("IMP", "B"): (-0.16031822, 0.44175762, -0.51929859, 0.87854038, -0.02092097),
    ("IMP", "C"): (-5.27642648, 2.51824571, -3.00508816, 1.44157458, -0.11644869),
}
#: eta (grad_1 grad_2 V_1) grad_2 V_2, what the full form adds to the first.
EXTRA = {
    ("IPD", "A"): (1.0875, -1.0875, 1.0875, -1.0875, 0.0),
    ("IPD", "B"): (1.110542, -0.76997217, 0.91996847, -1.02229459, 0.00597614),
    ("IPD", "C"): (0.47879821, 0.02449037, 0.08194536, -0.21130126, 0.01846029),
    ("IMP", "A"): (0.0,) * 5,
    ("IMP", "B"): (-0.16031822, 0.44175762, -0.51929859, 0.87854038, -0.02092097),
    ("IMP", "C"): (-5.27642648, 2.51824571, -3.00508816, 1.44157458, -0.11644869),
}
LOOKAHEAD = {
    ("A", 1.0): (2.02886245, -5.02886245, 2.02886245, -5.02886245, -0.25),
    ("B", 1.0): (2.5388745, -4.89517291, 2.02087939, -6.46632498, -0.26501396),
    ("B", 0.3): (-0.27496332, -3.13169605, -0.57451368, -3.58664365, -0.29967365),
    ("C", 1.0): (3.46731741, -0.22713931, 0.51339695, -1.25179507, 0.10076821),
}
CASES = sorted(SHAPING)


@functools.cache
def compiled(name, player=0, **options):
    """Returns a direction in float64 as a function of (payoff, logits, eta)."""

    def direction(payoff, params, eta):
        game = games.memory_one(payoff, 0.96)
        if name == "naive":
            return gradients.naive(game, params, player)
        if name == "shaping":
            return gradients.shaping(game, params, player)
        return getattr(gradients, name)(game, params, player, eta, **options)

    return jax.jit(direction)


def direction(name, game, point, eta=1.0, player=0, **options):
    with jax.enable_x64(True):
        logits = POINTS[point] if isinstance(point, str) else point
        params = tuple(jnp.asarray(x) for x in logits)
        found = compiled(name, player, **options)(PAYOFFS[game], params, eta)
        assert found.dtype == jnp.float64
        return np.asarray(found)


@pytest.mark.parametrize(("game", "point"), CASES)
def test_first_order_form_equals_published_numbers(game, point):
    """Grad_1 V_1 + eta (grad_2 V_1)^T grad_1 grad_2 V_2, to 1e-6 in float64."""
    expected = np.add(NAIVE[game, point], SHAPING[game, point])
    found = direction("lola", game, point, form="taylor")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    scaled = direction("lola", game, point, eta=0.3, form="taylor")
    expected = np.add(NAIVE[game, point], 0.3 * np.array(SHAPING[game, point]))
    np.testing.assert_allclose(scaled, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("game", "point"), CASES)
def test_full_form_adds_the_look_ahead(game, point):
    expected = np.add(NAIVE[game, point], SHAPING[game, point]) + EXTRA[game, point]
    found = direction("lola", game, point, form="full")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("point", "eta"), sorted(LOOKAHEAD))
def test_third_form_goes_through_the_other_step(point, eta):
    found = direction("lola", "IPD", point, eta=eta, form="lookahead")
    np.testing.assert_allclose(found, LOOKAHEAD[point, eta], rtol=0, atol=1e-6)


@functools.cache
def slope_of_second():
    """Returns grad_2 of both values, `[2, 5]`, as a function of (payoff, logits)."""

    def both(payoff, first, second):
        return jnp.stack(discounted_values(first, second, payoff, 0.96))

    return jax.jit(jax.jacrev(both, argnums=2)), jax.jit(both)


def objective(form, point, own):
    """Returns what a form ascends, as NumPy sees it, at other own logits."""
    slopes, both = slope_of_second()
    payoff, (first, second) = IPD, (np.array(x) for x in POINTS[point])
    of_1, of_2 = np.asarray(slopes(payoff, own, second))
    if form == "lookahead":
        return float(both(payoff, own, second + of_2)[0])
    held = np.asarray(slopes(payoff, first, second))[0]
    towards = held if form == "taylor" else of_1
    return float(both(payoff, own, second)[0]) + towards @ of_2


@pytest.mark.parametrize("form", gradients.FORMS)
def test_each_form_is_the_slope_of_its_objective(form):
    """Central differences of width 1e-4 at point B; their error is below 1e-6."""
    width, start = 1e-4, np.array(POINTS["B"][0])
    with jax.enable_x64(True):
        slopes = [
            objective(form, "B", start + step) - objective(form, "B", start - step)
            for step in width * np.eye(5)
        ]
    found = direction("lola", "IPD", "B", form=form)
    np.testing.assert_allclose(found, np.array(slopes) / (2 * width), atol=1e-5)


def test_shaping_is_all_that_lola_adds_to_look_ahead():
    """Without the gradient through the other's step, LOLA is a method that only
    predicts: the first form falls back to naive learning, the full one to look-ahead.
    """
    naive = direction("naive", "IPD", "B")
    ahead = direction("look_ahead", "IPD", "B")
    shaping = direction("shaping", "IPD", "B")
    np.testing.assert_allclose(naive, NAIVE["IPD", "B"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(ahead - naive, EXTRA["IPD", "B"], rtol=0, atol=1e-6)
    first = direction("lola", "IPD", "B", form="taylor")
    full = direction("lola", "IPD", "B", form="full")
    np.testing.assert_allclose(first - shaping, naive, rtol=0, atol=1e-9)
    np.testing.assert_allclose(full - shaping, ahead, rtol=0, atol=1e-9)


def test_in_a_zero_sum_game_both_terms_are_the_same():
    point = tuple(np.random.default_rng(0).normal(size=(2, 5)))
    shaping = direction("shaping", "IMP", point)
    ahead = direction("look_ahead", "IMP", point) - direction("naive", "IMP", point)
    np.testing.assert_allclose(ahead, shaping, rtol=0, atol=1e-9)
    assert np.abs(shaping).max() > 0.01


@pytest.mark.parametrize("name", ["lola", pytest.param("sos", marks=pytest.mark.slow)])
def test_players_who_change_seats_change_directions(name):
    """The dilemma looks the same from both seats, point B does not."""
    first, second = POINTS["B"]
    here = direction(name, "IPD", (first, second), player=0)
    there = direction(name, "IPD", (second, first), player=1)
    np.testing.assert_allclose(here, there, rtol=0, atol=1e-9)


def test_normalised_values_are_rewards_a_step():
    params = tuple(jnp.array(x) for x in POINTS["A"])
    share = jax.jit(games.memory_one(IPD, 0.96, normalised=True))(params)
    np.testing.assert_allclose(share, [-1.5, -1.5], rtol=1e-5)


def test_three_players_shape_everybody_else():
    """V_i = x_i (x_j + 2 x_k) + x_i^2 / 2 at (1, 2, 3), all derivatives by hand."""

    def values(params):
        return tuple(
            params[i] * (params[(i + 1) % 3] + 2 * params[(i + 2) % 3])
            + params[i] ** 2 / 2
            for i in range(3)
        )

    @jax.jit
    def directions(params):
        return (
            gradients.naive(values, params, 0),
            gradients.shaping(values, params, 0),
            gradients.look_ahead(values, params, 0, 0.5),
            gradients.lola(values, params, 0, 0.5),
            gradients.lola(values, params, 0, 0.5, form="lookahead"),
        )

    found = directions(tuple(jnp.float32(x) for x in (1, 2, 3)))
    naive, shaping, ahead, first, third = map(float, found)
    # grad_1 V_1 = 2 + 6 + 1; grad_2 V_1 = 1, grad_3 V_1 = 2;
    # d12 V_2 = 2, d13 V_3 = 1; grad_2 V_2 = 3 + 2 + 2, grad_3 V_3 = 1 + 4 + 3.
    assert naive == 9.0
    assert shaping == 2.0 * 1 + 1.0 * 2
    assert ahead == 9 + 0.5 * (7 + 2 * 8)
    assert first == 9 + 0.5 * 4
    # x (2 + 0.5 (3 + 2x + 2)) + 2x (3 + 0.5 (x + 4 + 3)) + x^2 / 2 at 1:
    # slope 4.5 + 2x + 13 + 2x + x.
    assert third == pytest.approx(22.5)


def test_unknown_form_is_refused_by_name():
    with pytest.raises(ValueError, match="taylor, full, lookahead, got 'exact'"):
        gradients.check_form("exact")
