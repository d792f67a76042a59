"""A run that was stopped and resumed is the run that was not, bit for bit."""

import json
import os
import signal
import subprocess
import sys

import bits
import numpy as np
import pytest

from runners.config import ConfigError, load
from runners.launch import Observer, resume_plan, run_plan
from runners.planning.plan import prepare
from runners.session.resuming import opened, plan_of_run, start
from runners.session.training import program_of
from runners.storage.checkpoints.store import CheckpointStore
from runners.storage.jsonl import read_rows
from runners.storage.run_dir import RunDir

SMALL = ("num_seeds=1", "agent1.hidden_sizes=[8]", "agent1.num_minibatches=2")
#: Twenty iterations each.
RUNS = {
    "PPO": (
        *("runner=sarl", "env=CartPole", "agent1=PPO", "num_envs=4", *SMALL),
        *("agent1.n_steps=16", "total_timesteps=1280", "agent1.learning_rate_end=0"),
    ),
    "RecurrentPPO": (
        *("runner=rl", "env=IPD", "env.num_inner_steps=5", "num_envs=4", *SMALL),
        *("agent1=RecurrentPPO", "agent1.entropy_coeff_end=0.0", "num_seeds=2"),
        *("agent2=Tabular", "agent2.num_minibatches=2", "total_timesteps=400"),
    ),
    "LOLAExact": (
        *("runner=rl", "env=InfiniteMatrixGame", "env.num_inner_steps=1"),
        *("agent1=LOLAExact", "agent2=NaiveExact", "num_envs=1", "num_seeds=2"),
        "total_timesteps=20",
    ),
    "evolution": (
        *("runner=evo", "env=IPD", "env.num_inner_steps=4", "num_outer_steps=2"),
        *("agent1=PPO", "agent1.hidden_sizes=[4]", "agent2=Tabular", "num_envs=2"),
        *("agent2.num_minibatches=2", "num_seeds=2", "popsize=4", "top_k=2"),
        *("num_generations=20", "es.sigma_decay=0.9", "eval_interval=640"),
    ),
    "evolution with interventions": (
        *("runner=evo", "env=IteratedTensorGame", "env.num_inner_steps=4"),
        *("num_outer_steps=3", "num_envs=2", "num_opponents=2", "num_seeds=2"),
        "agent1={name: Naive, es: {}, show_payoff: true, blind_games: 1}",
        "agent2={name: Naive, es: {strategy: CMA_ES}, show_payoff: true}",
        "agent3={name: Naive, show_payoff: true, stop_after: uniform}",
        "agent3.sample={learning_rate: {log_uniform: [0.01, 1]}}",
        "payoff_sampler={kind: noise, low: -1, high: 1}",
        *("shuffle_players=true", "popsize=4", "top_k=2", "num_generations=20"),
        "eval_interval=1920",
    ),
}


class StopsAt(Observer):
    """Presses Ctrl-C after a number of iterations."""

    def __init__(self, iteration):
        self.iteration = iteration

    def on_chunk(self, chunk):
        if chunk.last >= self.iteration:
            signal.raise_signal(signal.SIGINT)


def plan_of(name, tmp_path, *words):
    folder = f"save_dir={tmp_path}"
    return prepare(load([*RUNS[name], "chunk_size=1", folder, *words]))


def make_run(plan):
    return lambda: RunDir.create(plan.config, [])


def saved_state(plan, run_dir):
    with CheckpointStore(run_dir.checkpoints) as store:
        return store.restore(program_of(plan).state)


def rows_without_times(path):
    return [
        {k: v for k, v in row.items() if not k.startswith("time/")}
        for row in read_rows(path)
    ]


def assert_same_runs(plan, straight, resumed):
    (one, meta), (other, _) = saved_state(plan, straight), saved_state(plan, resumed)
    assert meta["iteration"] == 20
    bits.assert_same(one, other)
    for name in ("metrics", "eval_metrics"):
        rows = [rows_without_times(getattr(run, name)) for run in (straight, resumed)]
        np.testing.assert_equal(rows[0], rows[1])
    results = [json.loads(run.results.read_text()) for run in (straight, resumed)]
    for part in ("metrics", "best_members"):
        assert results[0][part] == results[1][part]


