"""`paxrun evo`: from a command line to the mean of a search and its best member."""

import json
from typing import Any

import numpy as np
import pytest

from paxenv_agents import weights
from runners.config import load
from runners.config.loader import to_yaml
from runners.planning.plan import prepare
from runners.session.held_out import config_of_run

USAGE = 2
TINY = (
    *("num_inner_steps=4", "num_outer_steps=2", "num_envs=2", "num_seeds=2"),
    *("agent1.hidden_sizes=[4]", "agent2.num_minibatches=2", "plot=false"),
    *("es.init=agent", "es.top_k=2", "tensorboard=false"),
)
EVOLVED = ("evo", "ipd/gs_v_tabular", *TINY, "--popsize", "8", "--num-generations", "3")


@pytest.fixture(scope="module")
def finished(paxrun, tmp_path_factory):
    """Three generations of `ipd/gs_v_tabular`, two seeds; (click's result, folder)."""
    folder = tmp_path_factory.mktemp("exp") / "run"
    return paxrun(*EVOLVED, "--save-dir", str(folder)), folder


@pytest.mark.slow
def test_a_run_reports_and_saves_the_mean_and_the_best_member(finished):
    result, folder = finished
    assert result.exit_code == 0, result.stderr
    assert "the mean of the search in 2 trials of 8 steps" in result.stdout
    assert "best member, played again" in result.stdout
    assert result.stdout.count("\nuse:     models/") == 1
    results = json.loads((folder / "artifacts" / "results.json").read_text())
    name = "episode/reward_per_step/player_1"
    mean = results["metrics"][f"eval/sampled/{name}"]
    best = results["best_members"]["player_1"]
    assert len(mean["per_seed"]) == len(best["metrics"][name]["per_seed"]) == 2
    assert all(0 <= g < 3 for g in best["generation"])
    assert results["env_steps_per_seed"] == 3 * 8 * 2 * 8
    # The picture and its numbers are of the mean too, not of the member played last.
    last = results["metrics"]["eval/sampled/episode/reward_per_step_last/player_1"]
    curve = results["inner_episodes"]["player_1"]["mean"]
    assert curve[-1] == pytest.approx(last["mean"], abs=1e-6)
    for stem in ("player1", "player1_seed1", "best_player1", "best_player1_seed1"):
        record = weights.describe_agent(folder / "models" / f"{stem}.msgpack")
        assert record["agent"] == "PPO"


def rows_of(folder):
    lines = (folder / "logs" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_rows_show_the_mean_return_of_the_population(finished):
    rows = rows_of(finished[1])
    assert len(rows) == 6
    for row in rows:
        assert -3.0 <= row["train/player_1/fitness/mean"] <= 0.0
        np.testing.assert_allclose(
            row["train/player_1/fitness/mean"],
            row["episode/reward_per_step/player_1"],
            rtol=1e-5,
        )
        assert row["train/player_1/nan_members"] == 0


@pytest.mark.slow
def test_four_devices_split_the_population(finished, paxrun_apart, tmp_path):
    """Eight members on four virtual devices are worth what they are on one."""
    paxrun_apart(*EVOLVED, "--num-devices", "4", "--save-dir", str(tmp_path / "four"))
    for one, four in zip(rows_of(finished[1]), rows_of(tmp_path / "four"), strict=True):
        for name, value in one.items():
            if name.startswith(("train/player_1/fitness", "episode/")):
                assert four[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name


@pytest.mark.slow
def test_who_was_searched_meets_learners_that_begin_afresh(finished, paxrun, tmp_path):
    """What was searched stays, its opponent learns from nothing."""
    run = str(finished[1])
    plan = prepare(config_of_run(run, ["num_opponents=3"]))
    searched, learner = plan.experiment.slots
    assert not searched.learns
    assert learner.learns
    first, second = plan.config.agents
    assert first.model_path == run
    assert second.model_path is None
    words = ("eval", "--run-dir", run, "--json", "--exp-dir", str(tmp_path))
    result = json.loads(paxrun(*words).stdout)
    assert len(result["inner_episodes"]["player_2"]["mean"]) == 2


@pytest.mark.slow
def test_the_weights_of_a_best_member_play(finished, paxrun, tmp_path):
    _, folder = finished
    result = paxrun(
        *("eval", "--env", "IPD", "--agent1", "PPO", "--agent2", "AllD"),
        *("--model-path", str(folder / "models" / "best_player1.msgpack")),
        *("num_envs=4", "num_inner_steps=5", "plot=false"),
        *("--exp-dir", str(tmp_path), "--json"),
    )
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["agents"] == ["PPO", "AllD"]


def test_an_odd_population_of_mirrored_members_is_a_users_mistake(paxrun):
    result = paxrun("evo", "ipd/gs_v_tabular", "--popsize", "7", "--dry-run")
    assert result.exit_code == USAGE
    assert "Open_ES with population_size=7" in result.stderr
    assert "Try 6 or 8" in result.stderr


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("es.algo=OpnES", "did you mean 'OpenES'?"),
        ("es.sigma_inti=1", "did you mean 'sigma_init'?"),
        ("es.centered_rank=true", "write fitness_shaping: centered_rank"),
        ("agent2.es.popsize=4", "set es.population_size"),
        ("es=CMA_ES", "es must be a mapping"),
        ("num_outer_steps=1", "would never learn"),
        ("es.top_k=many", "es.top_k must be a whole number"),
    ],
)
def test_mistakes_in_the_section_es_are_named_before_a_compile(paxrun, word, says):
    result = paxrun("evo", "ipd/gs_v_tabular", word, "--dry-run")
    assert result.exit_code == USAGE
    assert says in " ".join(result.stderr.split())


