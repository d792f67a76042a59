"""One forced action, and how the co-players answer it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from paxenv_agents.registry import make_agent
from runners.cli import cli
from runners.config import ConfigError, load
from runners.planning.plan import prepare
from runners.session.probe import Probed, Response, probe


def respond(*agents, window=3, at=5, player=1, action=1, **options):
    words = [f"agent{i}={name}" for i, name in enumerate(agents, start=1)]
    given = {"runner": "eval", "num_envs": 4, "num_inner_steps": 20, **options}
    plan = prepare(load(words, options=given))
    return probe(plan, player=player, at=at, action=action, window=window)


def test_titfortat_hands_a_defection_back_and_forth():
    response = respond("TitForTat", "TitForTat")
    assert response.offsets.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert response.forced[0, :, 0].tolist() == [1, 1, 1, 0, 1, 0, 1]
    assert response.forced[0, :, 1].tolist() == [1, 1, 1, 1, 0, 1, 0]
    assert (response.free == 1).all()


def test_an_unforgiving_player_never_cooperates_again():
    response = respond("AllC", "Grim", player=1)
    assert response.forced[0, :, 0].tolist() == [1, 1, 1, 0, 1, 1, 1]
    assert response.forced[0, :, 1].tolist() == [1, 1, 1, 1, 0, 0, 0]


@pytest.mark.slow
def test_a_generous_player_forgives_one_defection_in_three():
    """GTFT cooperates after a defection with probability 1/3; 3 standard errors."""
    response = respond("AllC", "GenerousTitForTat", num_envs=2000, window=1)
    error = 3 * np.sqrt(1 / 3 * 2 / 3 / 2000)
    assert abs(response.forced[0, 2, 1] - 1 / 3) < error


@pytest.mark.slow
def test_play_is_the_same_up_to_the_forced_step():
    response = respond("Random", "Random", num_envs=50)
    np.testing.assert_array_equal(response.forced[:, :3], response.free[:, :3])
    assert (response.forced[:, 3, 0] == 0).all()
    # Nobody listens: the other's play, and what follows, are as they were.
    np.testing.assert_array_equal(response.forced[..., 1], response.free[..., 1])
    np.testing.assert_array_equal(response.forced[:, 4:], response.free[:, 4:])


def test_the_second_player_may_be_forced_and_the_window_ends_with_the_episode():
    response = respond("TitForTat", "AllC", player=2, at=19)
    assert response.offsets.tolist() == [-3, -2, -1, 0]
    assert response.forced[0, :, 1].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"player": 3}, "player must be in 1 to 2"),
        ({"at": 20}, r"the step must be in \[0, 20\)"),
        ({"action": 2}, r"must be in \[0, 2\), got 2"),
        ({"num_outer_steps": 2}, "num_outer_steps=1"),
    ],
)
def test_mistakes_are_named(wrong, said):
    with pytest.raises(ConfigError, match=said):
        respond("TitForTat", "TitForTat", **wrong)


def test_a_box_of_actions_is_refused():
    import paxenv

    env, _ = paxenv.make("InfiniteMatrixGame", num_inner_steps=2)
    with pytest.raises(ValueError, match="discrete games only"):
        Probed.of(make_agent("HyperAltruistic", env), at=0)


def test_the_picture_of_a_runs_agents_lies_in_the_run(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    fake = Response(np.arange(2), np.ones((1, 2, 2)), np.zeros((1, 2, 2)), 1)
    monkeypatch.setattr("runners.session.probe.probe", lambda plan, **_: fake)
    words = ["probe", "--run-dir", str(trained.path), "--at", "1"]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.output
    picture = trained.path / "artifacts/probe.png"
    assert f"picture: {picture}" in shown.output
    picture.unlink()  # others count the pictures of this run
    assert list(tmp_path.iterdir()) == []
    named = CliRunner().invoke(cli, [*words, "--out", "mine.pdf"])
    assert named.exit_code == 0, named.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.pdf"]


def test_the_command_prints_a_table_and_draws(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["probe", "--agent1", "AllC", "--agent2", "TitForTat", "num_inner_steps=12"]
    shown = CliRunner().invoke(cli, [*words, "--window", "1"])
    assert shown.exit_code == 0, shown.output
    assert "0.00 | 1.00" in shown.output
    assert "player 1 is forced at step 10" in " ".join(shown.output.split())
    assert (tmp_path / "probe.png").stat().st_size > 1000
    data = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert data["forced"]["player_2"][data["offsets"].index(1)] == 0.0
    refused = CliRunner().invoke(cli, [*words, "--at", "12"])
    assert refused.exit_code == 2
    alone = CliRunner().invoke(cli, ["probe", "--env", "CartPole", "--dry-run"])
    assert (alone.exit_code, "has one player" in alone.output) == (2, True)
    unseen = CliRunner().invoke(cli, [*words, "--at", "12", "--dry-run"])
    assert unseen.exit_code == 2
