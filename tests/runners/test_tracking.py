"""Weights & Biases, with a stand-in for the package."""

import sys
import types

import pytest

from runners.config import AgentConfig, ConfigError, load
from runners.model_source import model_files
from runners.run_dir import RunDir
from runners.tracking import open_tracker


class FakeRun:
    def __init__(self, settings):
        self.settings, self.rows, self.finished = settings, [], False

    def log(self, metrics, step):
        self.rows.append((step, metrics))

    def finish(self):
        self.finished = True


@pytest.fixture
def wandb(monkeypatch, tmp_path):
    """A package that remembers its runs and holds one saved agent."""
    package = types.ModuleType("wandb")
    package.runs = []

    def init(**settings):
        package.runs.append(FakeRun(settings))
        return package.runs[-1]

    def restore(name, run_path):
        if not name.startswith("models/player1."):
            raise ValueError(f"no {name}")
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(run_path)
        return types.SimpleNamespace(name=str(path))

    package.init, package.restore = init, restore
    monkeypatch.setitem(sys.modules, "wandb", package)
    return package


def test_nothing_is_sent_unless_asked_for(wandb, tmp_path):
    config = load(["wandb.group=testing"])
    with open_tracker(config, RunDir(tmp_path)) as tracker:
        tracker.log(10, {"x": 1.0})
    assert wandb.runs == []


def test_metrics_are_sent_under_the_group_that_was_named(wandb, tmp_path):
    config = load(["wandb.group=testing", "wandb.log=true"])
    with open_tracker(config, RunDir(tmp_path / "run_1")) as tracker:
        tracker.log(10, {"x": 1.0})
    (run,) = wandb.runs
    assert run.settings["group"] == "testing"
    assert run.settings["name"] == "run_1"
    assert run.rows == [(10, {"x": 1.0})]
    assert run.finished


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match="pip install wandb"):
        open_tracker(load(["wandb.log=true"]), RunDir(tmp_path))


def test_weights_come_from_a_run_of_the_service(wandb):
    agent = AgentConfig(
        *("PPO", (1,)), model_path="models/player1.msgpack", run_path="me/project/run"
    )
    (path,) = model_files(agent)
    assert path.name == "player1.msgpack"
    assert path.read_text() == "me/project/run"
    assert path.with_suffix(".json").is_file()


def test_a_file_that_the_service_does_not_hold_is_an_error(wandb):
    agent = AgentConfig("PPO", (1,), model_path="other", run_path="me/project/run")
    with pytest.raises(ConfigError, match=r"cannot get other.json of me/project/run"):
        model_files(agent)


def test_a_run_of_the_service_needs_a_file_in_it():
    with pytest.raises(ConfigError, match="model_path must name the file"):
        load(["agent1.run_path=me/project/run"])
