"""What a run logs, keeps and reports."""

import json
import signal

import jax
import numpy as np
import pytest

from runners.config import ConfigError, load
from runners.engine.program import evaluation_keys, run_keys
from runners.launch import Observer, run_plan
from runners.planning.plan import prepare
from runners.session.training import is_due, program_of
from runners.storage.jsonl import read_rows
from runners.storage.run_dir import RunDir

TINY = ("num_envs=4", "num_inner_steps=5")


def plan_of(*words, **options):
    return prepare(load(["ipd/nl_v_tft", *TINY, "num_seeds=1", *words], **options))


@pytest.mark.slow
def test_a_tiny_run_finishes_and_leaves_everything(trained):
    assert trained.code == 0, trained.stderr
    names = {
        str(path.relative_to(trained.path))
        for path in trained.path.rglob("*")
        if path.is_file()
    }
    (events,) = (name for name in names if name.startswith("tb/"))
    saved = {name for name in names if name.startswith("checkpoints/step_400/")}
    assert saved
    names -= {events, *saved}
    assert names == {
        "config.yaml",
        "overrides.txt",
        "meta.json",
        "logs/metrics.jsonl",
        "logs/eval.jsonl",
        "models/player1.msgpack",
        "models/player1.json",
        "models/player1_seed1.msgpack",
        "models/player1_seed1.json",
        "artifacts/results.json",
        "artifacts/reward_curve.png",
        "artifacts/cooperation.png",
    }
    assert json.loads((trained.path / "meta.json").read_text())["status"] == "finished"


def test_a_budget_that_is_no_multiple_is_rounded_up_and_said(trained):
    """333 steps over 8 lanes x 10 steps are 4.16 iterations: 5 are run."""
    assert "4.16 iterations" in trained.stderr
    assert "the run has 5 iterations, 400 steps" in trained.stderr
    results = json.loads((trained.path / "artifacts" / "results.json").read_text())
    assert results["iterations"] == 5
    assert results["env_steps_per_seed"] == 400
    assert results["env_steps"] == 800
    assert read_rows(trained.path / "logs" / "metrics.jsonl")[-1]["env_steps"] == 400


def test_a_third_of_an_iteration_more_is_a_whole_one_more():
    """333.33 iterations are 334."""
    plan = plan_of("total_timesteps=6_667")
    assert plan.num_iterations == 334
    assert plan.total_steps == 6_680
    assert plan_of("total_timesteps=6_660").num_iterations == 333
    assert plan_of("total_timesteps=6_660").notices == ()


def test_every_iteration_and_seed_has_a_row_that_counts_all_lanes(trained):
    """8 lanes that end on one step are 8 episodes in one mean."""
    rows = read_rows(trained.path / "logs" / "metrics.jsonl")
    assert [(row["iteration"], row["seed"]) for row in rows] == [
        (i, s) for i in range(1, 6) for s in range(2)
    ]
    assert {row["episode/count"] for row in rows} == {8.0}
    for row in rows:
        total = row["episode/return/player_1"] + row["episode/return/player_2"]
        assert row["episode/welfare"] == pytest.approx(total, rel=1e-5)
        assert row["episode/return/player_1"] == pytest.approx(
            10 * row["episode/reward_per_step/player_1"], rel=1e-5
        )


@pytest.mark.slow
def test_a_row_is_about_all_iterations_since_the_last_one(trained, paxrun, tmp_path):
    """As many games of as many steps each: joined means are means of means."""
    result = paxrun(
        *("rl", "ipd/nl_v_tft", "num_envs=8", "num_inner_steps=10", "num_seeds=2"),
        *("--total-timesteps", "333", "log_interval=160", "--exp-dir", str(tmp_path)),
    )
    assert result.exit_code == 0
    (path,) = (tmp_path / "ipd" / "nl_v_tft").iterdir()
    every = read_rows(trained.path / "logs" / "metrics.jsonl")
    rows = read_rows(path / "logs" / "metrics.jsonl")
    assert [row["iteration"] for row in rows[::2]] == [2, 4, 5]
    for row in rows[:4]:
        pair = [
            x
            for x in every
            if x["seed"] == row["seed"] and 0 <= row["iteration"] - x["iteration"] < 2
        ]
        assert row["episode/count"] == 16
        for name in (
            *("episode/return/player_1", "episode/reward_per_step/player_2"),
            *("env/cooperation_rate/player_1", "env/state_visitation/player_1/CC"),
        ):
            assert row[name] == pytest.approx(np.mean([x[name] for x in pair]), 1e-5)
        assert row["episode/return_last_100/player_1"] == pytest.approx(
            np.mean(
                [
                    x["episode/return/player_1"]
                    for x in every
                    if x["seed"] == row["seed"] and x["iteration"] <= row["iteration"]
                ]
            ),
            1e-5,
        )


