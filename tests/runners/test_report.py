"""Tables and pictures of an outcome."""

import dataclasses
import math

import matplotlib.image
import numpy as np
import pytest
from rich.console import Console

from runners.config import load
from runners.engine.metric_names import Name, parse, states
from runners.engine.statistics import estimates
from runners.planning.plan import prepare
from runners.report import figures, plots
from runners.report.table import captions, final_table, print_whole
from runners.session.outcome import Outcome

PREFIX = "env/cooperation_probability/player_"


def outcome_of(metrics, *words):
    plan = prepare(load(["ipd/ppo_v_tft", "num_seeds=2", *words]))
    return Outcome(
        plan=plan,
        evaluation=estimates({k: np.array(v) for k, v in metrics.items()}),
        num_iterations=3,
        seconds=1.0,
        compile_seconds=1.0,
        interrupted=False,
    )


METRICS = {
    "episode/reward_per_step/player_1": [-1.0, -1.2],
    "episode/reward_per_step/player_2": [-1.5, -1.5],
    "episode/welfare": [-300.0, -300.0],
    "episode/count": [100.0, 100.0],
    "train/player_1/loss": [7.0, 7.0],
    f"{PREFIX}1/CC": [0.9, 0.7],
    f"{PREFIX}1/CD": [math.nan, math.nan],
    f"{PREFIX}2/CC": [1.0, 1.0],
    f"{PREFIX}2/CD": [0.25, 0.25],
    "env/state_visitation/player_1/CC": [0.99, 0.99],
    "env/state_visitation/player_2/CC": [0.99, 0.99],
    "env/state_visitation/player_1/CD": [0.0, 0.0],
    "env/state_visitation/player_2/CD": [0.01, 0.01],
}


def text_of(table):
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def row(text, label):
    (line,) = [line for line in text.splitlines() if line.strip().startswith(label)]
    return [cell.strip() for cell in line.split("│")]


def test_the_table_has_means_and_intervals_of_each_player():
    text = text_of(final_table(outcome_of(METRICS)))
    assert text.startswith("IPD: PPO v TitForTat")
    # t(1) = 12.706, s = 0.1414, sqrt(2): +- 1.271.
    assert row(text, "reward per step")[1:] == ["-1.100 ± 1.271", "-1.500 ± 0.000"]
    assert row(text, "CC")[1:] == ["0.800 ± 1.271   99.0%", "1.000 ± 0.000   99.0%"]
    assert row(text, "CD")[1:] == ["not visited", "0.250 ± 0.000    1.0%"]
    assert "loss" not in text


@pytest.mark.parametrize(
    ("length", "told"),
    [
        (150.0, "games of 150 steps w"),
        (40.25, "of 150 steps at most, 40.2 in the mean,"),
    ],
)
def test_the_caption_says_how_many_steps_were_really_played(length, told):
    metrics = {**METRICS, "episode/length": [length, length]}
    assert told in captions(outcome_of(metrics))[0]


def test_one_seed_shows_no_interval_and_says_why():
    single = {name: values[:1] for name, values in METRICS.items()}
    outcome = outcome_of(single, "num_seeds=1")
    assert row(text_of(final_table(outcome)), "reward per step")[1] == "-1.000"
    assert "one seed, so no interval" in captions(outcome)[0]


def test_the_caption_names_how_actions_were_chosen():
    assert "actions sampled" in captions(outcome_of(METRICS))[0]
    greedy = outcome_of(METRICS, "deterministic=true")
    assert "greedy actions" in captions(greedy)[0]


def test_counts_are_shown_per_episode():
    metrics = {
        "episode/count": [50.0, 50.0],
        "env/own_coins/player_1": [100.0, 200.0],
        "env/own_coins/player_2": [50.0, 50.0],
    }
    text = text_of(final_table(outcome_of(metrics)))
    assert row(text, "own coins per episode")[1].startswith("3.000")
    assert row(text, "own coins per episode")[2].startswith("1.000")


def test_names_of_metrics_have_parts():
    assert parse("env/cooperation_probability/player_2/CD") == Name(
        "cooperation_probability", 2, "CD"
    )
    assert parse("episode/welfare") == Name("welfare")
    assert parse("train/player_1/loss/total") is None


