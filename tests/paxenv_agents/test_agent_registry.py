"""Names of agents: aliases, suggestions, refusals, and an import without JAX."""

import pytest

import paxenv_agents
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import PairingError, make_agent
from paxenv_agents.registry import UnknownAgentError, playable

NAMES = {
    "Random",
    "Altruistic",
    "AllC",
    "Defect",
    "AllD",
    "MemoryOne",
    "TitForTat",
    "SuspiciousTitForTat",
    "Grim",
    "WinStayLoseShift",
    "Alternator",
    "GenerousTitForTat",
    "ZeroDeterminant",
    "TitForTatStrictStay",
    "TitForTatStrictSwitch",
    "TitForTatCooperate",
    "TitForTatDefect",
    "TitForTatHarsh",
    "TitForTatSoft",
    "OwnCoin",
    "Dodger",
    "AnyCoin",
    "GoodGreedy",
    "EvilGreedy",
    "RandomGreedy",
    "Stay",
    "HyperAltruistic",
    "HyperDefect",
    "HyperTFT",
}


def test_every_strategy_has_a_summary_a_source_and_a_classifier():
    specs = paxenv_agents.agents()
    assert set(specs) >= NAMES
    for name in NAMES:
        assert specs[name].summary.endswith("."), name
        assert specs[name].source, name
        assert set(specs[name].classifier) == {"plays", "memory_depth", "stochastic"}


def test_import_starts_no_jax(run_python):
    code = (
        "import sys, paxenv_agents; paxenv_agents.agents(); print('jax' in sys.modules)"
    )
    assert run_python(code) == "False"


def test_name_as_an_attribute_makes_the_agent():
    env = IteratedMatrixGame(3)
    agent = paxenv_agents.TitForTat(env, player=1)
    assert agent == make_agent("TitForTat", env, player=1)
    assert paxenv_agents.GenerousTitForTat(env, generosity=0.5).generosity == 0.5
    assert "TitForTat" in dir(paxenv_agents)
    with pytest.raises(AttributeError, match="no attribute 'TitForTatt'"):
        _ = paxenv_agents.TitForTatt


def test_option_of_the_caller_wins_over_that_of_the_name():
    agent = make_agent("TitForTat", IteratedMatrixGame(3), p0=0.25)
    assert agent.vector == (1.0, 0.0, 1.0, 0.0, 0.25)


def test_unknown_name_is_refused_with_the_closest_one():
    with pytest.raises(UnknownAgentError, match="did you mean TitForTat"):
        make_agent("TitForTaat", IteratedMatrixGame(3))


@pytest.mark.parametrize(
    ("name", "env", "reason", "able", "unable"),
    [
        (
            "TitForTat",
            CoinGame(4),
            "TitForTat cannot play as player 2 of CoinGame: it needs a game of two",
            {"GoodGreedy", "OwnCoin", "Random", "Stay"},
            {"TitForTat", "AllC", "HyperTFT"},
        ),
        (
            "AllC",
            CoinGame(4),
            "AllC cannot play as player 2 of CoinGame: it needs a game of two actions",
            {"Dodger"},
            {"AllC", "AllD"},
        ),
        (
            "EvilGreedy",
            IteratedMatrixGame(4),
            "EvilGreedy cannot play as player 2 of IteratedMatrixGame: it plays the",
            {"TitForTat", "AllC", "Random", "ZeroDeterminant"},
            {"GoodGreedy", "Stay", "HyperTFT"},
        ),
    ],
)
def test_pairing_that_cannot_play_is_refused_with_those_that_can(
    name, env, reason, able, unable
):
    """A75: the message names the valid pairings."""
    with pytest.raises(PairingError) as caught:
        make_agent(name, env, player=1)
    message = str(caught.value)
    assert message.startswith(reason)
    named = set(message.split("Agents that can: ")[1].split(", "))
    assert named >= able
    assert not named & unable


def test_playable_names_are_those_that_can_be_made():
    env = IteratedMatrixGame(3)
    names = playable(env)
    assert {"TitForTat", "AllD", "Random"} <= set(names)
    assert not {"MemoryOne", "OwnCoin"} & set(names)
    assert all(make_agent(name, env) is not None for name in names)


def test_one_player_game_has_nobody_to_cooperate_with():
    class Alone(IteratedMatrixGame):
        num_players = 1

    with pytest.raises(PairingError, match="nobody to cooperate with"):
        make_agent("AllC", Alone(3))
