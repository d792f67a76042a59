"""Numbers of things in words."""

import pytest

from paxenv.wording import counted, grouped


@pytest.mark.parametrize(
    ("number", "what", "expected"),
    [
        (1, "game", "1 game"),
        (0, "game", "0 games"),
        (12_000, "step", "12,000 steps"),
        (2, "inner episode", "2 inner episodes"),
        (2, "entry", "2 entries"),
        (2, "play", "2 plays"),
        (3, "match", "3 matches"),
    ],
)
def test_one_thing_is_singular_and_many_are_plural(number, what, expected):
    assert counted(number, what) == expected


def test_many_equal_neighbours_are_written_once():
    assert grouped(["PPO", *["Random"] * 11]) == ["PPO", "11xRandom"]
    few = ["PPO", "PPO", "Random", "Random", "Random", "PPO"]
    assert grouped(few) == few
