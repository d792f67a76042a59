"""The folder of a run."""

import re
from pathlib import Path

import pytest

from runners.config import ConfigError, load
from runners.storage.run_dir import RunDir, find_runs


def make(tmp_path, **options):
    return RunDir.create(load(options={"exp_dir": str(tmp_path), **options}), ["rl"])


def test_a_run_is_named_by_time_seed_and_chance(tmp_path):
    run = make(tmp_path, seed="7")
    assert run.path.parent == tmp_path / "ipd" / "ppo_v_tft"
    assert re.fullmatch(r"\d{8}T\d{6}Z_s7_[0-9a-f]{6}", run.path.name)


def test_a_run_has_a_directory_where_none_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = RunDir.create(load([]), ["rl"])
    assert run.path.resolve().parent == tmp_path / "exp" / "ipd" / "ppo_v_tft"
    assert run.config.is_file()


def test_runs_of_one_second_do_not_collide(tmp_path):
    assert len({make(tmp_path).path for _ in range(20)}) == 20


def test_runs_that_begin_within_one_second_are_found_in_their_order(tmp_path):
    made = [make(tmp_path).path for _ in range(8)]
    assert [run.path for run in find_runs(tmp_path)] == made


def test_a_new_run_says_what_it_is_before_it_starts(tmp_path):
    run = make(tmp_path, num_seeds="3")
    meta = run.read_meta()
    assert meta["status"] == "running"
    assert (meta["seed"], meta["num_seeds"]) == (0, 3)
    assert meta["argv"] == ["rl"]
    assert set(meta["versions"]) >= {"paxenv", "jax", "numpy"}
    assert (run.path / "overrides.txt").read_text() == "rl\n"
    assert load(config_file=run.config).num_seeds == 3


def test_the_end_of_a_run_is_recorded(tmp_path):
    run = make(tmp_path)
    run.finish("finished")
    assert run.read_meta()["status"] == "finished"
    with pytest.raises(ValueError, match="status must be one of"):
        run.finish("splendid")


def test_save_dir_is_the_run_directory_itself(tmp_path):
    run = make(tmp_path, save_dir=str(tmp_path / "here"))
    assert run.path == tmp_path / "here"
    with pytest.raises(ConfigError, match="not empty: name another save_dir"):
        make(tmp_path, save_dir=str(tmp_path / "here"))


def test_a_run_directory_is_taken_where_a_path_is(tmp_path):
    run = RunDir(tmp_path / "run")

    assert Path(run) == tmp_path / "run"
    assert RunDir(run).path == run.path
    assert repr(run) == f"RunDir('{tmp_path}/run')"


def test_opening_creates_nothing(tmp_path):
    with pytest.raises(ConfigError, match="is not a run directory"):
        RunDir.open(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


def test_only_runs_are_found(tmp_path):
    runs = [make(tmp_path) for _ in range(2)]
    (tmp_path / "ipd" / "ppo_v_tft" / "notes").mkdir()
    found = {run.path for run in find_runs(tmp_path)}
    assert found == {run.path for run in runs}


def test_weights_are_named_by_player_and_later_seeds(tmp_path):
    run = make(tmp_path)
    assert run.model(1).name == "player1.msgpack"
    assert run.model(2, 3).name == "player2_seed3.msgpack"
