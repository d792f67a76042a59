"""Stored experiments against the outcomes that they state."""

import json
import math
import types
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runners.cli import cli
from runners.config import ConfigError, load, load_small
from runners.engine.statistics import Estimate, estimate
from runners.report import parity
from runners.session.outcome import BEST_SCORE, Outcome, OuterOutcome
from runners.storage.run_dir import RunDir

REWARD = "episode/reward_per_step/player_1"
PAGE = f"# Title\n\nby hand\n\n{parity.BEGIN}\nOLD ROW\n{parity.END}\n\nby hand too\n"


def plan_of(stated) -> Any:
    return types.SimpleNamespace(config=types.SimpleNamespace(bands=stated))


def outcome_of(stated, evaluation, best_score=None):
    return Outcome(
        plan=plan_of(stated),
        evaluation=evaluation,
        num_iterations=1,
        seconds=1.0,
        compile_seconds=2.0,
        interrupted=False,
        best_score=best_score,
    )


@pytest.mark.parametrize(
    ("mean", "holds"), [(-1.1, True), (-0.9, True), (-1.11, False), (math.nan, False)]
)
def test_a_band_holds_between_its_ends_and_never_for_nan(mean, holds):
    value = Estimate(mean, None, 1, (mean,))
    (finding,) = parity.findings(outcome_of({REWARD: (-1.1, -0.9)}, {REWARD: value}))
    assert finding.holds is holds
    assert finding.verdict.startswith("holds" if holds else "MISSED")


def test_an_unknown_metric_is_a_miss_that_names_the_nearest():
    known = {REWARD: estimate([-1.0])}
    misspelt = "episode/reward_per_step/player_l"
    (finding,) = parity.findings(outcome_of({misspelt: (-2, 0)}, known))
    assert not finding.holds
    assert REWARD in finding.verdict


def test_the_best_evaluation_on_the_way_may_have_a_band():
    (finding,) = parity.findings(
        outcome_of({BEST_SCORE: (475, 500)}, {}, best_score=500.0)
    )
    assert finding.holds


def test_every_evaluation_of_an_outer_loop_may_have_a_band():
    stated = {
        "mean_eval_reward": (300, 500),
        "retrained/mean_eval_reward": (200, 500),
        "final_mean/mean_eval_rewards": (0, 500),
    }
    evaluation = {
        "mean_eval_reward": 400.0,
        "retrained": {"mean_eval_reward": 150.0},
        "final_mean": {"mean_eval_reward": 50.0},
    }
    outcome = OuterOutcome(plan_of(stated), {"step": 3}, evaluation, 1.0, False)
    best, again, misspelt = parity.findings(outcome)
    assert (best.holds, again.holds, misspelt.holds) == (True, False, False)
    assert again.measured == Estimate(150.0, None, 1, (150.0,))
    assert misspelt.near[0] == "final_mean/mean_eval_reward"


def test_seconds_of_a_run_are_those_of_its_compilation_too():
    whole = (outcome_of({}, {}), OuterOutcome(plan_of({}), {}, {}, 3.0, False))
    assert [outcome.wall_seconds for outcome in whole] == [3.0, 3.0]


def test_a_band_that_ends_before_it_begins_is_refused():
    with pytest.raises(ConfigError, match=r"bands\.x must be \[low, high\]"):
        load(["ipd/ppo_v_tft", "bands.x=[1, 0]"])


