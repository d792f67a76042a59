"""Payoffs are read in every form that people write, and bad cells are named."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paxenv.payoffs import PayoffError, parse_payoff, parse_table, parse_tensor

IPD = [[[-1, -1], [-3, 0]], [[0, -3], [-2, -2]]]


@pytest.mark.parametrize(
    "value",
    [
        [[-1, -1], [-3, 0], [0, -3], [-2, -2]],
        ((-1, -1), (-3, 0), (0, -3), (-2, -2)),
        np.array([[-1, -1], [-3, 0], [0, -3], [-2, -2]], np.int8),
        IPD,
        "[[-1,-1],[-3,0],[0,-3],[-2,-2]]",
        "[[-1.0, -1e0], [-3, 0], [0, -3], [-2, -2]]",
        "'[[-1,-1],[-3,0],[0,-3],[-2,-2]]'",
        "[['-1','-1'],['-3','0'],['0','-3'],['-2','-2']]",
        "[[-1,-1],[-3,0],[0,-3],[-2,-2],]",
        "  [ [-1, -1] , [-3, 0],\n\t[0, -3],\n  [-2, -2] ]\n",
        "- [-1, -1]\n- [-3, 0]\n- [0, -3]\n- [-2, -2]",
        "[[[-1,-1],[-3,0]],[[0,-3],[-2,-2]]]",
        "CC=-1,-1 CD=-3,0 DC=0,-3 DD=-2,-2",
        "DD=-2,-2; cd = -3, 0\nDC=(0,-3) CC=[-1, -1]",
        "{CC: [-1, -1], CD: [-3, 0], DC: [0, -3], DD: [-2, -2]}",
        {"CC": (-1, -1), "CD": (-3, 0), "DC": (0, -3), "DD": (-2, -2)},
        "-1,-3,0,-2",
        " -1, -3, 0, -2 ",
        [-1, -3, 0, -2],
        "IPD",
        "pax/IPD-v0",
        "prisoners_dilemma",
    ],
)
def test_every_form_of_the_same_payoff_reads_alike(value):
    """Text in JSON, YAML, labelled or flat form gives equal arrays."""
    payoff = parse_payoff(value)
    assert payoff.dtype == np.float64
    np.testing.assert_array_equal(payoff, IPD)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("[[1,1],[2]]", "row 2, column 2 is missing"),
        ("[[1,1],[2,2],[3,3,3],[4,4]]", "row 3, column 3 is too much"),
        ("[[1,1],[2,2],3,[4,4]]", "row 3, column 1 is missing"),
        ("[[1,1],[2,2],[3,3]]", "3 rows and 2 columns"),
        ("[[1,1,1],[2,2,2],[3,3,3],[4,4,4]]", "4 rows and 3 columns"),
        ("[[-1,-3],[0,-2]]", "2 rows and 2 columns"),
        ('[["a","b"],[1,1],[1,1],[1,1]]', "row 1, column 1: 'a'"),
        ("[[1,1],[2,2],[3,1e400],[4,4]]", "row 3, column 2: '1e400'"),
        ("[[1,1],[2,2],[3,1e39],[4,4]]", "row 3, column 2: '1e39'"),
        ("[[1,1],[null,2],[3,3],[4,4]]", "row 2, column 1: 'null'"),
        ("[[1,1],[.nan,2],[3,3],[4,4]]", "row 2, column 1: '.nan'"),
        ([[1, 1], [2, 2], [3, 3], [4, float("inf")]], "row 4, column 2: inf"),
        ([[1, 1], [2, 2], [None, 3], [4, 4]], "row 3, column 1: None"),
        ([[1, 1], [2, 2], [True, 3], [4, 4]], "row 3, column 1: True"),
        ("[[[1,1],[2,x]],[[3,3],[4,4]]]", "row 1, column 2, player 2: 'x'"),
        ("", "no row and no column"),
        ("null", "no row and no column"),
        (None, "no row and no column"),
        ("[]", "empty"),
        ("[[]]", "row 1 has no column"),
        ("7", "no rows and columns"),
        ("1,2,3", "no rows and columns"),
        ("[[1,1],[2,2]", "line 1, column 13"),
        ("CC=1,1 CD=2,2 DD=3,3", "row DC is missing"),
        ("CC=1,1 CD=2,2 DC=3 DD=4,4", "row 3, column 2 is missing"),
        ("CC=1,1 CD=2,2 DC=3,3 EE=4,4", "row 'EE' is unknown"),
        ("CC=1,1 CC=2,2 DC=3,3 DD=4,4", "row 'CC' is there twice"),
        ("hello", "no payoff named 'hello'"),
    ],
)
def test_a_bad_payoff_is_refused_with_its_place(value, place):
    """Ragged, wrong size, words, empty, 1e400 and null name row and column."""
    with pytest.raises(PayoffError) as caught:
        parse_payoff(value)
    assert place in str(caught.value)
    assert "row" in str(caught.value)
    assert "column" in str(caught.value)


def test_payoff_errors_are_value_errors():
    assert issubclass(PayoffError, ValueError)


def test_flat_numbers_are_r_s_t_p_of_a_symmetric_game():
    """`-1,-3,0,-2` is player 1's reward, sucker, temptation, punishment."""
    payoff = parse_payoff("3,0,5,1")
    assert payoff[0, 1].tolist() == [0, 5]
    assert payoff[1, 0].tolist() == [5, 0]


