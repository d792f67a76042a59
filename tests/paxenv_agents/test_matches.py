"""Matches of strategies: totals, round-robins, and independence of the players."""

import jax
import numpy as np
import pytest

from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import make_agent
from paxenv_agents.strategies.matches import discounted_values, exact_totals, play_match
from paxenv_agents.strategies.memory_one import Automaton

PRISON = ((-1, -1), (-3, 0), (0, -3), (-2, -2))
AXELROD = ((3, 3), (0, 5), (5, 0), (1, 1))
ENV = IteratedMatrixGame(100)
DETERMINISTIC = (
    "AllC",
    "AllD",
    "TitForTat",
    "SuspiciousTitForTat",
    "Grim",
    "WinStayLoseShift",
    "Alternator",
)
STOCHASTIC = ("Random", "GenerousTitForTat", "ZeroDeterminant")


PLAY = jax.jit(play_match, static_argnums=(0, 1))


def match(first, second, seed=0):
    """Returns (actions, rewards) of 100 rounds, each `[100, 2]`."""
    played = PLAY((first, second), ENV, ENV.default_params, jax.random.key(seed))
    return np.asarray(played.actions), np.asarray(played.rewards)


def automaton(name):
    return make_agent(name, ENV).automaton


@pytest.mark.parametrize(
    ("first", "second", "totals"),
    [
        ("TitForTat", "AllD", (-201, -198)),
        ("AllD", "AllC", (0, -300)),
        ("Alternator", "TitForTat", (-148, -151)),
        ("Alternator", "Grim", (-246, -102)),
        ("WinStayLoseShift", "AllD", (-250, -100)),
        ("SuspiciousTitForTat", "TitForTat", (-150, -150)),
    ],
)
def test_totals_of_a_hundred_rounds(first, second, totals):
    """Strategies mean the right actions, played and solved exactly."""
    _, rewards = match(make_agent(first, ENV), make_agent(second, ENV, player=1))
    assert tuple(rewards.sum(0)) == totals
    assert exact_totals(automaton(first), automaton(second), PRISON, 100) == totals


@pytest.mark.parametrize("opponent", ["AllD", "Alternator", "Grim"])
@pytest.mark.parametrize("name", ["TitForTat", "Grim", "WinStayLoseShift"])
def test_same_objects_play_the_same_match_twice(name, opponent):
    """Nothing is left over from the first match."""
    first, second = make_agent(name, ENV), make_agent(opponent, ENV, player=1)
    np.testing.assert_array_equal(match(first, second)[0], match(first, second)[0])


@pytest.mark.parametrize("name", DETERMINISTIC + STOCHASTIC)
def test_one_object_in_both_seats_has_two_memories(name):
    """Self-play is symmetric for rules, and two players for those who draw."""
    agent = make_agent(name, ENV)
    actions, rewards = match(agent, agent)
    if name in DETERMINISTIC:
        assert rewards[:, 0].sum() == rewards[:, 1].sum()
        np.testing.assert_array_equal(actions[:, 0], actions[:, 1])
    if name == "Random":
        assert 20 < (actions[:, 0] != actions[:, 1]).sum() < 80


def test_opponent_does_not_shift_the_draws_of_random():
    """100 actions of Random are the same against TitForTat and against AllC."""
    random = make_agent("Random", ENV)
    histories = [
        match(random, make_agent(name, ENV, player=1))[0][:, 0]
        for name in ("TitForTat", "AllC", "GenerousTitForTat")
    ]
    assert 20 < histories[0].sum() < 80
    np.testing.assert_array_equal(histories[0], histories[1])
    np.testing.assert_array_equal(histories[0], histories[2])


def test_two_seeds_play_two_matches():
    """The key decides what Random does."""
    random = make_agent("Random", ENV)
    tit_for_tat = make_agent("TitForTat", ENV, player=1)
    first, second = (match(random, tit_for_tat, seed)[0] for seed in (0, 1))
    assert 20 < (first[:, 0] != second[:, 0]).sum() < 80


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_exact_totals_equal_play(name):
    opponent = "WinStayLoseShift"
    _, rewards = match(make_agent(name, ENV), make_agent(opponent, ENV, player=1))
    exact = exact_totals(automaton(name), automaton(opponent), PRISON, 100)
    assert tuple(rewards.sum(0)) == exact


# Strategies that need more memory than the package's, as automata.
FIELD = {
    "Grudger": automaton("Grim"),
    "Tit For Tat": automaton("TitForTat"),
    "Two Tits For Tat": Automaton((0, 1, 1), ((0, 2), (0, 2), (1, 2))),
    "Tit For 2 Tats": Automaton((0, 0, 1), ((0, 1), (0, 2), (0, 2))),
    "Win-Stay Lose-Shift": automaton("WinStayLoseShift"),
    "Cooperator": automaton("AllC"),
    "Defector": automaton("AllD"),
    "Anti Tit For Tat": Automaton((0, 1), ((1, 0), (1, 0))),
    "Alternator": automaton("Alternator"),
    "Suspicious Tit For Tat": automaton("SuspiciousTitForTat"),
}


@pytest.mark.parametrize(
    ("turns", "scores"),
    [
        (200, [5588, 5247, 5159, 5055, 4818, 4500, 4420, 4229, 4167, 3861]),
        (10, [268, 258, 257, 248, 239, 225, 240, 220, 228, 209]),
    ],
)
def test_round_robin_of_ten_deterministic_strategies(turns, scores):
    rows = [
        sum(exact_totals(row, column, AXELROD, turns)[0] for column in FIELD.values())
        for row in FIELD.values()
    ]
    assert rows == scores


