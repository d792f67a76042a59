"""`paxrun plot`: curves of runs, with bands over seeds."""

import math

import matplotlib.image
import numpy as np
import pytest
from run_fakes import fake_run

from runners.config import ConfigError
from runners.engine.metric_names import words
from runners.engine.statistics import confidence_band
from runners.report import figures
from runners.report.comparison import NoDataError, compare, draw, moving_mean

RETURN = "episode/return/player_1"


def linear(slope=1.0):
    """A return that grows with iterations, and by a tenth from seed to seed."""
    return {RETURN: lambda i, seed: slope * i + seed / 10}


def test_seeds_of_one_setting_are_one_curve(tmp_path):
    runs = [
        fake_run(tmp_path, "seed=1", "num_seeds=2", metrics=linear()),
        fake_run(tmp_path, "seed=2", "log_interval=7", metrics=linear(2.0)),
    ]
    (curve,) = compare(runs).curves
    assert curve.label == "ipd/ppo_v_tft"
    assert curve.x.tolist() == [10, 20, 30, 40, 50]
    np.testing.assert_allclose(
        curve.values,
        [[1, 2, 3, 4, 5], [1.1, 2.1, 3.1, 4.1, 5.1], [2, 4, 6, 8, 10]],
        rtol=1e-6,
    )


def test_other_settings_are_other_curves_named_by_what_differs(tmp_path):
    """A legend names the experiment and the settings, not a printed config."""
    words = "agent1.learning_rate=0.5"
    runs = [
        fake_run(tmp_path, metrics=linear()),
        fake_run(tmp_path, words, metrics=linear()),
        fake_run(tmp_path, "name=other/game", "num_envs=7", metrics=linear()),
        fake_run(tmp_path, "wandb.name=mine", "num_envs=9", metrics=linear()),
    ]
    assert [curve.label for curve in compare(runs).curves] == [
        "ipd/ppo_v_tft: agent1.learning_rate=0.01",
        "ipd/ppo_v_tft: agent1.learning_rate=0.5",
        "other/game",
        "ipd/ppo_v_tft mine",
    ]


def test_a_curve_ends_where_the_first_of_its_seeds_ends(tmp_path):
    """Nothing is drawn where a seed has no data."""
    runs = [
        fake_run(tmp_path, "seed=1", iterations=range(1, 4), metrics=linear()),
        fake_run(tmp_path, "seed=2", iterations=range(2, 6), metrics=linear()),
    ]
    (curve,) = compare(runs).curves
    assert curve.x.tolist() == [20, 30]
    assert curve.values.tolist() == [[2, 3], [2, 3]]


def test_seeds_without_a_common_range_are_refused(tmp_path):
    """No reversed grid."""
    runs = [
        fake_run(tmp_path, "seed=1", iterations=range(1, 3), metrics=linear()),
        fake_run(tmp_path, "seed=2", iterations=range(4, 6), metrics=linear()),
    ]
    with pytest.raises(ConfigError, match="begins at 40, another ends at 20"):
        compare(runs)


def test_a_seed_that_was_run_twice_counts_once(tmp_path):
    runs = [
        fake_run(tmp_path, iterations=range(1, 3), metrics=linear()),
        fake_run(tmp_path, metrics=linear()),
    ]
    comparison = compare(runs)
    (curve,) = comparison.curves
    assert curve.values.shape == (1, 5)
    assert comparison.notes == (
        f"{runs[1].path} repeats seeds of another run: they count once",
    )


@pytest.mark.parametrize(
    ("axis", "x"), [("iteration", [1, 2, 3]), ("seconds", [0.5, 1.0, 1.5])]
)
def test_the_axis_is_chosen(tmp_path, axis, x):
    run = fake_run(tmp_path, iterations=range(1, 4), metrics=linear())
    assert compare([run], axis=axis).curves[0].x.tolist() == x


