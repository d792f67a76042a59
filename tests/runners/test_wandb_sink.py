"""Weights & Biases, with a stand-in for the package; once with the package."""

import shutil
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import pytest

import runners
from runners.config import AgentConfig, ConfigError, load
from runners.planning.saved import model_files
from runners.storage.metrics_log import open_metrics_log
from runners.storage.run_dir import RunDir
from runners.storage.sinks import Position


class FakeRun:
    def __init__(self, settings):
        self.settings, self.rows, self.finished = settings, [], False
        self.id = settings["id"] or "abc123"
        if settings["name"].endswith("seed1"):
            self.id = "def456"
        self.axes, self.artifacts = {}, []

    def define_metric(self, name, step_metric=None, hidden=None):
        self.axes[name] = step_metric

    def log(self, metrics, step):
        self.rows.append((step, metrics))

    def log_artifact(self, artifact):
        assert not self.finished
        self.artifacts.append(artifact)
        artifact.created_at = f"2026-01-01T00:00:{len(self.artifacts):02d}"

    def logged_artifacts(self):
        return iter(self.artifacts)

    def finish(self):
        self.finished = True


class FakeArtifact:
    """Copies of files, by their names in the folder that was added."""

    def __init__(self, name, type):
        self.name, self.type = name, type
        self.manifest = types.SimpleNamespace(entries={})
        self.store = Path(tempfile.mkdtemp())

    def add_dir(self, local_path):
        shutil.copytree(local_path, self.store, dirs_exist_ok=True)
        for path in self.store.iterdir():
            self.manifest.entries[path.name] = path

    def get_entry(self, name):
        path = self.manifest.entries[name]
        return types.SimpleNamespace(download=lambda: str(path))


@pytest.fixture
def wandb(monkeypatch, tmp_path):
    """A package that remembers its runs, and holds one file beside them."""
    package = types.ModuleType("wandb")
    package.runs = []
    package.Artifact = FakeArtifact

    def init(**settings):
        package.runs.append(FakeRun(settings))
        return package.runs[-1]

    def run(run_path):
        (found,) = [r for r in package.runs if r.id == run_path.rpartition("/")[2]]
        return found

    package.Api = lambda: types.SimpleNamespace(run=run)

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


def log(words, path, iterations=(1,), resume_from=None):
    path.mkdir(exist_ok=True)
    with open_metrics_log(load(words), RunDir(path), resume_from) as log:
        for i in iterations:
            log.log(
                10 * i, i, {"x": np.array([1.0, 2.0]), "env/y": np.array([3.0] * 2)}
            )


def test_nothing_is_sent_unless_asked_for(wandb, tmp_path):
    log(["wandb.group=testing"], tmp_path)
    assert wandb.runs == []


def test_metrics_are_sent_under_the_group_that_was_named(wandb, tmp_path):
    words = ["wandb.group=testing", "wandb.tags=[ipd,first]", "wandb.log=true"]
    log(words, tmp_path / "run_1")
    (run,) = wandb.runs
    assert run.settings["group"] == "testing"
    assert run.settings["tags"] == ["ipd", "first"]
    assert run.settings["name"] == "run_1"
    assert run.rows == [(10, {"iteration": 1, "x": 1.5, "env/y": 3.0})]
    assert run.finished


def test_nothing_leaves_the_machine_unless_mode_says_so(wandb, tmp_path):
    log(["wandb.log=true"], tmp_path / "here")
    log(["wandb.log=true", "wandb.mode=online"], tmp_path / "there")
    assert [run.settings["mode"] for run in wandb.runs] == ["offline", "online"]


def test_project_entity_and_name_are_passed_on(wandb, tmp_path):
    words = ["wandb.project=p", "wandb.entity=me", "wandb.name=n", "wandb.log=true"]
    log(words, tmp_path)
    settings = wandb.runs[0].settings
    assert [settings[k] for k in ("project", "entity", "name")] == ["p", "me", "n"]


def test_groups_over_iterations_have_that_axis(wandb, tmp_path):
    log(["wandb.log=true"], tmp_path)
    assert wandb.runs[0].axes == {
        "iteration": None,
        "env/*": "iteration",
        "reward_components/*": "iteration",
        "stats/*": "iteration",
        "train_vs_iter/*": "iteration",
        "episode_vs_iter/*": "iteration",
    }


