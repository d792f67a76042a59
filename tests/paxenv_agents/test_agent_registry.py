"""Names of agents: aliases, suggestions, refusals, and an import without JAX."""

import dataclasses

import gymnasium
import jax
import numpy as np
import pytest

import paxenv
import paxenv_agents
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.infinite_matrix_game import InfiniteMatrixGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import PairingError, make_agent, registry
from paxenv_agents.registry import (
    AgentSpec,
    MissingOptionsError,
    UnknownAgentError,
    playable,
)

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


def test_a_name_makes_an_agent_by_from_env_as_a_class_does():
    env = IteratedMatrixGame(3)
    made = paxenv_agents.TitForTat.from_env(env, player=1)
    assert made == make_agent("TitForTat", env, player=1)
    assert paxenv_agents.TitForTat(env=env, player=1) == made
    vector = paxenv_agents.MemoryOne.from_env(env, p=(1, 0, 1, 0), p0=1)
    assert paxenv_agents.MemoryOne(env=env, p=(1, 0, 1, 0), p0=1) == vector


def test_a_name_knows_its_agents_as_a_class_does():
    env = IteratedMatrixGame(3)
    for name in ("PPO", "LOLA", "Tabular", "TitForTat", "AllC", "Grim"):
        agent = make_agent(name, env, player=1)
        assert isinstance(agent, getattr(paxenv_agents, name)), name
    assert isinstance(paxenv_agents.LOLA, type)
    assert not isinstance(make_agent("AllC", env), paxenv_agents.AllD)
    assert not isinstance(make_agent("TitForTat", env), paxenv_agents.Grim)
    assert not isinstance(make_agent("PPO", env), paxenv_agents.Tabular)
    assert isinstance(make_agent("Tabular", env), paxenv_agents.PPO)


GAMES = (
    IteratedMatrixGame(3),
    CoinGame(4),
    InfiniteMatrixGame(3),
    paxenv.make("IteratedTensorGame-v0", num_players=3)[0],
    paxenv.make("Pendulum-v1")[0],
)
NEEDED = {"MemoryOne": {"p": (1.0, 0.0, 1.0, 0.0), "p0": 1.0}}


def seats_of(name):
    """Returns (game, seat) of the first game that an agent can play."""
    game = next(g for g in GAMES if name in playable(g) or name in NEEDED)
    return game, game.num_players - 1


@pytest.mark.parametrize("name", paxenv_agents.agents())
def test_every_name_takes_the_same_arguments(name):
    """(env, config), config options or the seat, and by name `player` and options."""
    maker, needed = getattr(paxenv_agents, name), NEEDED.get(name, {})
    game, seat = seats_of(name)
    agent = make_agent(name, game, seat, **needed)

    assert maker.from_env(game, seat, **needed) == agent
    assert maker.from_env(game, needed, player=seat) == agent
    assert maker.from_env(game, None, player=seat, **needed) == agent
    assert maker(game, needed, player=seat) == agent
    assert maker(env=game, cfg=needed, player=seat) == agent
    greedy = maker.from_env(game, needed, player=seat, greedy=True)
    assert greedy == dataclasses.replace(agent, greedy=True)
    assert isinstance(agent, maker)


def test_no_agent_is_more_than_three_classes_below_the_protocol():
    classes = {name: spec.load() for name, spec in paxenv_agents.agents().items()}
    depths = {
        name: made_by.__mro__.index(paxenv_agents.Agent)
        for name, made_by in classes.items()
    }
    assert {name: depth for name, depth in depths.items() if depth > 3} == {}


@pytest.mark.parametrize("name", ["TitForTat", "MemoryOne", "PPO", "DQN", "AllC"])
def test_every_name_refuses_alike(name):
    maker, needed = getattr(paxenv_agents, name), NEEDED.get(name, {})
    game = IteratedMatrixGame(3)
    with pytest.raises(ValueError, match=r"takes a .*, got 'grim'"):
        maker.from_env(game, "grim", **needed)
    said = f"^{name} takes a .*, got arrays in .*: numbers of a game"
    with pytest.raises(ValueError, match=said):
        maker.from_env(*paxenv.make("IPD"), **needed)
    with pytest.raises(TypeError, match="player is given twice: 1 and 1"):
        maker.from_env(game, 1, player=1, **needed)
    with pytest.raises(TypeError, match="rrate"):
        maker.from_env(game, {**needed, "rrate": 1})
    with pytest.raises(TypeError, match="cfg is another name of config"):
        maker(env=game, cfg=needed, config=needed)


LEARNERS = {
    "CartPole-v1": ("PPO", "RecurrentPPO", "DQN"),
    "Pendulum-v1": ("PPO", "RecurrentPPO", "SAC"),
}


@pytest.mark.parametrize(
    ("game", "name"), [(game, name) for game in LEARNERS for name in LEARNERS[game]]
)
def test_a_learner_is_made_for_native_and_gymnasium_environments(game, name):
    """By its class, by `from_env` and by its name; the spaces are those of one game."""
    learner = getattr(paxenv_agents, name)
    config = learner.config_class(gamma=0.5)
    vector = gymnasium.make_vec(game, num_envs=2)
    native, _ = paxenv.make(game)
    for env in (native, gymnasium.make(game), vector):
        agent = learner(env=env, cfg=config)
        assert agent == learner.from_env(env, config)
        assert agent == learner(env, config)
        assert agent == make_agent(name, env, gamma=0.5)
        assert agent.config == config
    assert agent.observation_space == vector.single_observation_space
    assert agent.action_space == vector.single_action_space
    assert learner(env=native, cfg={"gamma": 0.5}).config == config
    with pytest.raises(ValueError, match="did you mean 'gamma'"):
        learner(env=native, cfg={"gama": 0.5})
    with pytest.raises(TypeError, match="cfg is another name of config"):
        learner(env=native, config=config, cfg=config)