def test_rows_without_an_ended_episode_are_passed_over(tmp_path):
    """Such rows are no point of the curve, certainly not 0."""
    metrics = {
        "episode/count": lambda i, seed: float(i > 2),
        "episode/mean_reward": lambda i, seed: 7.0 if i > 2 else math.nan,
    }
    comparison = compare([fake_run(tmp_path, metrics=metrics)])
    assert comparison.metric == "episode/mean_reward"
    (curve,) = comparison.curves
    assert curve.x.tolist() == [30, 40, 50]
    assert curve.values.tolist() == [[7, 7, 7]]


def test_a_seed_that_diverged_leaves_a_gap_instead_of_a_line(tmp_path):
    metrics = {RETURN: lambda i, seed: math.nan if (i, seed) == (3, 1) else 1.0}
    (curve,) = compare([fake_run(tmp_path, "num_seeds=2", metrics=metrics)]).curves
    mean, half = confidence_band(curve.values)
    assert np.isnan(mean).tolist() == [False, False, True, False, False]
    assert np.isnan(half).tolist() == [False, False, True, False, False]


def test_the_band_is_students_interval_of_the_mean():
    mean, half = confidence_band(np.array([[1.0], [2.0], [3.0]]))
    assert mean.tolist() == [2.0]
    # t(2) = 4.302653, s = 1, sqrt(3).
    assert half.tolist() == [pytest.approx(4.302653 / math.sqrt(3))]


def test_one_seed_has_no_band():
    assert confidence_band(np.array([[1.0, 2.0]]))[1].tolist() == [0.0, 0.0]


def test_a_moving_mean_does_not_bend_a_trend_at_its_ends():
    """No padding; a straight line stays straight, n points stay n."""
    line = np.arange(7.0)
    np.testing.assert_allclose(moving_mean(line, 5), line, rtol=1e-12)
    noisy = np.array([[0.0, 3.0, 0.0, 3.0, 0.0]])
    np.testing.assert_allclose(moving_mean(noisy, 3), [[0, 1, 2, 1, 0]], rtol=1e-12)
    np.testing.assert_array_equal(moving_mean(noisy, 1), noisy)


def test_an_unknown_metric_names_the_nearest(tmp_path, paxrun):
    run = fake_run(tmp_path, metrics=linear())
    result = paxrun("plot", str(run.path), "--metric", "episode/retrun/player_1")
    assert result.exit_code == 2
    assert f"did you mean '{RETURN}'" in result.stderr


def test_a_run_without_the_metric_is_left_out_and_said(tmp_path):
    runs = [
        fake_run(tmp_path, metrics=linear()),
        fake_run(tmp_path, "num_envs=7", metrics={"episode/x": lambda i, seed: 0.0}),
    ]
    comparison = compare(runs, RETURN)
    assert len(comparison.curves) == 1
    assert comparison.notes == (f"{runs[1].path} has no {RETURN} and is left out",)


def test_runs_without_rows_are_said_and_fail(tmp_path, paxrun):
    run = fake_run(tmp_path, iterations=range(0))
    with pytest.raises(NoDataError, match="logged no rows"):
        compare([run])
    out = tmp_path / "none.png"
    result = paxrun("plot", str(run.path), "--out", str(out))
    assert result.exit_code == 1
    assert "nothing to draw" in result.stderr
    assert not out.exists()


def test_evaluations_are_drawn_from_their_own_file(tmp_path):
    from runners.storage.jsonl import JsonLines

    run = fake_run(tmp_path)
    with JsonLines(run.eval_metrics) as log:
        for i in (1, 2):
            log.log(100 * i, i, {"eval/mean_reward": 5.0 * i})
    (curve,) = compare([run], "eval/mean_reward").curves
    assert (curve.x.tolist(), curve.values.tolist()) == ([100, 200], [[5, 10]])


@pytest.mark.parametrize("smooth", ["1", "3"])
def test_the_picture_is_drawn_from_a_folder_of_runs(tmp_path, paxrun, smooth):
    for seed in range(3):
        fake_run(tmp_path / "exp", f"seed={seed}", metrics=linear(seed + 1.0))
    out = tmp_path / "out" / "curves.png"
    words = ("--x", "iteration", "--smooth", smooth, "--out", str(out))
    result = paxrun("plot", str(tmp_path / "exp"), *words)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"picture of return of an episode of player 1: {out}\n"
    picture = matplotlib.image.imread(out)
    assert picture.shape[0] > 300
    assert picture.std() > 0.05


