"""Names of games."""

import inspect

import gymnasium
import jax
import jax.numpy as jnp
import pytest

import paxenv
from paxenv import registry
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame


def test_the_three_spellings_of_an_id_mean_the_same():
    assert registry.find("IPD") is registry.find("IPD-v0")
    assert registry.find("IPD-v0") is registry.find("pax/IPD-v0")
    assert registry.find("pax/IPD") is registry.find("pax/IPD-v0")


def test_newest_version_is_meant_where_none_is_named(monkeypatch):
    monkeypatch.setattr(registry, "_GAMES", {})
    for version in (0, 9, 10):
        registry.register(registry.GameSpec(f"theirs/G-v{version}", "m:f"))
    assert registry.find("theirs/G").id == "theirs/G-v10"
    assert registry.find("theirs/G-v9").id == "theirs/G-v9"


@pytest.mark.parametrize(
    "name", ["iterated_prisoners_dilemma", "ipd-v0", "pax/ipd-v0", "IDP", "IPD-v77"]
)
def test_unknown_game_names_the_closest_ones(name):
    """An unknown id lists at most the closest ids, IPD among them."""
    with pytest.raises(registry.UnknownGameError) as caught:
        paxenv.make(name)
    message = str(caught.value)
    suggestions = message.split("did you mean ")[1].split("?")[0].split(" or ")
    assert "IPD" in suggestions
    assert len(suggestions) <= 3
    assert repr(name) in message


def test_gymnasium_names_the_closest_game_for_a_misspelt_id():
    """Gymnasium's own error names the right game (it minds upper case)."""
    with pytest.raises(gymnasium.error.Error, match="IPD"):
        gymnasium.make("pax/IDP-v0")


def test_name_like_nothing_points_to_the_list():
    with pytest.raises(registry.UnknownGameError, match="paxrun list envs"):
        paxenv.make("zzzzqqqq")


def test_suggested_plugin_keeps_its_namespace(monkeypatch):
    monkeypatch.setattr(registry, "_GAMES", {})
    registry.register(registry.GameSpec("theirs/Game-v0", "m:f"))
    with pytest.raises(registry.UnknownGameError, match=r"did you mean theirs/Game\?"):
        registry.find("theirs/Gmae-v0")


def test_unknown_option_names_the_nearest_one():
    with pytest.raises(
        ValueError, match=r"num_iner_steps.*did you mean 'num_inner_ste"
    ):
        paxenv.make("IPD", num_iner_steps=3)


@pytest.mark.parametrize("name", ["max_episode_steps", "max_cycles", "num_steps"])
def test_another_librarys_word_names_ours(name):
    with pytest.raises(TypeError, match="did you mean 'num_inner_steps'"):
        paxenv.make("IPD", **{name: 3})


def test_the_make_of_a_game_names_all_options_and_their_defaults():
    named = inspect.signature(registry.find("IPD").load()).parameters
    defaults = {name: p.default for name, p in named.items()}
    assert defaults == {
        "payoff": None,
        "game": None,
        "payoff_matrix": None,
        "num_actions": None,
        "num_inner_steps": 100,
        "num_outer_steps": 1,
        "random_ends": False,
        "horizon": "truncate",
        "observation": "one_hot",
        "continuation_prob": 0.96,
    }


@pytest.mark.parametrize("game", ["IPD", "CoinGame", "IteratedTensorGame", "Pendulum"])
def test_the_make_of_a_game_refuses_an_unknown_option_by_itself(game):
    make = registry.find(game).load()
    with pytest.raises(registry.UnknownOptionError, match="mean 'num_inner_steps'"):
        make(num_iner_steps=3)