def test_a_misspelt_name_gets_the_closest():
    with pytest.raises(PayoffError, match="did you mean 'Chicken'"):
        parse_payoff("chiken")


def test_rows_of_a_non_square_game_need_num_actions():
    rows = [[i, -i] for i in range(6)]
    with pytest.raises(PayoffError, match="6 rows"):
        parse_payoff(rows)
    payoff = parse_payoff(rows, num_actions=(2, 3))
    assert payoff.shape == (2, 3, 2)
    assert payoff[1, 2].tolist() == [5, -5]
    np.testing.assert_array_equal(parse_payoff(payoff), payoff)


def test_a_matrix_payoff_for_another_game_is_refused_by_size():
    """A 4x2 matrix payoff where 2x3 is needed is a shape error."""
    example = "two rows and three columns such as [[1,1,-2],[1,1,-2]]"
    with pytest.raises(PayoffError, match=r"4 rows and 2 .* needs 2 rows and 3") as e:
        parse_table([[-1, -1], [-3, 0], [0, -3], [-2, -2]], (2, 3), form=example)
    assert "[[1,1,-2],[1,1,-2]]" in str(e.value)


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(finite, finite), min_size=4, max_size=4))
def test_json_text_and_lists_give_the_same_numbers(rows):
    expected = np.array(rows).reshape(2, 2, 2)
    np.testing.assert_array_equal(parse_payoff(rows), expected)
    np.testing.assert_array_equal(parse_payoff(json.dumps(rows)), expected)
    text = " ".join(
        f"{label}={a!r},{b!r}"
        for label, (a, b) in zip(("CC", "CD", "DC", "DD"), rows, strict=True)
    )
    np.testing.assert_array_equal(parse_payoff(text), expected)


@pytest.mark.parametrize("junk", [1000, None, "x", float("nan")])
def test_unreachable_cells_of_a_counts_table_may_hold_anything(junk):
    table = parse_tensor([[4, junk], [2, 5], [0, 3], [junk, 1]], (2, 2, 2))
    np.testing.assert_array_equal(table, [[4, 0], [2, 5], [0, 3], [0, 1]])


def test_reachable_cells_of_a_counts_table_must_be_numbers():
    with pytest.raises(PayoffError, match="row 2, column 1"):
        parse_tensor([[4, 0], [None, 5], [0, 3], [0, 1]], (2, 2, 2))


def test_a_payoff_tensor_of_three_players_is_read_whole():
    tensor = np.arange(24).reshape(2, 2, 2, 3)
    np.testing.assert_array_equal(parse_tensor(tensor, (2, 2, 2)), tensor)
    with pytest.raises(PayoffError, match="row"):
        parse_tensor(tensor[:1], (2, 2, 2))
