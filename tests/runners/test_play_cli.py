"""A person against a strategy."""

import pytest

from runners.cli.match import open_match, play_match, read_action
from runners.config import ConfigError


def played(match, text):
    shown = []
    totals = play_match(match, text.splitlines(), shown.append, prompts=False)
    return totals, "\n".join(shown)


def test_moves_may_come_from_a_pipe(paxrun):
    result = paxrun("play", "IPD", "--against", "TitForTat", input="c\nD\n1\nq\n")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    steps = [line.strip() for line in lines if line.strip()[:1].isdigit()]
    assert steps == [
        "1. you C (-1), TitForTat C (-1); totals: you -1, TitForTat -1",
        "2. you D (+0), TitForTat C (-3); totals: you -1, TitForTat -4",
        "3. you D (-2), TitForTat D (-2); totals: you -3, TitForTat -6",
    ]
    assert "DC  player 1 gets  0  player 2 gets -3" in result.stdout
    assert lines[-1].startswith("After 3 steps: you -3 (-1.000 a step)")


def test_a_whole_episode_ends_by_itself():
    match = open_match("IPD", ["num_inner_steps=3"], against="AllD")
    totals, text = played(match, "c\n" * 10)
    assert totals == (-9.0, 0.0)
    assert "After 3 steps" in text


def test_the_second_seat_may_be_taken():
    match = open_match("IPD", ["num_inner_steps=2"], against="AllC", player=2)
    totals, _ = played(match, "d\nd\n")
    assert totals == (-6.0, 0.0)


def test_what_is_no_action_is_asked_for_again():
    match = open_match("IPD", ["num_inner_steps=1"], against="AllC")
    totals, text = played(match, "x\n\n7\nd\n")
    assert totals == (0.0, -3.0)
    assert "'x' is no action" in text
    assert "'7' is no action" in text


def test_an_end_of_input_ends_the_match():
    totals, text = played(open_match("IPD"), "")
    assert totals == (0.0, 0.0)
    assert text.endswith("Nothing was played.")


def test_a_board_is_shown_where_there_is_one():
    match = open_match("CoinGame", ["num_inner_steps=2"], seed=3)
    _, text = played(match, "stay\nstay\n")
    assert match.co_player == "GoodGreedy"
    assert text.count("R") >= 3
    assert "you stay" in text


def test_the_seed_decides_the_game():
    texts = [
        played(open_match("IPD", against="Random", seed=seed), "c\n" * 20)[1]
        for seed in (0, 0, 1)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_inner_episodes_are_announced():
    words = ["num_inner_steps=1", "num_outer_steps=2"]
    _, text = played(open_match("IPD", words, against="AllC"), "c\nc\n")
    assert text.count("the next one begins") == 1


@pytest.mark.parametrize(
    ("word", "action"),
    [
        ("0", 0),
        ("right", 0),
        ("R", 0),
        ("le", 1),
        ("s", 4),
        ("9", None),
        ("x", None),
    ],
)
def test_actions_are_numbers_names_or_their_beginnings(word, action):
    assert read_action(word, ("right", "left", "up", "down", "stay")) == action


def test_a_beginning_of_two_names_is_no_action():
    assert read_action("s", ("stay", "stop")) is None


def test_continuous_games_cannot_be_typed():
    with pytest.raises(ConfigError, match="continuous actions"):
        open_match("InfiniteMatrixGame", against="HyperTFT")