def test_a_resumed_run_goes_on_under_its_id(wandb, tmp_path):
    log(["wandb.log=true"], tmp_path, (1, 2))
    log(["wandb.log=true"], tmp_path, (2, 3), Position(1, 10))
    first, second = wandb.runs
    assert (first.settings["id"], first.settings["resume"]) == (None, None)
    assert (second.settings["id"], second.settings["resume"]) == ("abc123", "allow")
    assert (tmp_path / "wandb_id.txt").read_text() == "abc123\n"


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"pip install 'paxenv\[wandb\]'"):
        log(["wandb.log=true"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_mode_is_refused():
    with pytest.raises(ConfigError, match=r"wandb.mode must be one of offline, online"):
        load(["wandb.mode=sometimes"])


@pytest.mark.parametrize("word", ["wandb.tags=a,b", "wandb.tags=[a, b]"])
def test_tags_are_a_list_or_separated_by_commas(word):
    assert load([word]).wandb.tags == ("a", "b")


@pytest.mark.wandb
def test_the_package_itself_logs_offline_and_resumes(tmp_path, monkeypatch):
    """With the extra: two parts of one run lie in its folder, nothing is sent."""
    monkeypatch.setenv("WANDB_SILENT", "true")
    words = ["wandb.log=true", "wandb.group=g", "wandb.tags=[t]"]
    log(words, tmp_path, (1, 2))
    stored = (tmp_path / "wandb_id.txt").read_text().strip()
    weights_file(RunDir(tmp_path), "trained")
    with open_metrics_log(load(words), RunDir(tmp_path)) as log_of_models:
        log_of_models.log_models(tmp_path / "models")
    log(words, tmp_path, (2, 3), Position(1, 10))
    assert (tmp_path / "wandb_id.txt").read_text().strip() == stored
    files = list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert {file.name for file in files} == {f"run-{stored}.wandb"}
    assert sum(file.stat().st_size for file in files) > 1_000


def weights_file(run_dir, words):
    run_dir.models.mkdir(parents=True, exist_ok=True)
    for suffix in (".msgpack", ".json"):
        run_dir.model(1).with_suffix(suffix).write_text(words)


@pytest.mark.parametrize("name", ["models/player1", "player1.msgpack"])
def test_the_weights_that_a_run_leaves_are_found_under_its_path(wandb, tmp_path, name):
    """The newest, after a run that was resumed; the local ones may be gone."""
    run_dir = RunDir(tmp_path / "run")
    for words in ("half trained", "trained"):
        weights_file(run_dir, words)
        with open_metrics_log(load(["wandb.log=true"]), run_dir) as log:
            log.log_models(run_dir.models)
        # What a resumed run logs comes after what it had logged.
        wandb.runs[-1].artifacts[:0] = wandb.runs[0].artifacts[: len(wandb.runs) - 1]
        wandb.runs[-1].artifacts[-1].created_at = f"2026-01-0{len(wandb.runs)}"
    shutil.rmtree(run_dir.path)
    wandb.runs = wandb.runs[-1:]
    agent = AgentConfig("PPO", (1,), model_path=name, run_path="me/paxenv/abc123")
    (path,) = model_files(agent)
    assert (path.name, path.read_text()) == ("player1.msgpack", "trained")
    assert path.with_suffix(".json").read_text() == "trained"


@pytest.mark.parametrize(
    "words",
    [
        ("ipd/nl_v_tft", "num_seeds=1", "num_inner_steps=4", "total_timesteps=8"),
        (
            *("runner=online", "env=IPD", "agent2=TitForTat", "num_inner_steps=4"),
            *("agent1.tabular=true", "agent1.n_steps=4", "agent1.num_minibatches=1"),
            *("agent1.num_epochs=1", "eval_episodes=2", "total_timesteps=8"),
        ),
    ],
    ids=["rl", "online"],
)
def test_a_run_that_ends_leaves_its_weights_with_the_service(wandb, tmp_path, words):
    outcome = runners.run(
        *(*words, "num_envs=2", "tensorboard=false", "plot=false", "wandb.log=true"),
        run_dir=tmp_path / "run",
    )
    (run,) = wandb.runs
    assert run.finished
    (artifact,) = run.artifacts
    saved = {p.name: p.read_bytes() for p in outcome.run_dir.models.iterdir()}
    assert set(saved) == {"player1.msgpack", "player1.json"}
    kept = artifact.manifest.entries
    assert {name: path.read_bytes() for name, path in kept.items()} == saved


def test_seeds_apart_are_runs_of_one_group(wandb, tmp_path):
    words = ["wandb.log=true", "seeds_apart=true", "num_seeds=2"]
    log(words, tmp_path / "run_1")
    assert [(run.settings["name"], run.settings["group"]) for run in wandb.runs] == [
        ("run_1_seed0", "run_1"),
        ("run_1_seed1", "run_1"),
    ]
    assert [run.rows for run in wandb.runs] == [
        [(10, {"iteration": 1, "x": 1.0, "env/y": 3.0})],
        [(10, {"iteration": 1, "x": 2.0, "env/y": 3.0})],
    ]
    assert [run.settings["config"]["seed_index"] for run in wandb.runs] == [0, 1]
    log(words, tmp_path / "run_1", (2,), Position(1, 10))
    assert [run.settings["id"] for run in wandb.runs[2:]] == ["abc123", "def456"]


def test_weights_come_from_the_files_of_a_run_of_the_service(wandb):
    wandb.runs.append(FakeRun({"id": "run", "name": "n"}))
    agent = AgentConfig(
        *("PPO", (1,)), model_path="models/player1.msgpack", run_path="me/project/run"
    )
    (path,) = model_files(agent)
    assert path.name == "player1.msgpack"
    assert path.read_text() == "me/project/run"
    assert path.with_suffix(".json").is_file()


def test_a_file_that_the_service_does_not_hold_is_an_error(wandb):
    wandb.runs.append(FakeRun({"id": "run", "name": "n"}))
    agent = AgentConfig("PPO", (1,), model_path="other", run_path="me/project/run")
    with pytest.raises(ConfigError, match=r"cannot get other.json of me/project/run"):
        model_files(agent)


def test_a_run_of_the_service_needs_a_file_in_it():
    with pytest.raises(ConfigError, match="model_path must name the file"):
        load(["agent1.run_path=me/project/run"])