def test_seeds_differ_from_each_other(trained):
    rows = read_rows(trained.path / "logs" / "metrics.jsonl")
    first, second = rows[0], rows[1]
    assert first["episode/return/player_1"] != second["episode/return/player_1"]


@pytest.mark.slow
def test_training_sampled_and_greedy_returns_have_names_of_their_own(trained, paxrun):
    """What was sampled, what was greedy and what was training never mix."""
    results = json.loads((trained.path / "artifacts" / "results.json").read_text())
    assert results["mode"] == "sampled"
    assert all(name.startswith("eval/sampled/") for name in results["metrics"])
    training = read_rows(trained.path / "logs" / "metrics.jsonl")[0]
    assert not any(name.startswith("eval/") for name in training)
    greedy = paxrun(
        *("eval", "--run-dir", str(trained.path), "--deterministic", "--json"),
        *("--exp-dir", str(trained.path.parent / "greedy")),
    )
    assert greedy.exit_code == 0, greedy.stderr
    result = json.loads(greedy.stdout)
    assert result["mode"] == "greedy"
    assert all(name.startswith("eval/greedy/") for name in result["metrics"])
    rates = result["metrics"]["eval/greedy/env/cooperation_probability/player_1/START"]
    assert set(rates["per_seed"]) <= {0.0, 1.0}


def test_results_have_a_mean_and_an_interval_over_the_seeds(trained):
    results = json.loads((trained.path / "artifacts" / "results.json").read_text())
    reward = results["metrics"]["eval/sampled/episode/reward_per_step/player_1"]
    assert reward["count"] == 2
    low, high = reward["ci95"]
    assert low <= reward["mean"] <= high
    assert reward["mean"] == pytest.approx(np.mean(reward["per_seed"]))


def test_the_seed_decides_parameters_and_first_games():
    """Seeds 0 and 1 differ in initial parameters, actions and returns."""
    words = ("total_timesteps=20",)
    first, again, other = (
        program_of(plan_of(*words, f"seed={seed}")) for seed in (0, 0, 1)
    )
    leaves = [
        np.concatenate([x.ravel() for x in jax.tree.leaves(t.state.agents[0].params)])
        for t in (first, again, other)
    ]
    np.testing.assert_array_equal(leaves[0], leaves[1])
    assert np.abs(leaves[0] - leaves[2]).max() > 0.01
    returns = []
    for traced in (first, again, other):
        returns.append(traced.run(1)["episode/return/player_1"].item())
    assert returns[0] == returns[1] != returns[2]


def test_evaluations_never_meet_a_key_of_training():
    training = jax.random.key_data(run_keys(0, 3))
    evaluation = jax.random.key_data(evaluation_keys(0, 3))
    assert not set(map(bytes, np.asarray(training))) & set(
        map(bytes, np.asarray(evaluation))
    )


def test_runs_of_seeds_that_differ_beyond_32_bits_have_keys_of_their_own():
    rows = [jax.random.key_data(run_keys(seed, 1)) for seed in (3, 2**32 + 3)]
    assert rows[0].tolist() != rows[1].tolist()


@pytest.mark.parametrize(
    ("interval", "due"), [(0, [1, 2, 3, 4, 5]), (45, [3, 5]), (20, [1, 2, 3, 4, 5])]
)
def test_rows_are_due_by_environment_steps_and_the_last_always(interval, due):
    # Five iterations of 20 steps: 45 is passed by the third (60), 90 by the fifth.
    plan = plan_of("total_timesteps=100", f"log_interval={interval}")
    assert [i for i in range(1, 6) if is_due(plan, i)] == due


