"""`paxrun online` and `paxrun es`: from a command line to a run directory."""

import json
import signal

import numpy as np
import pytest

from runners.cli.progress import ProgressObserver
from runners.config import ConfigError, load, to_yaml
from runners.storage.jsonl import read_rows
from runners.storage.run_dir import RunDir

TINY = (
    *("--env", "IPD", "--agent2", "TitForTat", "num_inner_steps=4", "num_envs=2"),
    *("agent1.tabular=true", "agent1.n_steps=4", "agent1.num_minibatches=1"),
    *("agent1.num_epochs=1", "eval_episodes=2", "tensorboard=false", "plot=false"),
)
SEARCH = (
    *("--es", "simple_es", "--popsize", "4", "--num-steps-per-iteration", "16"),
    *("--search-target", "parameters", "--search-target", "lr:1e-3:1e-1:log"),
)


@pytest.fixture(scope="module")
def searched(paxrun, tmp_path_factory):
    """A finished search of three generations: result, run directory."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    result = paxrun("es", *TINY, *SEARCH, "--iterations", "3", "--save-dir", str(path))
    return result, RunDir.open(path)


@pytest.mark.slow
def test_a_search_ends_with_a_table_and_exit_code_0(searched):
    result, _ = searched
    assert result.exit_code == 0
    for words in ("best individual", "trained again", "mean of the search"):
        assert words in result.stdout
    assert "learning_rate" in result.stdout
    assert "2 new episodes without learning, actions sampled" in result.stdout


@pytest.mark.slow
def test_every_generation_is_a_row_of_its_metrics(searched):
    _, run = searched
    rows = read_rows(run.metrics)
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert [row["env_steps"] for row in rows] == [64, 128, 192]
    assert all(row["fitness/worst"] <= row["fitness/best"] for row in rows)
    assert 1e-3 <= rows[0]["best/learning_rate"] <= 1e-1


@pytest.mark.slow
def test_results_hold_both_dicts_and_the_final_evaluation_is_logged(searched):
    """The last record is there, and what the command line prints exists."""
    _, run = searched
    results = json.loads(run.results.read_text())
    assert results["train"]["step"] == 3
    # Three generations of 64 steps, then 16 of `retrained` and 16 of `final_mean`.
    assert results["train"]["env_step"] == 192 + 32
    assert set(results["train"]["best"]) == {"fitness", "generation", "values"}
    evaluation = results["eval"]
    assert evaluation["mean_eval_reward"] == evaluation["eval/mean_reward"]
    (row,) = read_rows(run.eval_metrics)
    assert row["mean_eval_reward"] == pytest.approx(evaluation["mean_eval_reward"])
    assert run.read_meta()["status"] == "finished"


@pytest.mark.slow
def test_a_search_that_was_stopped_goes_on_with_the_same_bits(
    searched, paxrun, tmp_path, monkeypatch
):
    """Ctrl-C ends at the next generation; `paxrun resume` finishes the run."""
    _, whole = searched
    path = tmp_path / "part"

    def interrupt(self, done, total, row):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressObserver, "on_row", interrupt)
    words = ("es", *TINY, *SEARCH, "--iterations", "3", "--save-dir", str(path))
    result = paxrun(*words)
    assert result.exit_code == 130
    assert RunDir.open(path).read_meta()["status"] == "interrupted"
    assert json.loads(RunDir.open(path).results.read_text())["train"]["step"] == 1
    monkeypatch.undo()
    assert paxrun("resume", str(path)).exit_code == 0
    rows, wanted = (read_rows(r.metrics) for r in (RunDir.open(path), whole))
    for row in (*rows, *wanted):
        del row["time/seconds"]
    assert rows == wanted
    ends = [json.loads(r.results.read_text()) for r in (RunDir.open(path), whole)]
    assert ends[0]["train"] == ends[1]["train"]
    assert ends[0]["eval"] == ends[1]["eval"]
    assert whole.model(1).read_bytes() == RunDir.open(path).model(1).read_bytes()


@pytest.mark.slow
def test_an_online_run_trains_evaluates_and_leaves_weights(paxrun, tmp_path):
    path = tmp_path / "run"
    words = ("online", *TINY, "--total-timesteps", "32", "--save-dir", str(path))
    result = paxrun(*words, "--json")
    assert result.exit_code == 0
    results = json.loads(result.stdout)
    assert results["train"]["env_step"] == 32
    assert np.isfinite(results["eval"]["mean_eval_reward"])
    evaluated = paxrun("eval", "--run-dir", str(path), "--num-envs", "2", "--json")
    assert evaluated.exit_code == 0
    assert json.loads(evaluated.stdout)["agents"] == ["PPO", "TitForTat"]


def test_options_of_a_search_are_settings_of_the_section_search(paxrun):
    result = paxrun("es", *TINY, *SEARCH, "--no-train-agent", "--dry-run")
    assert result.exit_code == 2  # a learning rate without training changes nothing
    assert "lr would change nothing" in result.stderr
    result = paxrun("es", *TINY, *SEARCH, "search.sigma_parameters=0.5", "--dry-run")
    assert result.exit_code == 0
    assert "population_size: 4" in result.stdout
    assert "sigma_parameters: 0.5" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--search-target", "lerning_rate:0:1"), "did you mean 'learning_rate'"),
        (("--es", "CMAS"), "did you mean 'CMA_ES'"),
        (("--es", "xNES", "--fit-shaper", "centered_rank"), "does not fit xNES"),
        (("--popsize", "many"), "population_size must be a whole number"),
        (("search.popsizes=3",), "did you mean 'popsize'"),
        (("num_seeds=2",), "num_seeds=1"),
        (("fsdp_devices=2",), "fsdp_devices"),
        (("eval_interval=100",), "eval_interval"),
        (("--agent1", "Grim"), "agent1: Grim has no option 'tabular'"),
        (("agent1.learning=false",), "nobody learns"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(paxrun, words, said):
    result = paxrun("es", *TINY, *words, "--dry-run")
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_config_of_a_search_is_written_and_read_again():
    words = ("runner=es", "search.popsize=8", "search.search_targets=[lr, parameters]")
    config = load(words)
    assert config.search["population_size"] == 8
    assert "population_size: 8" in to_yaml(config)


def test_a_stored_search_can_be_read():
    config = load(["sarl/cartpole_es"])
    assert config.runner == "es"
    assert config.search["search_targets"] == ("learning_rate", "entropy_coeff")


def test_a_search_is_for_es_alone():
    from runners.planning.plan import prepare

    config = load(["sarl/cartpole_es", "runner=online"])
    with pytest.raises(ConfigError, match="search is for `paxrun es`"):
        prepare(config)
