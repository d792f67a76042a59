"""The named games are what they claim, and a wrongly named payoff is noticed."""

import itertools

import numpy as np
import pytest

from paxenv import payoffs

SWAPPED_LABELS = [[-2, -2], [0, -3], [-3, 0], [-1, -1]]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("IPD", [[-1, -1], [-3, 0], [0, -3], [-2, -2]]),
        ("AxelrodIPD", [[3, 3], [0, 5], [5, 0], [1, 1]]),
        ("Chicken", [[0, 0], [-1, 1], [1, -1], [-100, -100]]),
        ("StagHunt", [[4, 4], [1, 3], [3, 1], [2, 2]]),
        ("MatchingPennies", [[1, -1], [-1, 1], [-1, 1], [1, -1]]),
        ("BattleOfTheSexes", [[3, 2], [0, 0], [0, 0], [2, 3]]),
        ("HawkDove", [[1, 1], [0, 2], [2, 0], [-1, -1]]),
        ("Deadlock", [[1, 1], [0, 3], [3, 0], [2, 2]]),
        ("PureCoordination", [[1, 1], [0, 0], [0, 0], [1, 1]]),
    ],
)
def test_presets_hold_these_numbers(name, rows):
    np.testing.assert_array_equal(payoffs.preset(name).payoff.reshape(4, 2), rows)


