"""A game in words."""

from runners.report.description import introduction, summary


def test_a_game_is_explained_to_a_newcomer(paxrun):
    """Two actions, five named states, the payoff by cell, the swapped view."""
    text = paxrun("describe", "IPD").stdout
    for line in (
        "pax/IPD-v0",
        "usual opponent: TitForTat",
        "actions of each player: 2",
        "0 = C, cooperate",
        "1 = D, defect",
        "one of 5 states",
        "1 = CD: it cooperated, the other defected",
        "4 = START: nothing has been played yet",
        "the second player sees DC where the first sees CD",
        "CD  player 1 gets -3  player 2 gets  0",
        "DC  player 1 gets  0  player 2 gets -3",
    ):
        assert line in text, line


def test_the_payoff_shown_is_the_one_given(paxrun):
    text = paxrun("describe", "IPD", "payoff=3,0,5,1", "num_inner_steps=7").stdout
    assert "DC  player 1 gets 5  player 2 gets 0" in text
    assert "episode: 7 steps" in text


def test_a_game_of_other_actions_names_them(paxrun):
    text = paxrun("describe", "CoinGame").stdout
    assert "actions of each player: 5" in text
    assert "4 = stay" in text
    assert "usual opponent: GoodGreedy" in text
    assert "takes a coin" in text


def test_the_numbers_of_a_game_are_numbers(paxrun):
    text = paxrun("describe", "Pendulum", "mass=2").stdout
    assert "gravity=10, mass=2, length=1, time_step=0.05" in text


class Ferry:
    """Two players choose a bank.

    They meet if both choose the same.

    Reward:
        1 for a meeting.
    """


class Unsaid(Ferry):
    pass


def test_what_a_class_says_of_itself_is_its_docstring_before_the_sections():
    assert introduction(Ferry) == [
        "Two players choose a bank.",
        "",
        "They meet if both choose the same.",
    ]
    assert summary(Ferry) == "Two players choose a bank."
    assert summary(Unsaid) == ""
