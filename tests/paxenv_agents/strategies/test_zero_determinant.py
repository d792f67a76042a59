"""Zero-determinant strategies: their vectors, and the lines that they enforce."""

import pytest

from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents.strategies.matches import discounted_values
from paxenv_agents.strategies.zero_determinant import ZeroDeterminant

AXELROD = (3.0, 0.0, 5.0, 1.0)
AXELROD_TABLE = ((3, 3), (0, 5), (5, 0), (1, 1))
PRISON_TABLE = ((-1, -1), (-3, 0), (0, -3), (-2, -2))
# P(cooperate) after CC, CD, DC, DD, and at the start.
OPPONENTS = {
    "AllC": (1, 1, 1, 1, 1),
    "AllD": (0, 0, 0, 0, 0),
    "TFT": (1, 0, 1, 0, 1),
    "WSLS": (1, 0, 0, 1, 1),
    "GTFT": (1, 1 / 3, 1, 1 / 3, 1),
    "Random": (0.5,) * 5,
    "M1": (0.9, 0.2, 0.7, 0.1, 0.5),
    "M2": (0.3, 0.8, 0.6, 0.4, 0.9),
}
# A discount so close to 1 that values are long-run means to about 1e-7.
LONG_RUN = 1 - 1e-9


def make(**options):
    return ZeroDeterminant.from_env(IteratedMatrixGame(3), **options)


def test_press_dyson_vector_of_the_reference_case():
    agent = make(chi=3, phi=1 / 26, payoff=AXELROD)
    assert agent.vector == pytest.approx((11 / 13, 1 / 2, 7 / 26, 0, 0), abs=1e-12)
    # The middle of the feasible range is the same phi.
    assert make(chi=3, payoff=AXELROD).vector == pytest.approx(agent.vector, abs=1e-12)


@pytest.mark.parametrize(
    ("chi", "opponent", "own", "other"),
    [
        (3, "AllC", 41 / 11, 21 / 11),
        (3, "AllD", 1, 1),
        (3, "TFT", 1, 1),
        (3, "WSLS", 26 / 11, 16 / 11),
        (3, "GTFT", 259 / 99, 457 / 297),
        (3, "Random", 41 / 16, 73 / 48),
        (3, "M1", 8 / 5, 6 / 5),
        (2, "AllC", 7 / 2, 9 / 4),
        (2, "Random", 42 / 17, 59 / 34),
        (2, "M1", 5 / 3, 4 / 3),
    ],
)
def test_extortion_takes_its_share_in_the_long_run(chi, opponent, own, other):
    agent = make(chi=chi, payoff=AXELROD)
    values = discounted_values(
        agent.vector, OPPONENTS[opponent], AXELROD_TABLE, LONG_RUN
    )
    assert values == pytest.approx((own, other), abs=1e-5)


# At gamma 0.96 in -1/-3/0/-2, phi in the middle of its range.
DISCOUNTED = {
    2: {
        "AllC": (-0.800000, -1.400000),
        "AllD": (-2.000000, -2.000000),
        "TFT": (-1.793103, -1.896552),
        "WSLS": (-1.560117, -1.780059),
        "GTFT": (-1.114754, -1.557377),
        "Random": (-1.400000, -1.700000),
        "M1": (-1.643623, -1.821811),
        "M2": (-1.325312, -1.662656),
    },
    3: {
        "AllC": (-0.714286, -1.571429),
        "AllD": (-2.000000, -2.000000),
        "TFT": (-1.836364, -1.945455),
        "WSLS": (-1.514039, -1.838013),
        "GTFT": (-1.147368, -1.715789),
        "Random": (-1.357143, -1.785714),
        "M1": (-1.666593, -1.888864),
        "M2": (-1.266348, -1.755449),
    },
}


@pytest.mark.parametrize("chi", DISCOUNTED)
def test_discounted_extortion_is_exact_against_every_opponent(chi):
    agent = make(chi=chi, gamma=0.96)
    for opponent, expected in DISCOUNTED[chi].items():
        own, other = discounted_values(
            agent.vector, OPPONENTS[opponent], PRISON_TABLE, 0.96
        )
        assert (own, other) == pytest.approx(expected, abs=1e-6), opponent
        assert own + 2 == pytest.approx(chi * (other + 2), abs=1e-12), opponent


def test_discounted_vectors_and_ranges():
    assert make(chi=2, gamma=0.96).vector == pytest.approx(
        (0.916667, 0.416667, 0.5, 0, 0), abs=1e-6
    )
    assert make(chi=3, gamma=0.96).vector == pytest.approx(
        (0.872024, 0.447917, 0.424107, 0, 0), abs=1e-6
    )
    agent = make(chi=1.5, gamma=0.96)
    assert agent.vector == pytest.approx((0.955729, 0.354167, 0.601563, 0, 0), abs=1e-6)
    assert agent.feasible_phi == pytest.approx((0.08, 0.25), abs=1e-12)


def test_generous_form_gives_the_other_more():
    agent = make(chi=2, phi=1 / 8, kind="generous", payoff=AXELROD)
    assert agent.vector == pytest.approx((1, 1 / 8, 1, 1 / 4, 1), abs=1e-12)
    own, other = discounted_values(
        agent.vector, OPPONENTS["M1"], AXELROD_TABLE, LONG_RUN
    )
    assert other - 3 == pytest.approx((own - 3) / 2, abs=1e-5)
    discounted = make(chi=2, kind="generous", gamma=0.96)
    own, other = discounted_values(
        discounted.vector, OPPONENTS["M2"], PRISON_TABLE, 0.96
    )
    assert own + 1 == pytest.approx(2 * (other + 1), abs=1e-12)


def test_infeasible_phi_is_refused_with_the_feasible_range():
    with pytest.raises(ValueError, match=r"phi=0\.2 is not .*in \(0, 0\.0769231\]"):
        make(chi=3, phi=0.2, payoff=AXELROD)
    with pytest.raises(ValueError, match=r"phi=0\.01 is not .*in \[0\.02, 0\.142857\]"):
        make(chi=3, phi=0.01, gamma=0.96)
    with pytest.raises(ValueError, match=r"no phi is feasible for chi=1\.0, gamma=0.9"):
        make(chi=1.0, gamma=0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chi": 0.5}, r"chi must be >= 1, got 0\.5"),
        ({"gamma": 1.5}, r"gamma must be in \(0, 1\], got 1\.5"),
        ({"kind": "fair"}, r"kind must be one of .*'fair'"),
        ({"payoff": (1, 2)}, r"payoff must be \(R, S, T, P\), got \(1\.0, 2\.0\)"),
    ],
)
def test_option_out_of_range_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
