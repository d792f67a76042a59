"""Rewards by inner episode of an evaluation in which co-players learn."""

import json
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

from paxenv_agents.engine.episodes import Episodes
from runners.cli import cli
from runners.engine.rows import by_inner_episode, last_inner_episode
from runners.engine.statistics import confidence_band, curves_as_dict
from runners.report import figures, plots


def episodes(returns, length):
    zeros = jnp.zeros(length.shape)
    return Episodes(
        *(jnp.ones_like(length), jnp.zeros_like(length), length),
        *(returns, returns, returns, zeros, zeros, {}, {}),
    )


def test_games_count_by_their_steps():
    """Opponent 0: (4 + 2) / (4 + 2) and (0 + 3) / (1 + 2) for player 1."""
    returns = jnp.array([[[[4.0, 0.0], [2.0, 1.0]], [[0.0, 1.0], [3.0, 2.0]]]])
    length = jnp.array([[[4, 2], [1, 2]]])
    found = episodes(returns, length)
    by_episode = by_inner_episode(found)
    np.testing.assert_allclose(by_episode, [[[1.0, 1 / 6], [1.0, 1.0]]], rtol=1e-6)
    last = last_inner_episode(found)
    assert float(last["episode/reward_per_step_last/player_1"]) == 1.0


def test_quartiles_are_over_seeds_and_opponents():
    every = np.arange(10.0).reshape(2, 5, 1, 1)
    found = curves_as_dict(every)["player_1"]
    assert found["mean"] == [4.5]
    assert found["quartiles"] == [[2.25], [6.75]]


def test_the_mean_of_several_seeds_has_the_interval_over_seeds():
    """Two seeds of means 1 and 2: 1.5 +- t(1) 0.7071 / sqrt(2)."""
    every = np.array([[0.0, 2.0], [2.0, 2.0]]).reshape(2, 2, 1, 1)
    found = curves_as_dict(every)["player_1"]
    assert found["mean"] == [1.5]
    low, high = (bound[0] for bound in found["ci95"])
    assert (low, high) == (
        pytest.approx(1.5 - 12.7062 * 0.5, abs=1e-3),
        pytest.approx(1.5 + 12.7062 * 0.5, abs=1e-3),
    )


def test_a_seed_that_diverged_is_not_in_the_mean_and_all_of_them_give_none():
    every = np.array([[np.nan], [1.0], [3.0]]).reshape(3, 1, 1, 1)
    assert curves_as_dict(every)["player_1"]["mean"] == [2.0]
    assert curves_as_dict(every[:1]) == {"player_1": None}


def test_a_drawn_mean_lies_within_its_own_band(tmp_path, monkeypatch):
    """One odd opponent of sixteen moves a mean out of the middle half."""
    drawn = []
    monkeypatch.setattr(figures, "draw_curve", lambda *args: drawn.append(args))
    plan = SimpleNamespace(names=("Shaper",), mode="sampled", title="IPD")
    every = np.zeros((1, 16, 3, 1))
    every[0, 0] = -100.0
    plots.inner_episodes(every, plan, tmp_path / "picture.png")  # pyright: ignore
    ((_, _, x, values, label),) = drawn
    assert x.tolist() == [1, 2, 3]
    assert values.shape == (16, 3)
    assert label == "player 1 (Shaper)"
    mean, half = confidence_band(values)
    assert mean.tolist() == [-6.25] * 3
    np.testing.assert_allclose(half, [2.1314 * 25 / 4] * 3, rtol=1e-4)
    assert (tmp_path / "picture.png").is_file()


@pytest.mark.slow
def test_an_evaluation_shows_how_a_learner_comes_round(tmp_path):
    """Against AllC a naive learner begins at half of -1 and learns to defect."""
    learner = "agent2={name: Naive, learning_rate: 0.5, clock: inner, reset: trial}"
    words = ["eval", "--agent1", "AllC", learner, "num_inner_steps=20"]
    words += ["num_outer_steps=12", "num_opponents=4", "num_seeds=4", "num_envs=16"]
    words += ["--save-dir", str(tmp_path / "run"), "--json"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    mean = found["inner_episodes"]["player_2"]["mean"]
    assert len(mean) == 12
    assert mean[0] == pytest.approx(-0.5, abs=0.1)
    assert mean[-1] > -0.05
    last = found["metrics"]["eval/sampled/episode/reward_per_step_last/player_2"]
    assert last["mean"] == pytest.approx(mean[-1], abs=1e-5)
    assert last["failed_seeds"] == []
    assert last["iqm_ci95"][0] <= last["iqm"] <= last["iqm_ci95"][1]
    assert (tmp_path / "run/artifacts/inner_episodes.png").stat().st_size > 1000