def test_an_experiment_with_other_players_states_no_bands():
    assert load(["agent2=AllD"]).bands == {}


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """A folder of one's own with an experiment of two steps, in two sizes."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "conf" / "experiment" / "mine"
    folder.mkdir(parents=True)
    (folder / "tft.yaml").write_text(
        "description: d\nexpected: e\nsource: s\nrunner: eval\n"
        f"bands:\n  {REWARD}: [-1, -1]\n"
        "env: {id: IPD, num_inner_steps: 4}\nagents: [TitForTat, TitForTat]\n"
        "num_envs: 2\nplot: false\n"
        f"quick:\n  num_inner_steps: 2\n  bands:\n    {REWARD}: [0, 0]\n"
    )
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / parity.PAGE).write_text(PAGE)
    return tmp_path


OUTER = """
description: d
expected: e
source: s
env: {id: IPD, num_inner_steps: 4}
agents: [{name: PPO, tabular: true, n_steps: 4, num_minibatches: 1, num_epochs: 1}]
num_envs: 2
total_timesteps: 16
eval_episodes: 2
plot: false
tensorboard: false
"""
#: One episode of four steps is worth that.
EVERYTHING, NOTHING = "[-12, 0]", "[1, 2]"


@pytest.fixture
def outer(conf):
    """Experiments of outer loops beside the other one, a few updates each."""
    folder = conf / "conf/experiment/mine"
    (folder / "online.yaml").write_text(
        f"{OUTER}runner: online\nbands: {{mean_eval_reward: {EVERYTHING}}}\n"
    )
    (folder / "es.yaml").write_text(
        f"{OUTER}runner: es\nbands: {{retrained/mean_eval_reward: {EVERYTHING}}}\n"
        "search: {search_targets: [learning_rate], population_size: 4, iterations: 3,"
        " repeats: 2, strategy: SimpleES}\n"
        "quick:\n  search: {iterations: 1}\n"
        f"  bands: {{retrained/mean_eval_reward: {NOTHING}}}\n"
    )
    return conf


def run(*words):
    return CliRunner().invoke(cli, ["parity", *words])


@pytest.mark.slow
def test_outcomes_in_their_bands_end_in_0_and_others_in_1(conf):
    held = run("mine/tft", "--json")
    assert held.exit_code == 0, held.output
    (found,) = json.loads(held.stdout)
    assert found["findings"][0]["measured"]["mean"] == -1.0
    missed = run("mine/tft", "--quick")
    assert missed.exit_code == 1
    assert "0 of 1 outcomes hold" in missed.output
    assert "MISSED" in missed.output


def test_the_small_size_lies_on_top_and_is_not_a_setting():
    words = ["ipd/ppo_v_tft"]
    assert load_small(words[0]) == load(words)


def test_the_small_size_changes_settings_and_replaces_bands(conf):
    assert load(["mine/tft"]).env.options["num_inner_steps"] == 4
    small = load_small("mine/tft")
    assert small.env.options["num_inner_steps"] == 2
    assert small.bands == {REWARD: (0.0, 0.0)}
    changed = load(["mine/tft", "num_inner_steps=3", "quick=true"])
    assert changed.env.options["num_inner_steps"] == 3


def test_the_record_and_the_page_hold_what_a_run_gave(conf):
    result = run("mine", "--record", "docs")
    assert result.exit_code == 0, result.output
    kept = parity.read(conf / "docs")["mine/tft"][parity.FULL]
    assert kept.command == "paxrun parity mine/tft"
    assert kept.metrics[REWARD] == (-1.0, None)
    text = (conf / "docs" / parity.PAGE).read_text()
    assert text.startswith("# Title\n\nby hand\n")
    assert text.endswith("by hand too\n")
    assert "OLD ROW" not in text
    assert "reward per step of player 1: -1.000" in text
    assert "reward per step of player 1: [-1, -1]" in text


def test_without_names_an_experiment_of_no_family_may_state_no_bands(conf, monkeypatch):
    (conf / "conf/experiment/flat.yaml").write_text("runner: eval\n")
    names = ("flat", "mine/tft")
    monkeypatch.setattr("runners.config.experiment_names", lambda: names)
    result = run("--dry-run")
    assert (result.exit_code, result.output.count("steps of each seed")) == (0, 1)


def test_mistakes_are_usage_errors(conf):
    (conf / "conf/experiment/mine/no_bands.yaml").write_text("runner: eval\n")
    for words, said in [
        (("mine/no_bands",), "states no bands"),
        (("mine/tft", "num_envs=3"), "paxrun run NAME num_envs=3"),
        (("mine/tfd",), "mine/tft"),
        (("mine", "--record", "nowhere"), "there is no experiments.md"),
    ]:
        result = run(*words)
        assert result.exit_code == 2, result.output
        assert said in result.output


def test_a_dry_run_counts_the_steps_of_every_training(outer):
    result = run("mine/online", "mine/es", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "mine/online: 16 steps" in result.output
    # Three generations of four individuals, each trained twice.
    assert "mine/es: 384 steps" in result.output
    assert "mine/es: 128 steps" in run("mine/es", "--quick", "--dry-run").output


def test_what_an_outer_loop_cannot_do_names_the_experiment(outer):
    result = run("mine", "--num-seeds", "2", "--dry-run")
    assert result.exit_code == 2
    assert "mine/es: num_seeds=2 is for" in " ".join(result.output.split())


@pytest.mark.slow
def test_outer_loops_are_held_against_their_bands_and_recorded(outer):
    held = run("mine/online", "mine/es", "--json", "--record", "docs")
    assert held.exit_code == 0, held.output
    for found in json.loads(held.stdout):
        results = json.loads(RunDir.open(Path(found["run_dir"])).results.read_text())
        (finding,) = found["findings"]
        wanted = results["metrics"][finding["metric"]]
        assert finding["measured"] == wanted
        kept = parity.read(outer / "docs")[found["experiment"]][parity.FULL]
        assert kept.metrics[finding["metric"]][0] == pytest.approx(wanted["mean"])
        assert kept.seconds >= 0.1
    assert (
        "retrained/mean eval reward: [-12, 0]"
        in (outer / "docs" / parity.PAGE).read_text()
    )
    missed = run("mine/es", "--quick")
    assert missed.exit_code == 1
    assert "0 of 1 outcomes hold" in missed.output
