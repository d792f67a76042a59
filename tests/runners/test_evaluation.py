"""Evaluation of strategies and of saved agents."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv import keys
from paxenv_agents.strategies.matches import play_match
from runners.config import load
from runners.planning.plan import prepare
from runners.session.held_out import config_of_run


def evaluated(paxrun, tmp_path, *args):
    result = paxrun("eval", *args, "--json", "--exp-dir", str(tmp_path))
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def reward(result, player, mode="sampled"):
    return result["metrics"][f"eval/{mode}/episode/reward_per_step/player_{player}"]


def test_strategies_are_played_as_often_as_there_are_seeds(paxrun, tmp_path):
    args = ("--agent1", "TitForTat", "--agent2", "AllD", "num_inner_steps=10")
    result = evaluated(paxrun, tmp_path, *args, "--num-seeds", "3", "num_envs=4")
    assert result["agents"] == ["TitForTat", "AllD"]
    assert reward(result, 1)["per_seed"] == pytest.approx([-2.1] * 3)
    assert reward(result, 2)["ci95"] == pytest.approx([-1.8, -1.8])
    assert "/IPD/TitForTat_v_AllD/" in result["run_dir"]


@pytest.mark.slow
def test_random_players_differ_from_seed_to_seed(paxrun, tmp_path):
    args = ("--agent1", "Random", "--agent2", "Random", "num_inner_steps=10")
    result = evaluated(paxrun, tmp_path, *args, "--num-seeds", "3", "num_envs=4")
    assert len(set(reward(result, 1)["per_seed"])) == 3


@pytest.mark.slow
def test_saved_weights_bring_their_agent_with_them(paxrun, trained, tmp_path):
    model = trained.path / "models" / "player1.msgpack"
    result = evaluated(
        *(paxrun, tmp_path, "--model-path", str(model), "--agent2", "AllD"),
        *("num_envs=8", "num_inner_steps=10", "--num-seeds", "2"),
    )
    assert result["agents"] == ["Naive", "AllD"]
    assert -3.0 < reward(result, 1)["mean"] < -2.0


@pytest.mark.slow
def test_saved_weights_may_play_the_second_seat(paxrun, trained, tmp_path):
    model = trained.path / "models" / "player1.msgpack"
    result = evaluated(
        *(paxrun, tmp_path, "--model-path", str(model), "--player", "2"),
        *("--agent1", "AllD", "--agent2", "Naive", "num_envs=8", "num_inner_steps=10"),
    )
    assert result["agents"] == ["AllD", "Naive"]
    assert -3.0 < reward(result, 2)["mean"] < -2.0


@pytest.mark.slow
def test_a_finished_run_is_evaluated_in_its_own_game(trained):
    config = config_of_run(str(trained.path), ["num_envs=4"], {"runner": "eval"})
    plan = prepare(config)
    assert plan.names == ("Naive", "TitForTat")
    assert plan.env.num_inner_steps == 10
    assert config.num_seeds == 2
    assert config.num_envs == 4
    assert config.agents[0].model_path == str(trained.path)
    assert plan.notices == ()


def test_an_evaluation_changes_no_weights(paxrun, trained, tmp_path):
    before = (trained.path / "models" / "player1.msgpack").read_bytes()
    evaluated(paxrun, tmp_path, "--run-dir", str(trained.path))
    assert (trained.path / "models" / "player1.msgpack").read_bytes() == before


# Every match has keys of its own.

#: Pairs whose moves are drawn. (A pair of GenerousTitForTat only cooperates, one of
#: ZeroDeterminant only defects.)
PAIRS = [
    ("Random", "GenerousTitForTat"),
    pytest.param("Random", "Random", marks=pytest.mark.slow),
    pytest.param("Random", "ZeroDeterminant", marks=pytest.mark.slow),
    pytest.param("GenerousTitForTat", "ZeroDeterminant", marks=pytest.mark.slow),
]


def words_of(first, second):
    return ("--agent1", first, "--agent2", second, "num_inner_steps=20", "--seed", "5")


def matches(first, second, num_seeds=2, num_games=64):
    """Returns scores a step `[seeds, games, players]`, each match played by itself.

    Match g of repetition s: the key of the seed folded by s, by 4 (evaluation), by 0
    (lanes), by 0 twice (member, opponent) and by g.
    """
    words = [f"agent1={first}", f"agent2={second}", "num_inner_steps=20"]
    plan = prepare(load(["env=IPD", *words], options={"runner": "eval"}))
    agents = [slot.agent for slot in plan.experiment.slots]

    def score(seed, game):
        key = jax.random.key(5)
        for number in (seed, 4, 0, 0, 0, game):
            key = jax.random.fold_in(key, number)
        key = keys.episode(key, 0)
        return play_match(agents, plan.env, plan.params, key).rewards.mean(0)

    of_seed = jax.vmap(score, (None, 0))
    rows = jax.vmap(of_seed, (0, None))(jnp.arange(num_seeds), jnp.arange(num_games))
    return np.asarray(rows)


def assert_scores(result, scores):
    for player in (1, 2):
        got = reward(result, player)["per_seed"]
        np.testing.assert_allclose(got, scores[..., player - 1].mean(1), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_match_is_the_same_however_many_are_played(paxrun, tmp_path, first, second):
    """The first of 64 matches is that of --num-envs 1, and all are their own."""
    scores = matches(first, second)
    assert len(np.unique(scores[..., 0])) > 5
    for num_games in (1, 64):
        options = ("--num-envs", str(num_games), "--num-seeds", "2")
        result = evaluated(paxrun, tmp_path, *words_of(first, second), *options)
        assert_scores(result, scores[:, :num_games])


@pytest.mark.slow
def test_a_match_is_the_same_on_four_devices(paxrun_apart, tmp_path):
    """One match on each of four devices, then sixteen."""
    scores = matches("Random", "GenerousTitForTat")
    for num_games in (4, 64):
        printed = paxrun_apart(
            *("eval", *words_of("Random", "GenerousTitForTat"), "--json"),
            *("--num-envs", str(num_games), "--num-seeds", "2"),
            *("--num-devices", "4", "--exp-dir", str(tmp_path)),
        )
        assert_scores(json.loads(printed), scores[:, :num_games])