def test_a_single_point_is_visible(tmp_path):
    run = fake_run(tmp_path, iterations=range(1, 2), metrics=linear())
    draw(compare([run]), tmp_path / "point.png")
    assert matplotlib.image.imread(tmp_path / "point.png").std() > 0.05


def drawn(monkeypatch, comparison, tmp_path):
    """Returns the figure that a picture is made of."""
    saved = []
    monkeypatch.setattr(figures, "save", lambda figure, path: saved.append(figure))
    draw(comparison, tmp_path / "picture.png")
    (figure,) = saved
    figure.canvas.draw()
    return figure


LONG = "agent1.hidden_sizes=" + "_".join(["sixty-four"] * 12)


def test_a_legend_says_what_differs_and_the_title_what_does_not(tmp_path, monkeypatch):
    runs = [
        fake_run(tmp_path, f"agent1.learning_rate={rate}", metrics=linear())
        for rate in (0.5, 0.25)
    ]
    figure = drawn(monkeypatch, compare(runs), tmp_path)
    (axes,), (legend,) = figure.axes, figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "agent1.learning_rate=0.5",
        "agent1.learning_rate=0.25",
    ]
    assert axes.get_title(loc="left") == "ipd/ppo_v_tft"
    assert axes.get_ylabel() == "return of an episode of player 1"
    assert axes.texts[0].get_text() == "one seed"


def test_a_legend_is_never_cut_off(tmp_path, monkeypatch):
    """The value that tells curves apart is at the end of a long name."""
    run = fake_run(tmp_path, metrics=linear())
    comparison = compare([run, fake_run(tmp_path, "num_envs=7", metrics=linear())])
    labels = [f"{LONG}, and at last {end}" for end in ("learning", "frozen")]
    figure = drawn(monkeypatch, comparison.relabelled(labels), tmp_path)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert box.y0 >= 0
    assert legend.get_texts()[1].get_text().endswith("frozen")
    height = figure.axes[0].get_window_extent().height
    assert height > 0.6 * 4.2 * figure.dpi  # the axes keep their size


def test_title_and_labels_are_the_users(tmp_path, paxrun):
    for number in (8, 7):
        fake_run(tmp_path / "exp", f"num_envs={number}", metrics=linear())
    line = ("plot", str(tmp_path / "exp"), "--out", str(tmp_path / "curves.pdf"))
    named = ("--title", "Mine", "--label", "many", "--label", "few")
    assert paxrun(*line, *named).exit_code == 0
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")
    few = paxrun(*line, "--label", "many")
    assert few.exit_code == 2
    assert "1 label for 2 curves" in few.stderr
    assert "num_envs=8; num_envs=7" in few.stderr


def test_an_unknown_kind_of_picture_is_refused_before_it_is_drawn(tmp_path, paxrun):
    run = fake_run(tmp_path, metrics=linear())
    result = paxrun("plot", str(run.path), "--out", str(tmp_path / "curves.doc"))
    assert result.exit_code == 2
    assert "must end in .png, .pdf, .svg" in result.stderr


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("train/player_1/loss/policy", "loss policy of player 1 (training)"),
        ("env/cooperation_rate/player_2", "cooperation rate of player 2"),
        (
            "env/cooperation_probability/player_2/CD",
            "cooperation probability of player 2 in CD",
        ),
        (
            "eval/sampled/episode/reward_per_step/player_1",
            "reward per step of player 1 (evaluation, sampled actions)",
        ),
        ("eval/mean_reward", "mean return of an episode (evaluation)"),
        ("fitness/best", "fitness best"),
        ("mine", "mine"),
    ],
)
def test_a_metric_has_a_name_in_words(metric, expected):
    assert words(metric) == expected
