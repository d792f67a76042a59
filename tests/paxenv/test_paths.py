"""Paths as users write them: a text or a path, with `~` for the home folder."""

from pathlib import Path

import numpy as np
import pytest

from paxenv.paths import local_path
from runners import RunnerConfig
from runners.config import ExperimentConfig
from runners.storage.checkpoints.files import find_checkpoint
from runners.storage.checkpoints.store import CheckpointStore, start_rule
from runners.storage.places import check_writable, locked
from runners.storage.run_dir import RunDir, find_runs


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def test_the_home_folder_is_found(home):
    assert local_path("~/x") == local_path(Path("~") / "x") == home / "x"
    assert local_path("x/~") == Path("x/~")


def test_run_directories_and_checkpoints_are_found_at_home(home):
    config = ExperimentConfig(exp_dir="~/exp", save_dir=None)
    run = RunDir.create(config, [])
    assert home / "exp" in run.path.parents
    assert [found.path for found in find_runs("~/exp")] == [run.path]
    named = ExperimentConfig(save_dir="~/mine")
    assert RunDir.create(named, []).path == home / "mine"
    assert RunDir.open("~/mine").path == RunDir("~/mine").path == home / "mine"
    assert RunnerConfig(checkpoint_dir="~/saved").checkpoint_dir == str(home / "saved")
    with CheckpointStore("~/saved") as store:
        assert store.folder == home / "saved"
        saved = store.save(5, {"x": np.ones(1)}, {})
    assert find_checkpoint("~/saved") == saved
    assert start_rule("~/saved", resume=True) == "resume"


def test_nothing_is_made_under_the_name_of_the_home_folder(home, monkeypatch):
    monkeypatch.chdir(home)
    check_writable("~/new")
    with locked("~/new"):
        assert (home / "new").is_dir()
    assert not (home / "~").exists()


def test_a_run_directory_is_named_by_a_text_or_a_path():
    assert RunDir("m/rd").metrics == RunDir(Path("m/rd")).metrics
    assert RunDir("m/rd").metrics == Path("m/rd/logs/metrics.jsonl")