def test_states_come_in_the_order_of_the_game():
    named = {Name("q", 1, state): 0 for state in ("ZZ", "DD", "CC")}
    assert states(named, "q", ("CC", "CD", "DD")) == ["CC", "DD", "ZZ"]


def logged_rows(length, seeds=2):
    row = {f"episode/reward_per_step/player_{p}": -float(p) for p in (1, 2)}
    return [
        {"seed": seed, "env_steps": 80 * (i + 1), "episode/count": 8.0, **row}
        for i in range(length)
        for seed in range(seeds)
    ]


def is_drawn(path):
    picture = matplotlib.image.imread(path)
    return picture.shape[0] > 300 and picture.shape[1] > 600 and picture.std() > 0.05


@pytest.mark.parametrize("length", [1, 5])
def test_the_reward_curve_is_a_picture(tmp_path, length):
    path = tmp_path / "curve.png"
    plots.reward_curve(outcome_of(METRICS), logged_rows(length), path)
    assert is_drawn(path)


def test_the_cooperation_bars_are_a_picture(tmp_path):
    path = tmp_path / "bars.png"
    plots.cooperation(outcome_of(METRICS), path)
    assert is_drawn(path)


def test_the_picture_has_each_players_own_shares_as_the_table(tmp_path, monkeypatch):
    """Player 2 sees CD in one step of a hundred, player 1 never does."""
    saved = []
    monkeypatch.setattr(figures, "save", lambda figure, path: saved.append(figure))
    plots.cooperation(outcome_of(METRICS), tmp_path / "bars.png")
    ticks = [tick.get_text() for tick in saved[0].axes[0].get_xticklabels()]
    assert ticks == [
        "CC\nplayer 1: 99.0%\nplayer 2: 99.0%",
        "CD\nplayer 1: 0.0%\nplayer 2: 1.0%",
    ]


def test_a_game_without_cooperation_gets_no_bars(tmp_path):
    outcome = outcome_of({"episode/count": [1.0, 1.0]})
    plots.cooperation(outcome, tmp_path / "bars.png")
    assert list(tmp_path.iterdir()) == []


def test_results_are_plain_data_with_the_mode_in_each_name():
    outcome = outcome_of(METRICS)
    data = outcome.as_dict()
    assert data["metrics"][f"eval/sampled/{PREFIX}1/CC"]["mean"] == pytest.approx(0.8)
    assert data["metrics"][f"eval/sampled/{PREFIX}1/CD"]["mean"] is None
    assert data["env_steps"] == 3 * 15_000 * 2
    greedy = dataclasses.replace(
        outcome, plan=outcome_of(METRICS, "deterministic=true").plan
    )
    assert all(name.startswith("eval/greedy/") for name in greedy.as_dict()["metrics"])


@pytest.mark.parametrize(
    ("values", "alone"),
    [
        ([], []),
        ([1.0], [0]),
        ([1.0, 2.0], []),
        ([1.0, np.nan, 2.0, 3.0, np.nan, 4.0], [0, 5]),
    ],
)
def test_points_without_a_neighbour_are_dots(values, alone):
    assert figures.isolated(values) == alone


def test_no_number_of_a_table_is_cut_off_in_a_narrow_console():
    outcome = outcome_of(METRICS)
    console = Console(width=30, color_system=None)
    with console.capture() as capture:
        print_whole(final_table(outcome), console)
    assert row(capture.get(), "reward per step") == row(
        text_of(final_table(outcome)), "reward per step"
    )


def test_a_seed_that_never_met_a_state_has_not_failed():
    nan = math.nan
    metrics = {
        "health/finite": [1.0, 1.0, 1.0, 1.0, 0.0],
        f"{PREFIX}1/CD": [nan, 0.5, 0.5, 0.5, 0.5],
    }
    outcome = outcome_of(metrics, "num_seeds=5")
    (_, seen) = outcome.as_dict()["metrics"].values()
    assert (seen["iqm"], seen["failed_seeds"]) == (0.5, [4])
