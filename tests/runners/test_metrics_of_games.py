"""What a user's game returns in `metrics` is in the table, the rows and the results."""

import json

import jax.numpy as jnp
import pytest
from game_fakes import Counting
from rich.console import Console
from test_report import outcome_of, row, text_of

from paxenv import registry
from paxenv.metrics import Accumulator
from runners.report.table import final_table, print_report
from runners.storage.jsonl import read_rows

PREFIX = "eval/sampled/env/"


class Harvest(Counting):
    """Everybody takes 0 or 1; says who took, the sum, and a map that is no number."""

    name = "Harvest"

    def step_game(self, draws, game, actions, params):
        obs, total, rewards, over, _ = super().step_game(draws, game, actions, params)
        took = jnp.stack(actions)
        metrics = {
            "sum": total,
            "took": took,
            "spared": tuple(1 - action for action in actions),
            "welfare": jnp.float32(7.0),
            "map": jnp.zeros((4, 4)),
        }
        return obs, total, rewards, over, metrics

    def metrics_init(self):
        return Accumulator(totals={"steps": jnp.int32(0), "rich": jnp.int32(0)})

    def metrics_update(self, acc, obs_before, actions, info):
        rich = info["valid"] & (info["metrics"]["sum"] > 1)
        totals = {
            "steps": acc.totals["steps"] + info["valid"],
            "rich": acc.totals["rich"] + rich,
        }
        return acc.replace(totals=totals)

    def metrics_final(self, acc):
        return {"rich": acc.totals["rich"] / acc.totals["steps"]}


def make(num_inner_steps=3, num_outer_steps=1):
    env = Harvest(num_inner_steps, num_outer_steps)
    return env, env.default_params


@pytest.fixture(scope="module")
def played(paxrun, tmp_path_factory):
    """Two seeds of player 1, who takes always, against player 2, who never does."""
    spec = registry.GameSpec("theirs/Harvest-v0", "test_metrics_of_games:make")
    registry.register(spec)
    path = tmp_path_factory.mktemp("runs") / "run"
    result = paxrun(
        *("eval", "--env", "theirs/Harvest-v0", "--agent1", "AllD"),
        *("--agent2", "AllC", "num_envs=2", "num_seeds=2", "plot=false"),
        *("num_outer_steps=1", "num_inner_steps=3", "--save-dir", str(path)),
    )
    registry._GAMES.pop(spec.id)
    assert result.exit_code == 0, result.stderr
    return result.stdout, path


def test_metrics_of_a_step_are_means_with_intervals_in_the_results(played):
    _, path = played
    results = json.loads((path / "artifacts/results.json").read_text())["metrics"]
    found = {
        name.removeprefix(PREFIX): value["mean"]
        for name, value in results.items()
        if name.startswith(PREFIX)
    }
    # Sums 1, 2, 3 of three steps; the last two are above 1.
    assert found == {
        "sum": 2.0,
        "took/player_1": 1.0,
        "took/player_2": 0.0,
        "spared/player_1": 0.0,
        "spared/player_2": 1.0,
        "welfare": 7.0,
        "rich": pytest.approx(2 / 3),
    }
    assert results[f"{PREFIX}sum"]["ci95"] == [2.0, 2.0]
    assert results["eval/sampled/episode/welfare"]["mean"] == 33.0


def test_metrics_of_a_step_are_in_the_rows(played):
    _, path = played
    assert [r[f"{PREFIX}sum"] for r in read_rows(path / "logs/eval.jsonl")] == [2, 2]


def test_metrics_of_a_step_are_in_the_table(played):
    text, _ = played
    assert row(text, "took")[1:] == ["1.000 ± 0.000", "0.000 ± 0.000", ""]
    assert row(text, "sum")[1:] == ["", "", "2.000 ± 0.000"]
    assert row(text, "rich")[3] == "0.667 ± 0.000"
    assert row(text, "game's welfare")[3] == "7.000 ± 0.000"
    assert "welfare (sum of returns) 33.00" in text


def test_a_game_without_metrics_of_its_own_has_no_column_for_them():
    text = text_of(final_table(outcome_of({"episode/welfare": [1.0, 1.0]})))
    assert "game" not in text


def test_a_built_in_game_reports_by_its_accumulator_alone(trained):
    results = json.loads((trained.path / "artifacts/results.json").read_text())
    names = {name for name in results["metrics"] if "/env/" in name}
    kinds = {name.split("/")[3] for name in names}
    assert kinds == {"cooperation_rate", "cooperation_probability", "state_visitation"}


def test_the_report_prints_the_table(capsys):
    print_report(outcome_of({"env/sum": [1.0, 3.0]}), Console(width=90))
    assert "sum" in capsys.readouterr().out