def test_rock_paper_scissors_is_cyclic():
    payoff = payoffs.preset("RPS").payoff
    assert payoff.shape == (3, 3, 2)
    np.testing.assert_array_equal(payoff[..., 0], [[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    np.testing.assert_array_equal(payoff[..., 1], -payoff[..., 0])


@pytest.mark.parametrize("name", payoffs.PRESETS)
def test_every_preset_is_its_own_game(name):
    preset = payoffs.PRESETS[name]
    assert preset.holds(preset.payoff)
    assert payoffs.dilemma_notice(f"pax/{name}-v0", preset.payoff) is None
    assert preset.source
    assert preset.ordering


@pytest.mark.parametrize(
    ("name", "other"),
    [
        (a, b)
        for a, b in itertools.permutations(payoffs.PRESETS, 2)
        if {a, b} not in ({"IPD", "AxelrodIPD"}, {"Chicken", "HawkDove"})
    ],
)
def test_no_preset_passes_for_another(name, other):
    notice = payoffs.dilemma_notice(name, payoffs.PRESETS[other].payoff)
    assert notice is not None
    assert name in notice


def test_swapped_labels_are_noticed_with_the_reordered_table():
    notice = payoffs.dilemma_notice("IPD-v0", SWAPPED_LABELS)
    assert notice is not None
    assert "[[-1,-1],[-3,0],[0,-3],[-2,-2]]" in notice
    assert "0 = cooperate" in notice
    assert "R=-2, S=0, T=-3, P=-1" in notice


def test_a_game_that_no_renaming_repairs_gets_no_reordered_table():
    notice = payoffs.dilemma_notice("IPD", "StagHunt")
    assert notice is not None
    assert "reordered" not in notice
    assert "R=4, S=1, T=3, P=2" in notice


def test_alternating_must_not_pay_more_than_cooperating():
    assert payoffs.dilemma_notice("IPD", "3,0,5,1") is None
    notice = payoffs.dilemma_notice("IPD", "3,0,7,1")
    assert notice is not None
    assert "2R > T + S" in notice


def test_a_name_that_is_no_preset_is_never_noticed():
    assert payoffs.dilemma_notice("MyGame-v0", "StagHunt") is None


def test_describe_shows_every_cell():
    assert payoffs.describe_payoff("IPD") == (
        "CC  player 1 gets -1  player 2 gets -1\n"
        "CD  player 1 gets -3  player 2 gets  0\n"
        "DC  player 1 gets  0  player 2 gets -3\n"
        "DD  player 1 gets -2  player 2 gets -2"
    )
    assert "0,2  player 1 gets  1" in payoffs.describe_payoff("RPS")


def test_donation_table_of_three_is_the_canonical_one():
    table = payoffs.donation_table(3)
    # Reachable cells of [[4, -], [2, 5], [0, 3], [-, 1]].
    np.testing.assert_array_equal(table[:-1, 0], [4, 2, 0])
    np.testing.assert_array_equal(table[1:, 1], [5, 3, 1])


def test_donation_table_of_two_is_a_prisoners_dilemma():
    np.testing.assert_array_equal(payoffs.donation_table(2), [[2, 0], [0, 3], [0, 1]])


def equilibria(a, b):
    """Returns all equilibria with supports of equal size, as (p, q), both lists."""
    found = []
    sizes = range(1, min(a.shape) + 1)
    supports = (
        (rows, columns)
        for k in sizes
        for rows in itertools.combinations(range(a.shape[0]), k)
        for columns in itertools.combinations(range(a.shape[1]), k)
    )
    for rows, columns in supports:
        q = indifferent(a[np.ix_(rows, columns)])
        p = indifferent(b[np.ix_(rows, columns)].T)
        if q is None or p is None:
            continue
        full_p, full_q = np.zeros(a.shape[0]), np.zeros(a.shape[1])
        full_p[list(rows)], full_q[list(columns)] = p, q
        best_row = np.max(a @ full_q) - full_p @ a @ full_q
        best_column = np.max(full_p @ b) - full_p @ b @ full_q
        if max(best_row, best_column) < 1e-9:
            found.append((full_p.round(9).tolist(), full_q.round(9).tolist()))
    return found


def indifferent(m):
    """Returns the mixture of columns that makes all rows of `m` equal, or None."""
    k = len(m)
    system = np.block([[m, -np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    if abs(np.linalg.det(system)) < 1e-12:
        return None
    mixture = np.linalg.solve(system, [0] * k + [1])[:k]
    return mixture if np.all(mixture > 1e-12) else None


COOPERATE, DEFECT, HALF = [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]


@pytest.mark.parametrize(
    ("payoff", "expected"),
    [
        ("IPD", [(DEFECT, DEFECT)]),
        ("AxelrodIPD", [(DEFECT, DEFECT)]),
        ("Deadlock", [(DEFECT, DEFECT)]),
        ("MatchingPennies", [(HALF, HALF)]),
        ("StagHunt", [(COOPERATE, COOPERATE), (DEFECT, DEFECT), (HALF, HALF)]),
        (
            "4,0,3,3",
            [(COOPERATE, COOPERATE), (DEFECT, DEFECT), ([0.75, 0.25], [0.75, 0.25])],
        ),
        (
            "5,0,4,2",
            [
                (COOPERATE, COOPERATE),
                (DEFECT, DEFECT),
                ([0.666666667, 0.333333333], [0.666666667, 0.333333333]),
            ],
        ),
        (
            "Chicken",
            [(COOPERATE, DEFECT), (DEFECT, COOPERATE), ([0.99, 0.01], [0.99, 0.01])],
        ),
        ("HawkDove", [(COOPERATE, DEFECT), (DEFECT, COOPERATE), (HALF, HALF)]),
        (
            "BattleOfTheSexes",
            [(COOPERATE, COOPERATE), (DEFECT, DEFECT), ([0.6, 0.4], [0.4, 0.6])],
        ),
        ("PureCoordination", [(COOPERATE, COOPERATE), (DEFECT, DEFECT), (HALF, HALF)]),
        ("RPS", [([0.333333333] * 3, [0.333333333] * 3)]),
    ],
)
def test_equilibria_of_the_named_games(payoff, expected):
    table = payoffs.parse_payoff(payoff)
    assert equilibria(table[..., 0], table[..., 1]) == expected


def test_value_of_chicken_at_its_mixed_equilibrium():
    table = payoffs.preset("Chicken").payoff
    p = np.array([0.99, 0.01])
    assert p @ table[..., 0] @ p == pytest.approx(-0.01, abs=1e-12)


def test_payoffs_import_without_jax(run_python):
    code = "import sys, paxenv.payoffs; print('jax' in sys.modules)"
    assert run_python(code) == "False"