@pytest.mark.parametrize(
    ("game", "name"),
    [
        *(("IPD", "TitForTat"), ("IPD", "AllC"), ("IPD", "TitForTatHarsh")),
        *(("CoinGame", "OwnCoin"), ("CoinGame", "Random")),
    ],
)
def test_a_strategy_is_made_for_environments_of_gymnasium(game, name):
    plain = gymnasium.make(f"pax/{game}-v0", num_inner_steps=4)
    vector = gymnasium.make_vec(f"pax/{game}-v0", num_envs=2, num_inner_steps=4)
    for env in (plain, vector):
        agent = getattr(paxenv_agents, name).from_env(env)
        state, memory = agent.make_initial_state(
            jax.random.key(0), agent.init_hidden(1)[0]
        )
        obs, _ = plain.reset(seed=0)
        action, _, _ = agent.policy(state, obs, memory)
        assert plain.action_space.contains(np.int64(action))


def test_option_of_the_caller_wins_over_that_of_the_name():
    agent = make_agent("TitForTat", IteratedMatrixGame(3), p0=0.25)
    assert agent.vector == (1.0, 0.0, 1.0, 0.0, 0.25)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("lr", r"'lr' \(.*\); did you mean 'learning_rate'\? Its options: .*, gamma,"),
        ("zzz", r"'zzz' \([^)]*\)\. Its options: .*, gamma,"),
    ],
)
def test_an_unknown_option_is_refused_with_those_there_are(option, said):
    """What other libraries call one of them is among what is known."""
    with pytest.raises(TypeError, match=said):
        make_agent("PPO", IteratedMatrixGame(3), **{option: 0.1})


def test_what_is_no_text_is_no_name():
    with pytest.raises(ValueError, match="must be a text such as 'PPO', got <class"):
        make_agent(paxenv_agents.PPO, IteratedMatrixGame(10))


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
    """The message names the valid pairings."""
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


def test_an_agent_that_needs_options_says_which():
    with pytest.raises(ValueError, match="MemoryOne needs p and p0: make_agent"):
        make_agent("MemoryOne", IteratedMatrixGame(10))
    with pytest.raises(MissingOptionsError) as caught:
        make_agent("MemoryOne", IteratedMatrixGame(10), p=(1.0, 0.0, 1.0, 0.0))
    assert caught.value.missing == ("p0",)


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(TypeError, match=r"'generousity'.* did you mean 'gener"):
        make_agent("GenerousTitForTat", IteratedMatrixGame(10), generousity=0.3)


class Plugin:
    """An agent of another package, which is no dataclass."""

    def __init__(self, num_actions, rate):
        self.rate = rate if num_actions else broken(1)

    @classmethod
    def from_env(cls, env, player=0, **config):
        return cls(env.action_space(player).n, **config)


def broken():
    """Takes nothing."""


def test_a_plugins_agent_that_needs_options_says_which(monkeypatch):
    spec = AgentSpec("Theirs", f"{__name__}:Plugin")
    monkeypatch.setattr(registry, "find", lambda name: spec)
    game = IteratedMatrixGame(10)
    assert make_agent("Theirs", game, rate=0.5).rate == 0.5
    with pytest.raises(MissingOptionsError, match="Theirs needs rate: "):
        make_agent("Theirs", game)
    with pytest.raises(ValueError, match=r"no option 'rat' .*; did you mean 'rate'"):
        make_agent("Theirs", game, rat=0.5)


def test_a_mistake_inside_of_an_agent_stays_what_it_is(monkeypatch):
    spec = AgentSpec("Theirs", f"{__name__}:Plugin")
    monkeypatch.setattr(registry, "find", lambda name: spec)
    monkeypatch.setattr(
        Plugin, "from_env", classmethod(lambda cls, *_, **__: cls(0, 1))
    )
    with pytest.raises(TypeError, match=r"broken\(\) takes 0 positional"):
        make_agent("Theirs", IteratedMatrixGame(10))


@pytest.mark.parametrize(
    ("entry_point", "reason"),
    [
        ("math:pi", "math:pi is 3.14.* has no from_env"),
        ("nowhere.at:Bot", "ModuleNotFoundError: No module named 'nowhere'"),
        ("math:Bot", "AttributeError: module 'math' has no attribute 'Bot'"),
    ],
)
def test_an_agent_of_others_that_does_not_load_is_named_and_harms_nobody(
    monkeypatch, entry_point, reason
):
    monkeypatch.setattr(registry, "_AGENTS", dict(registry.agents()))
    registry.register(AgentSpec("BadBot", entry_point, distribution="theirs"))
    env, _ = paxenv.make("IPD", payoff=np.ones((2, 3, 2)).tolist())
    with pytest.raises(PairingError, match=r"Agents that can: .*Random"):
        make_agent("TitForTat", env)
    with pytest.raises(
        ValueError, match=f"^the agent 'BadBot' .* 'theirs' does not load: {reason}"
    ):
        make_agent("BadBot", env)
