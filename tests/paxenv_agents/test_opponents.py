"""Who may sit at the other seats, and what is said of those who may not."""

from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import pytest
from adapter_cases import assert_same

import paxenv
import paxenv_agents
from paxenv_agents import weights
from paxenv_agents.opponents import make_single_player, resolve


def defect_after_defection(obs: jax.Array, key: jax.Array) -> jax.Array:
    """Tit for tat over one-hot observations CC, CD, DC, DD, START."""
    return jnp.where(obs[1] + obs[3] > 0, 1, 0)


def coin(obs: jax.Array, key: jax.Array) -> jax.Array:
    return jax.random.randint(key, (), 0, 2)


def branches(obs: jax.Array, key: jax.Array) -> int:
    return 1 if obs[1] else 0


def opponent_actions(opponent: Any, actions: list[int], **kwargs: Any) -> list[int]:
    env = gymnasium.make("pax/IPD-v0", opponent=opponent, **kwargs)
    env.reset(seed=0)
    return [env.step(action)[-1]["opponent_action"] for action in actions]


@pytest.fixture(scope="module")
def game() -> tuple[Any, Any]:
    return paxenv.make("IPD")


def test_a_name_an_agent_and_a_function_play_alike(game: tuple) -> None:
    env, _ = game
    agent = paxenv_agents.make_agent("TitForTat", env, 1)
    state, _ = agent.make_initial_state(jax.random.key(0), agent.init_hidden(1)[0])
    actions = [1, 0, 1, 1, 0]
    for opponent in ("TitForTat", agent, (agent, state), defect_after_defection):
        assert opponent_actions(opponent, actions) == [0, 1, 0, 1, 1]


def test_a_function_gets_a_key_of_its_own_at_every_step() -> None:
    played = opponent_actions(coin, [0] * 40)
    assert 5 < sum(played) < 35
    assert played == opponent_actions(coin, [0] * 40)


def test_one_of_a_list_is_drawn_for_each_trial() -> None:
    env = gymnasium.make(
        "pax/IPD-v0", opponent=["AllC", "AllD"], num_inner_steps=3, num_outer_steps=2
    )
    env.reset(seed=0)
    trials = []
    for _ in range(30):
        trials.append([env.step(0)[-1]["opponent_action"] for _ in range(6)])
        env.reset()
    assert all(len(set(trial)) == 1 for trial in trials)
    defectors = sum(trial[0] for trial in trials)
    assert 5 < defectors < 25


def test_a_list_may_mix_all_kinds_of_opponents(game: tuple) -> None:
    env, _ = game
    agent = paxenv_agents.make_agent("Defect", env, 1)
    opponents = [agent, defect_after_defection, "Random"]
    seated, params = make_single_player("IPD", 0, opponents)
    (one_of,) = seated.co_players
    assert len(one_of.members) == 3
    assert len(params.co_players[0].params) == 3


def test_members_of_a_list_keep_their_own_memories() -> None:
    """Against defection a grim trigger never forgives, in a list too."""
    played = opponent_actions(["Grim", "Grim"], [1, 0, 0, 0])
    assert played == [0, 1, 1, 1]


def test_one_opponent_sits_at_every_other_seat() -> None:
    seated, _ = make_single_player("IteratedTensorGame", 1, "AllD", num_players=4)
    assert [agent.action for agent in seated.co_players] == [1, 1, 1]
    assert seated.seats == (0, 2, 3)
    env = gymnasium.make("pax/IteratedTensorGame-v0", player=1, num_players=4)
    env.reset(seed=0)
    assert env.step(0)[-1]["opponent_action"].shape == (3,)


def test_trained_weights_play_as_given(game: tuple) -> None:
    env, _ = game
    agent = paxenv_agents.make_agent("PPO", env, 1)
    states = [agent.init_state(jax.random.key(seed)) for seed in (1, 2)]
    _, params = make_single_player("IPD", 0, (agent, states[1]))
    assert_same(params.co_players[0].params, states[1].params)


@pytest.mark.parametrize("suffix", ["", ".msgpack"])
def test_saved_weights_play_again(game: tuple, tmp_path: Path, suffix: str) -> None:
    env, _ = game
    agent = paxenv_agents.make_agent("Tabular", env, 1)
    params = agent.init_state(jax.random.key(3)).params
    path = weights.save_agent(tmp_path / "player2", agent, params, name="Tabular")
    _, seated = make_single_player("IPD", 0, str(path.with_suffix(suffix)))
    assert_same(seated.co_players[0].params, params)


@pytest.mark.parametrize(
    ("opponent", "named"),
    [
        ("TitForTatt", "TitForTatt.*TitForTat"),
        ("GoodGreedy", "GoodGreedy"),
        ("runs/none/player2.msgpack", "no saved player at runs/none"),
        (Path("none"), "no saved player at none"),
        ([], "at least one opponent"),
        (3, "must be the name of an agent"),
        (branches, "cannot trace branches"),
        (lambda obs, key: jnp.zeros(2, int), "shape"),
        (lambda obs, key: 0.5, "whole numbers"),
    ],
)
def test_what_cannot_play_is_refused_by_name(opponent: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        gymnasium.make("pax/IPD-v0", opponent=opponent)


def test_an_agent_made_for_another_seat_is_refused(game: tuple) -> None:
    coin_env, _ = paxenv.make("CoinGame")
    agent = paxenv_agents.make_agent("Random", coin_env, 1)
    with pytest.raises(ValueError, match="was made for"):
        resolve(agent, game[0], 1)


@pytest.mark.parametrize("player", [2, -1, "0"])
def test_a_seat_that_is_not_there_is_named(player: Any) -> None:
    with pytest.raises(ValueError, match=f"player must be in .*{player}"):
        gymnasium.make("pax/IPD-v0", player=player)


def test_an_unknown_option_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="num_inner_steps"):
        gymnasium.make("pax/IPD-v0", num_iner_steps=3)