class StopsAfterTheFirstChunk(Observer):
    def on_chunk(self, chunk):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_an_interrupted_run_keeps_its_weights(tmp_path):
    plan = plan_of("total_timesteps=10_000", "chunk_size=2")
    before = signal.getsignal(signal.SIGINT)
    outcome, run_dir = run_plan(
        plan,
        lambda: RunDir.create(load(options={"exp_dir": str(tmp_path)}), []),
        StopsAfterTheFirstChunk(),
    )
    assert outcome.interrupted
    assert outcome.num_iterations == 1
    assert run_dir.read_meta()["status"] == "interrupted"
    assert run_dir.model(1).is_file()
    assert signal.getsignal(signal.SIGINT) is before


class Breaks(Observer):
    def on_chunk(self, chunk):
        raise RuntimeError("broken")


@pytest.mark.slow
def test_a_failed_run_says_so_in_its_folder(tmp_path):
    plan = plan_of("total_timesteps=100")
    made = []

    def make():
        made.append(RunDir.create(load(options={"exp_dir": str(tmp_path)}), []))
        return made[0]

    with pytest.raises(RuntimeError, match="broken"):
        run_plan(plan, make, Breaks())
    assert made[0].read_meta()["status"] == "failed"


def test_a_batch_that_does_not_split_is_refused_before_a_compile(tmp_path):
    """10 lanes x 15 steps in 4 minibatches name both numbers."""
    words = ("agent1=PPO", "agent1.num_minibatches=4", "num_envs=10")
    with pytest.raises(ValueError, match=r"num_minibatches=4 .* 10 games .* 15 steps"):
        plan_of(*words, "num_inner_steps=15")


def test_weights_of_another_network_are_refused(trained, tmp_path):
    plan = plan_of(
        "agent1.hidden_sizes=[3]",
        options={"model_path": str(trained.path / "models" / "player1.msgpack")},
    )
    with pytest.raises(ConfigError, match=r"of Naive, does not fit this Naive: "):
        run_plan(plan, lambda: RunDir(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_weights_of_another_agent_are_refused_also_where_they_would_fit(trained):
    """As `paxrun eval` does; the same shapes do not make the same learner."""
    words = ("agent1=PPO", "agent1.num_minibatches=1", "agent1.shared_torso=true")
    with pytest.raises(
        ConfigError, match=r"^agent1 is PPO \(from 'agent1=PPO'\), but .* holds Naive:"
    ):
        plan_of(*words, options={"model_path": str(trained.path)})


def test_a_run_may_go_on_without_the_weights_that_it_began_with(tmp_path):
    plan = plan_of(options={"model_path": str(tmp_path / "moved.msgpack")})
    assert plan.config.agents[0].model_path is not None


def test_training_goes_on_from_loaded_weights(trained):
    path = str(trained.path / "models" / "player1.msgpack")
    from runners.session.models import load_models

    plan = plan_of("num_seeds=3", options={"model_path": path})
    (state,) = load_models(plan).values()
    leaves = jax.tree.leaves(state.params)
    assert all(x.shape[0] == 3 for x in leaves)
    assert all(np.array_equal(x[0], x[2]) for x in leaves)


def test_a_run_directory_gives_each_seed_its_own_weights(trained):
    from runners.session.models import load_models

    plan = plan_of("num_seeds=3", options={"model_path": str(trained.path)})
    (state,) = load_models(plan).values()
    leaves = jax.tree.leaves(state.params)
    assert all(np.array_equal(x[0], x[2]) for x in leaves)
    assert any(not np.array_equal(x[0], x[1]) for x in leaves)


@pytest.mark.slow
def test_the_best_evaluation_on_the_way_is_kept_and_named(paxrun, tmp_path):
    """Evaluated after 40, 80 and 120 steps: `best` is the checkpoint of the highest."""
    result = paxrun(
        *("run", "ipd/nl_v_tft", *TINY, "num_seeds=1", "total_timesteps=120"),
        *("eval_interval=40", "eval_episodes=8", "plot=false"),
        *("--save-dir", str(tmp_path / "run")),
    )
    assert result.exit_code == 0, result.stderr
    run = RunDir(tmp_path / "run")
    scores = {
        row["env_steps"]: row["eval/sampled/episode/return/player_1"]
        for row in read_rows(run.eval_metrics)[:-1]
    }
    assert list(scores) == [40, 80, 120]
    best = max(scores.values())
    (target,) = {(run.checkpoints / "best").resolve().name}
    assert scores[int(target.removeprefix("step_"))] == best
    assert json.loads(run.results.read_text())["best_score"] == pytest.approx(best)
    assert f"best:    {best:.1f} was the highest return of an episode" in result.stdout
