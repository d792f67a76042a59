"""Stored experiments against the outcomes that they state."""

import json
import math
import types

import pytest
from click.testing import CliRunner

from runners.cli import cli
from runners.config import ConfigError, load, load_small
from runners.parity import bands, page, record
from runners.summary import Estimate, estimate

REWARD = "episode/reward_per_step/player_1"
PAGE = f"# Title\n\nby hand\n\n{page.BEGIN}\nOLD ROW\n{page.END}\n\nby hand too\n"


def outcome_of(stated, evaluation, best_score=None):
    config = types.SimpleNamespace(bands=stated)
    plan = types.SimpleNamespace(config=config)
    return types.SimpleNamespace(
        plan=plan, evaluation=evaluation, best_score=best_score
    )


@pytest.mark.parametrize(
    ("mean", "holds"), [(-1.1, True), (-0.9, True), (-1.11, False), (math.nan, False)]
)
def test_a_band_holds_between_its_ends_and_never_for_nan(mean, holds):
    value = Estimate(mean, None, 1, (mean,))
    (finding,) = bands.findings(outcome_of({REWARD: (-1.1, -0.9)}, {REWARD: value}))
    assert finding.holds is holds
    assert finding.verdict.startswith("holds" if holds else "MISSED")


def test_an_unknown_metric_is_a_miss_that_names_the_nearest():
    known = {REWARD: estimate([-1.0])}
    misspelt = "episode/reward_per_step/player_l"
    (finding,) = bands.findings(outcome_of({misspelt: (-2, 0)}, known))
    assert not finding.holds
    assert REWARD in finding.verdict


def test_the_best_evaluation_on_the_way_may_have_a_band():
    (finding,) = bands.findings(
        outcome_of({bands.BEST_SCORE: (475, 500)}, {}, best_score=500.0)
    )
    assert finding.holds


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
    (docs / page.PAGE).write_text(PAGE)
    return tmp_path


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
    kept = record.read(conf / "docs")["mine/tft"][record.FULL]
    assert kept.command == "paxrun parity mine/tft"
    assert kept.metrics[REWARD] == (-1.0, None)
    text = (conf / "docs" / page.PAGE).read_text()
    assert text.startswith("# Title\n\nby hand\n")
    assert text.endswith("by hand too\n")
    assert "OLD ROW" not in text
    assert "reward per step of player 1: -1.000" in text
    assert "reward per step of player 1: [-1, -1]" in text


def test_mistakes_are_usage_errors(conf):
    (conf / "conf/experiment/mine/no_bands.yaml").write_text("runner: eval\n")
    for words, said in [
        (("mine/no_bands",), "states no bands"),
        (("mine/tfd",), "mine/tft"),
        (("mine", "--record", "nowhere"), "there is no experiments.md"),
    ]:
        result = run(*words)
        assert result.exit_code == 2, result.output
        assert said in result.output
