"""`paxrun runs`: which runs there are, and what one of them did."""

import json
import math

import pytest
from run_fakes import fake_run

from runners.config import ConfigError
from runners.report.overview import details, overview, resolve
from runners.storage.places import locked
from runners.storage.run_dir import find_runs

RETURN = "episode/return/player_1"
REWARD = {RETURN: lambda i, seed: -float(i + seed)}


def test_an_overview_says_who_how_far_and_how_well(tmp_path):
    words = ["seed=3", "num_seeds=2", "wandb.group=g", "wandb.name=n", "wandb.tags=a,b"]
    run = fake_run(tmp_path, *words, metrics=REWARD)
    seen = overview(run)
    assert (seen.experiment, seen.status) == ("ipd/ppo_v_tft", "finished")
    assert (seen.seed, seen.num_seeds, seen.env_steps) == (3, 2, 50)
    assert (seen.group, seen.name, seen.tags) == ("g", "n", ("a", "b"))
    # The mean of -5 and -6, the last row of each seed.
    assert (seen.metric, seen.value) == (RETURN, -5.5)
    assert seen.seconds is not None
    assert 0 <= seen.seconds < 60


def test_the_final_evaluation_comes_before_training(tmp_path):
    run = fake_run(tmp_path, metrics=REWARD)
    name = "eval/sampled/episode/reward_per_step/player_1"
    run.write_results({"metrics": {name: {"mean": -1.25, "count": 1}}})
    assert (overview(run).metric, overview(run).value) == (name, -1.25)


def test_a_run_that_has_logged_nothing_yet_is_listed(tmp_path):
    run = fake_run(tmp_path, iterations=range(0), status=None)
    with locked(run):
        seen = overview(run)
        assert find_runs(tmp_path, status="running")
    assert (seen.status, seen.env_steps, seen.value) == ("running", None, None)
    assert seen.seconds is None


def test_a_run_that_nobody_writes_to_any_more_was_killed(tmp_path):
    run = fake_run(tmp_path, status=None)
    with locked(run):
        left = (run.path / ".lock").read_text()
    assert overview(run).status == "killed"
    # A process that is killed leaves its lock behind.
    holder = {**json.loads(left), "started": "1"}
    (run.path / ".lock").write_text(json.dumps(holder))
    assert overview(run).status == "killed"
    assert not find_runs(tmp_path, status="running")
    assert len(find_runs(tmp_path, status="killed")) == 1


def test_a_return_that_is_nan_is_no_number(tmp_path):
    run = fake_run(tmp_path, metrics={RETURN: lambda i, seed: math.nan})
    assert (overview(run).metric, overview(run).value) == (RETURN, None)


@pytest.fixture
def three(tmp_path):
    """Three runs that differ in group, tags, name, status and experiment."""
    return [
        fake_run(tmp_path, "wandb.group=g", "wandb.tags=a,b", metrics=REWARD),
        fake_run(tmp_path, "wandb.group=g", "wandb.name=n", status="failed"),
        fake_run(tmp_path, "name=other/game", "wandb.tags=b"),
    ]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, {0, 1, 2}),
        ({"group": "g"}, {0, 1}),
        ({"tag": "b"}, {0, 2}),
        ({"tag": "b", "group": "g"}, {0}),
        ({"name": "n"}, {1}),
        ({"status": "failed"}, {1}),
        ({"experiment": "ipd"}, {0, 1}),
        ({"experiment": "ipd/ppo_v_tft"}, {0, 1}),
        ({"experiment": "ip"}, set()),
        ({"experiment": "other/game"}, {2}),
    ],
)
def test_runs_are_found_by_labels_without_wandb(three, tmp_path, filters, found):
    paths = {run.path for run in find_runs(tmp_path, **filters)}
    assert paths == {three[i].path for i in found}


def test_the_list_takes_the_filters_and_prints_json(three, tmp_path, paxrun):
    result = paxrun(
        *("runs", "ls", "--exp-dir", str(tmp_path), "--group", "g", "--tag", "a"),
        "--json",
    )
    assert result.exit_code == 0, result.stderr
    (row,) = json.loads(result.stdout)
    assert row["run"] == str(three[0].path)
    assert (row["group"], row["tags"], row["value"]) == ("g", ["a", "b"], -5.0)