def test_strategies_are_listed_with_the_names_of_users(paxrun):
    result = paxrun("list", "es", "--json")
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert len(rows) == 37
    assert "OpenES" in rows["Open_ES"]["also"]
    assert rows["CMA_ES"]["family"] == "recombination"


def test_names_that_users_know_are_the_same_options():
    words = ["es.popsize=8", "es.algo=PGPE", "es.lrate_init=1e-2", "num_gens=3"]
    config = load(["ipd/gs_v_tabular", *words])
    es = config.es
    assert (es.population_size, es.strategy, es.num_generations) == (8, "PGPE", 3)
    assert es.learning_rate == 0.01


def test_the_last_word_on_the_length_of_a_run_stands():
    stored = prepare(load(["ipd/gs_v_tabular"]))
    steps = stored.steps_per_iteration
    assert (stored.num_iterations, steps) == (5000, 1000 * 2 * 100 * 100)
    shorter = prepare(load(["ipd/gs_v_tabular", f"total_timesteps={3 * steps}"]))
    assert shorter.num_iterations == 3


def test_an_agent_has_a_search_of_its_own():
    agents = ["agent2=PPO", "agent2.hidden_sizes=[4]", "agent1.es.sigma_init=0.2"]
    plan = prepare(load(["ipd/gs_v_tabular", *agents, "agent2.es.strategy=CMA_ES"]))
    outer: Any = plan.experiment.outer
    first, second = (search.options for search in outer.searches)
    assert (first.strategy, first.sigma_init) == ("OpenES", 0.2)
    # The run's spread is of both; its learning rate of the one that has a use for it.
    assert (second.strategy, second.sigma_init) == ("CMA_ES", 0.04)
    assert (first.learning_rate, second.learning_rate) == (0.1, None)
    assert second.population_size == 1000


def test_quick_is_the_small_size_and_settings_still_win():
    plan = prepare(load(["ipd/gs_v_tabular"], options={"quick": True}))
    assert plan.config.es.population_size == 64
    assert plan.config.env.options["num_inner_steps"] == 50
    small = load(["ipd/gs_v_tabular", "quick=true", "popsize=8"])
    assert small.es.population_size == 8
    again = load(["ipd/gs_v_tabular", "quick=false"])
    assert again.es.population_size == 1000


def test_quick_without_a_small_size_is_an_error(paxrun):
    result = paxrun("rl", "ipd/nl_v_nl", "--quick", "--dry-run")
    assert result.exit_code == USAGE
    assert "ipd/nl_v_nl has no quick size" in result.stderr


def test_a_config_of_evolution_is_written_and_read_back(tmp_path):
    config = load(
        ["ipd/gs_v_tabular", "agent1.es.w_decay=0.1", "es.use_antithetic_sampling=true"]
    )
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(config))
    assert load(config_file=file) == config