def test_round_robin_without_matches_against_oneself():
    rows = [
        sum(exact_totals(a, b, AXELROD, 200)[0] for b in FIELD.values() if b is not a)
        for a in FIELD.values()
    ]
    assert rows == [4988, 4647, 4559, 4455, 4218, 3900, 4220, 3829, 3767, 3661]


def test_round_robin_of_five_strategies():
    names = ("Cooperator", "Defector", "Tit For Tat", "Grudger", "Win-Stay Lose-Shift")
    five = [FIELD[name] for name in names]
    rows = [sum(exact_totals(a, b, AXELROD, 200)[0] for b in five) for a in five]
    assert rows == [2400, 2208, 2599, 2599, 2500]


@pytest.mark.parametrize(
    ("first", "second", "totals"),
    [
        ("Tit For Tat", "Defector", (199, 204)),
        ("Win-Stay Lose-Shift", "Defector", (100, 600)),
        ("Alternator", "Tit For Tat", (503, 498)),
        ("Anti Tit For Tat", "Tit For Tat", (450, 450)),
    ],
)
def test_match_of_two_hundred_turns(first, second, totals):
    assert exact_totals(FIELD[first], FIELD[second], AXELROD, 200) == totals


def test_cost_of_an_exact_total_does_not_grow_with_the_rounds():
    # D v C, then C v D, for ever: 5 and 0 in turn.
    totals = exact_totals(
        automaton("SuspiciousTitForTat"), automaton("TitForTat"), AXELROD, 10**15 + 1
    )
    assert totals == (5 * (10**15 // 2 + 1), 5 * (10**15 // 2))
    assert exact_totals(automaton("AllC"), automaton("AllC"), AXELROD, 0) == (0, 0)


def test_automaton_with_a_missing_state_is_refused():
    with pytest.raises(ValueError, match=r"states must be in \[0, 2\), got \[2\]"):
        Automaton((0, 1), ((0, 2), (1, 1)))
    with pytest.raises(ValueError, match="2 outputs need as many rows"):
        Automaton((0, 1), ((0, 0),))


def test_match_is_one_inner_episode_of_fixed_length():
    tit_for_tat = make_agent("TitForTat", ENV)
    for options in ({"num_outer_steps": 2}, {"random_ends": True}):
        env = IteratedMatrixGame(10, **options)
        with pytest.raises(ValueError, match="one inner episode of fixed length"):
            play_match(
                (tit_for_tat, tit_for_tat), env, env.default_params, jax.random.key(0)
            )


M1 = (0.9, 0.2, 0.7, 0.1, 0.5)
VECTORS = {
    "M1": M1,
    "GTFT": make_agent("GenerousTitForTat", ENV).vector,
    "STFT": make_agent("SuspiciousTitForTat", ENV).vector,
    "TFT": make_agent("TitForTat", ENV).vector,
    "WSLS": make_agent("WinStayLoseShift", ENV).vector,
    "Grim": make_agent("Grim", ENV).vector,
    "Random": make_agent("Random", ENV).vector,
    "AllC": make_agent("AllC", ENV).vector,
    "AllD": make_agent("AllD", ENV).vector,
}


@pytest.mark.parametrize(
    ("first", "second", "prison", "axelrod"),
    [
        ("AllC", "AllC", (-1, -1), (3, 3)),
        ("AllD", "AllD", (-2, -2), (1, 1)),
        ("AllC", "AllD", (-3, 0), (0, 5)),
        ("TFT", "AllC", (-1, -1), (3, 3)),
        ("TFT", "AllD", (-2.040000, -1.920000), (0.960000, 1.160000)),
        ("TFT", "STFT", (-1.530612, -1.469388), (2.448980, 2.551020)),
        ("GTFT", "AllD", (-2.360000, -1.280000), (0.640000, 2.440000)),
        ("GTFT", "STFT", (-1.141079, -1.029046), (2.821577, 3.008299)),
        ("WSLS", "AllD", (-2.510204, -0.979592), (0.489796, 3.040816)),
        ("WSLS", "STFT", (-1.680733, -1.639089), (1.985564, 2.054969)),
        ("Grim", "STFT", (-1.963200, -1.958400), (1.113600, 1.121600)),
        ("Random", "Random", (-1.5, -1.5), (2.25, 2.25)),
        ("Random", "TFT", (-1.460000, -1.520000), (2.320000, 2.220000)),
        ("M1", "TFT", (-1.467891, -1.528920), (2.207004, 2.105289)),
        ("M1", "WSLS", (-1.397430, -1.523637), (2.413012, 2.202666)),
        ("M1", "Random", (-1.471963, -1.556075), (2.292056, 2.151869)),
        ("M1", "M1", (-1.569061, -1.569061), (2.028775, 2.028775)),
    ],
)
def test_discounted_values_of_memory_one_pairs(first, second, prison, axelrod):
    """Normalised values at gamma 0.96, to 1e-6."""
    pair = VECTORS[first], VECTORS[second]
    assert discounted_values(*pair, PRISON, 0.96) == pytest.approx(prison, abs=1e-6)
    assert discounted_values(*pair, AXELROD, 0.96) == pytest.approx(axelrod, abs=1e-6)


def test_discount_of_one_is_refused():
    with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\), got 1"):
        discounted_values(M1, M1, PRISON, 1.0)