def test_the_table_has_a_line_for_each_run(three, tmp_path, paxrun):
    lines = paxrun("runs", "ls", "--exp-dir", str(tmp_path)).stdout.splitlines()
    for run in three:
        (line,) = [line for line in lines if run.path.name in line]
        assert run.read_meta()["experiment"] in line
    (line,) = [line for line in lines if three[0].path.name in line]
    assert "-5.000" in line
    assert "@g #a #b" in line
    assert lines[-1] == f"3 runs under {tmp_path}"


def test_the_list_shows_in_which_settings_runs_of_an_experiment_differ(
    tmp_path, paxrun
):
    words = ["agent1.learning_rate=0.5", "seed=3"]
    runs = [
        fake_run(tmp_path),
        fake_run(tmp_path, *words),
        fake_run(tmp_path, "name=other/game", "num_envs=7"),
    ]
    lines = paxrun("runs", "ls", "--exp-dir", str(tmp_path)).stdout.splitlines()
    of_run = [next(line for line in lines if run.path.name in line) for run in runs]
    assert "agent1.learning_rate=0.01" in of_run[0]
    assert "agent1.learning_rate=0.5" in of_run[1]
    assert "num_envs" not in of_run[2]
    listed = paxrun("runs", "ls", "--exp-dir", str(tmp_path), "--json").stdout
    differs = {row["run"]: row["differs"] for row in json.loads(listed)}
    assert differs == {
        str(runs[0].path): {"agent1.learning_rate": 0.01},
        str(runs[1].path): {"agent1.learning_rate": 0.5},
        str(runs[2].path): {},
    }


def test_one_run_is_one_run(tmp_path, paxrun):
    fake_run(tmp_path)
    lines = paxrun("runs", "ls", "--exp-dir", str(tmp_path)).stdout.splitlines()
    assert lines[-1] == f"1 run under {tmp_path}"


def test_an_empty_folder_has_no_runs(tmp_path, paxrun):
    result = paxrun("runs", "ls", "--exp-dir", str(tmp_path / "none"))
    assert result.exit_code == 0
    assert result.stdout.startswith(f"no runs under {tmp_path / 'none'}; --exp-dir")


def test_a_folder_of_runs_is_named_by_its_option(tmp_path, paxrun):
    result = paxrun("runs", "ls", str(tmp_path))
    assert result.exit_code == 2
    assert f"a folder is named by --exp-dir {tmp_path}" in result.stderr


def test_an_unknown_status_is_refused(paxrun):
    result = paxrun("runs", "ls", "--status", "done")
    assert result.exit_code == 2
    assert "'done' is none of running, finished, interrupted, failed" in result.stderr


def test_a_run_is_shown_by_the_end_of_its_name(three, tmp_path, paxrun):
    name = three[0].path.name
    result = paxrun("runs", "show", name[-6:], "--exp-dir", str(tmp_path))
    assert result.exit_code == 0, result.stderr
    text = result.stdout
    assert f"run:        {three[0].path}" in text
    assert "status:     finished (started" in text
    assert "command:    paxrun rl wandb.group=g" in text
    assert "num_envs: 100" in text
    assert "logs/metrics.jsonl" in text
    (line,) = [line for line in text.splitlines() if line.strip().startswith(RETURN)]
    assert line.split() == [RETURN, "-5"]


def test_everything_about_a_run_is_strict_json(tmp_path, paxrun):
    run = fake_run(tmp_path, metrics={"train/loss": lambda i, seed: math.nan})
    result = paxrun("runs", "show", str(run.path), "--json")
    shown = json.loads(result.stdout, parse_constant=pytest.fail)
    assert shown == json.loads(json.dumps(details(run)))
    assert shown["config"]["num_envs"] == 100
    assert shown["last_metrics"]["train/loss"] is None
    assert shown["versions"]["jax"]
    assert shown["files"]["config.yaml"] == run.config.stat().st_size


def test_an_end_of_several_names_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda n: "ab12cd")
    for seed in (1, 2):
        fake_run(tmp_path, f"seed={seed}")
    assert len(resolve("s1_ab12cd", tmp_path)) == 1
    with pytest.raises(ConfigError, match="'ab12cd' is the end of 2 runs"):
        resolve("ab12cd", tmp_path)
    with pytest.raises(ConfigError, match=r"no run is called 'zzz'.* lists 2"):
        resolve("zzz", tmp_path)


def test_one_run_is_shown_not_a_folder_of_them(three, tmp_path, paxrun):
    result = paxrun("runs", "show", str(tmp_path))
    assert result.exit_code == 2
    assert "holds 3 runs: name one of them" in result.stderr


def test_a_folder_without_runs_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="holds no run"):
        resolve(str(tmp_path), tmp_path)