@pytest.mark.parametrize(
    "game", ["IPD", "InfiniteMatrixGame", "IteratedTensorGame", "CoinGame", "CartPole"]
)
def test_the_probability_of_going_on_is_checked_and_an_array_in_every_game(game):
    _, params = paxenv.make(game, continuation_prob=1)
    assert isinstance(params.continuation_prob, jax.Array)
    assert params.continuation_prob.dtype == jnp.float32
    with pytest.raises(ValueError, match=r"continuation_prob must be .* got 1\.5"):
        paxenv.make(game, continuation_prob=1.5)


def test_options_reach_the_game():
    env, _ = paxenv.make("IPD", num_inner_steps=7, num_outer_steps=3)
    assert (env.num_inner_steps, env.num_outer_steps) == (7, 3)


def test_games_are_listed_in_alphabetical_order():
    ids = list(paxenv.games())
    assert ids == sorted(ids)
    assert "pax/IPD-v0" in ids


def test_matrix_games_and_coin_games_are_registered():
    matrix_games = {"IPD", "Chicken", "StagHunt", "MatchingPennies", "HawkDove"}
    made = {name: type(paxenv.make(name)[0]) for name in matrix_games}
    assert set(made.values()) == {IteratedMatrixGame}
    assert type(paxenv.make("CoinGame")[0]) is CoinGame


def test_a_game_that_needs_an_option_says_which(monkeypatch):
    def theirs(size, *, colour="red", **options):
        return size, colour, options

    spec = registry.GameSpec("theirs/Game-v0", "theirs:make")
    monkeypatch.setattr(registry.GameSpec, "load", lambda self: theirs)
    monkeypatch.setattr(registry, "find", lambda id: spec)
    assert registry.make("theirs/Game", size=3, more=1) == (3, "red", {"more": 1})
    with pytest.raises(ValueError, match="theirs/Game-v0 needs size: give size=VALUE"):
        registry.make("theirs/Game")


@pytest.mark.parametrize("value", ["x", "nan", float("nan"), None, True, (1.0, 2.0)])
@pytest.mark.parametrize(
    ("game", "name"),
    [
        ("CartPole", "gravity"),
        ("Pendulum", "mass"),
        ("InfiniteMatrixGame", "gamma"),
        ("IPD", "continuation_prob"),
    ],
)
def test_only_a_number_takes_the_place_of_a_number(game, name, value):
    with pytest.raises(registry.OptionError, match=f"^{name} must be a .*, got"):
        paxenv.make(game, **{name: value})


def test_infinity_is_a_number_as_in_no_limit():
    _, params = paxenv.make("CartPole", x_threshold=float("inf"))
    assert params.x_threshold == float("inf")


def _bonus(**options):
    class Numbers(paxenv.GameParams):
        bonus: float = 1.0
        shares: tuple = (1.0, 2.0)

    return None, Numbers(**options)


def _by_signature(bonus=1.0, num_coins=1):
    return None, {"coins": [0] * num_coins, "bonus": bonus}


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (_bonus, "bonus", "x"),
        (_bonus, "bonus", [1, 2]),
        (_bonus, "shares", "x"),
        (_by_signature, "bonus", "x"),
        (_by_signature, "num_coins", None),
    ],
)
def test_numbers_of_other_distributions_games_are_checked_too(
    monkeypatch, make, name, value
):
    spec = registry.GameSpec("theirs/Game-v0", "theirs:make")
    monkeypatch.setattr(registry.GameSpec, "load", lambda self: make)
    monkeypatch.setattr(registry, "find", lambda id: spec)
    with pytest.raises(registry.OptionError, match=f"^{name} must be .* got"):
        registry.make("theirs/Game", **{name: value})
    assert registry.make("theirs/Game", bonus=jnp.float32(2.0))


def test_a_number_of_a_game_may_be_traced():
    gravity = jax.jit(lambda g: paxenv.make("CartPole", gravity=g)[1].gravity)
    assert float(gravity(3.0)) == 3.0


def test_a_word_like_no_option_is_answered_without_a_guess():
    with pytest.raises(registry.UnknownOptionError) as caught:
        paxenv.make("IPD", frameskip=1)
    assert "did you mean" not in str(caught.value)