#: Runs until it is killed after thirteen iterations, and has a checkpoint after ten.
KILLED = """
import os, signal, sys, time
from pathlib import Path

from runners.cli import cli
from runners.cli.progress import ProgressObserver

def on_chunk(self, chunk):
    if chunk.last == 13:
        # It is written in the background.
        while not list(Path(sys.argv[-1], "checkpoints").glob("step_*")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

ProgressObserver.on_chunk = on_chunk
cli(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_ten_updates_and_ten_more_are_twenty(name, tmp_path):
    """Parameters, optimiser, schedules, keys, games, metrics."""
    plan = plan_of(name, tmp_path / "straight")
    _, straight = run_plan(plan, make_run(plan))
    stopped = plan_of(name, tmp_path / "resumed")
    outcome, run_dir = run_plan(stopped, make_run(stopped), StopsAt(10))
    assert (outcome.interrupted, outcome.num_iterations) == (True, 10)
    again, run_dir = plan_of_run(run_dir.path)
    outcome, _ = resume_plan(again, run_dir)
    assert not outcome.interrupted
    assert_same_runs(plan, straight, run_dir)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PPO", "LOLAExact"])
def test_a_killed_run_goes_on_in_a_new_process(name, tmp_path, monkeypatch, paxrun):
    """After kill -9 the rows beyond the last checkpoint are written again.

    `test_faults` kills the other commands; what a checkpoint holds of every agent is
    seen above.
    """
    plan = plan_of(name, tmp_path / "straight")
    _, straight = run_plan(plan, make_run(plan))
    save_every = 10 * plan.steps_per_iteration
    words = [*RUNS[name], "chunk_size=1", f"checkpoint_interval={save_every}"]
    killed = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, "run", *words, "--save-dir", str(killed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    monkeypatch.chdir(tmp_path)
    resumed = paxrun("resume", "killed")
    assert resumed.exit_code == 0, resumed.stderr
    assert_same_runs(plan, straight, RunDir.open(killed))


@pytest.mark.slow
def test_a_run_is_found_from_its_folders_and_relative_paths(tmp_path, monkeypatch):
    """The run directory, its checkpoints, one of them; not an empty one."""
    monkeypatch.chdir(tmp_path)
    plan = prepare(load([*RUNS["PPO"], "save_dir=runs/a"]))
    run_plan(plan, make_run(plan), StopsAt(1))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (checkpoint,) = (tmp_path / "runs" / "a" / "checkpoints").glob("step_*")
    for path in ("../runs/a", "../runs/a/checkpoints", checkpoint):
        _, found = plan_of_run(path)
        assert found.path.resolve() == tmp_path / "runs" / "a"
        assert found.read_meta()["status"] == "interrupted"
    with pytest.raises(ValueError, match="no checkpoint at all"):
        plan_of_run(elsewhere)


@pytest.mark.slow
def test_a_finished_run_is_left_alone(tmp_path, paxrun):
    plan = plan_of("PPO", tmp_path / "run")
    _, run_dir = run_plan(plan, make_run(plan))
    before = run_dir.metrics.read_text()
    with pytest.raises(ConfigError, match="has finished: nothing is left to do"):
        resume_plan(*plan_of_run(run_dir.path))
    result = paxrun("resume", str(run_dir.path))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing is left to do" in result.stderr
    assert run_dir.metrics.read_text() == before


def test_a_digit_that_is_no_number_is_no_step(tmp_path, paxrun):
    plan = plan_of("PPO", tmp_path / "run")
    _, run_dir = run_plan(plan, make_run(plan), StopsAt(1))
    result = paxrun("resume", str(run_dir.path), "--from", "\u00b2")
    assert result.exit_code == 2
    assert "no checkpoint" in result.stderr


def test_a_save_dir_begins_goes_on_or_is_overwritten_as_asked(tmp_path):
    plan = plan_of("PPO", tmp_path / "run")
    config = plan.config
    assert start(config, resume=True, overwrite=False) is None
    _, run_dir = run_plan(plan, make_run(plan), StopsAt(1))
    found = start(config, resume=True, overwrite=False)
    assert found is not None
    assert found.path == run_dir.path
    with pytest.raises(ConfigError, match="not empty: name another save_dir"):
        opened(config, [], overwrite=False)
    (run_dir.path / "old").touch()
    assert start(config, resume=False, overwrite=True) is None
    opened(config, [], overwrite=True)
    assert not (run_dir.path / "old").exists()
    with pytest.raises(ConfigError, match="exclude each other"):
        start(config, resume=True, overwrite=True)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="not a run directory"):
        opened(plan_of("PPO", foreign).config, [], overwrite=True)
    assert (foreign / "thesis.tex").exists()


def test_sigterm_leaves_a_checkpoint_too(tmp_path):

    class Terminated(Observer):
        def on_chunk(self, chunk):
            os.kill(os.getpid(), signal.SIGTERM)

    plan = plan_of("PPO", tmp_path / "run")
    outcome, run_dir = run_plan(plan, make_run(plan), Terminated())
    assert outcome.interrupted
    _, meta = saved_state(plan, run_dir)
    assert meta["iteration"] == outcome.num_iterations == 1
