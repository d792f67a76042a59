"""Evaluation of strategies and of saved agents."""

import json

import pytest

from runners.evaluation import config_of_run
from runners.plan import prepare


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


def test_random_players_differ_from_seed_to_seed(paxrun, tmp_path):
    args = ("--agent1", "Random", "--agent2", "Random", "num_inner_steps=10")
    result = evaluated(paxrun, tmp_path, *args, "--num-seeds", "3", "num_envs=4")
    assert len(set(reward(result, 1)["per_seed"])) == 3


def test_saved_weights_bring_their_agent_with_them(paxrun, trained, tmp_path):
    model = trained.path / "models" / "player1.msgpack"
    result = evaluated(
        *(paxrun, tmp_path, "--model-path", str(model), "--agent2", "AllD"),
        *("num_envs=8", "num_inner_steps=10", "--num-seeds", "2"),
    )
    assert result["agents"] == ["Naive", "AllD"]
    assert -3.0 < reward(result, 1)["mean"] < -2.0


def test_saved_weights_may_play_the_second_seat(paxrun, trained, tmp_path):
    model = trained.path / "models" / "player1.msgpack"
    result = evaluated(
        *(paxrun, tmp_path, "--model-path", str(model), "--player", "2"),
        *("--agent1", "AllD", "--agent2", "Naive", "num_envs=8", "num_inner_steps=10"),
    )
    assert result["agents"] == ["AllD", "Naive"]
    assert -3.0 < reward(result, 2)["mean"] < -2.0


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
