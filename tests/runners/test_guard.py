"""A run that diverges says so, and says when."""

import json

import pytest

from runners.config import load
from runners.launch import run_plan
from runners.planning.plan import prepare
from runners.session.loop import NonFiniteError
from runners.storage.jsonl import read_rows
from runners.storage.run_dir import RunDir

DIVERGES = (
    *("runner=sarl", "env=CartPole", "agent1=PPO", "num_envs=4", "num_seeds=1"),
    *("agent1.hidden_sizes=[8]", "agent1.num_minibatches=2", "agent1.n_steps=16"),
    *("agent1.learning_rate=1e30", "total_timesteps=320"),
)


@pytest.mark.slow
def test_a_diverged_run_fails_and_names_its_first_bad_update(tmp_path):
    plan = prepare(load([*DIVERGES, f"save_dir={tmp_path / 'run'}"]))
    made = []

    def make():
        made.append(RunDir.create(plan.config, []))
        return made[0]

    with pytest.raises(NonFiniteError, match=r"update 1 \(seed index 0, 64 env"):
        run_plan(plan, make)
    (run_dir,) = made
    assert run_dir.read_meta()["status"] == "failed"
    first = read_rows(run_dir.metrics)[0]
    assert first["health/finite"] == 0.0
    assert not list(run_dir.path.glob("checkpoints/step_*"))


def test_the_command_line_exits_with_1_and_without_a_traceback(tmp_path, paxrun):
    result = paxrun("run", *DIVERGES, "--save-dir", str(tmp_path / "run"))
    assert result.exit_code == 1
    assert "update 1 " in result.stderr
    assert "non_finite=continue" in result.stderr
    assert "in a search by evolution a smaller es.sigma_init" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_by_option_it_goes_on_with_a_loud_flag_and_reports_no_play(tmp_path, paxrun):
    words = (*DIVERGES, "non_finite=continue", "--save-dir", str(tmp_path / "run"))
    result = paxrun("run", *words, "--json")
    assert result.exit_code == 0, result.stderr
    assert "WARNING: from update 1 on" in result.stderr
    results = json.loads(result.stdout)
    assert results["first_non_finite"] == 1
    returns = results["metrics"]["eval/sampled/episode/return/player_1"]
    assert (returns["mean"], returns["count"]) == (None, 0)
