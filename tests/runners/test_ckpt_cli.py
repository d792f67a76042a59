"""`paxrun ckpt`: checkpoints from the command line."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv_agents import weights
from runners.config import as_dict, load
from runners.planning.plan import prepare
from runners.storage.checkpoints.store import CheckpointStore
from runners.storage.run_dir import RunDir


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two seeds with steps 10 (the best) and 20, and its training states."""
    exp_dir = tmp_path_factory.mktemp("exp")
    words = ["ipd/ppo_v_tft", "num_envs=8", "num_seeds=2", f"exp_dir={exp_dir}"]
    config = load(words)
    plan = prepare(config)
    init = jax.jit(jax.vmap(lambda key: plan.experiment.init(key, plan.params)))
    state = init(jax.random.split(jax.random.key(0), 2))
    folder = RunDir.create(config, words)
    with CheckpointStore(folder.path / "checkpoints") as store:
        store.save(10, state, {"config": as_dict(config)}, metric=1.5)
        store.save(20, state, {"note": "without a config", "rows": {}}, metric=0.5)
        store.save_named("final.pt", state, {"env_steps": 20})
    return folder.path, state


def test_ls_shows_every_checkpoint_the_latest_and_the_best(run, paxrun):
    result = paxrun("ckpt", "ls", str(run[0]))
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["checkpoint", "steps", "metric", "size"]
    assert [(line[0], line[1], line[-1]) for line in lines[1:3]] == [
        ("step_10", "10", "best"),
        ("step_20", "20", "latest"),
    ]
    assert lines[3][:2] == ["named/final.pt", "20"]


def test_ls_as_json(run, paxrun):
    rows = json.loads(paxrun("ckpt", "ls", str(run[0]), "--json").stdout)
    found = [(row["checkpoint"], row["metric"], row["marks"]) for row in rows]
    assert found == [
        ("step_10", 1.5, ["best"]),
        ("step_20", 0.5, ["latest"]),
        ("named/final.pt", None, []),
    ]
    assert all(row["bytes"] > 0 for row in rows)


def test_inspect_shows_every_entry_and_the_meta(run, paxrun):
    out = paxrun("ckpt", "inspect", str(run[0])).stdout
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.split()}
    assert rows["key"] == ["key", "2", "key<fry>", "16", "B"]
    payoff = rows["params/payoff_matrix"]
    assert payoff[1:] == ["2", "x", "4", "x", "2", "float32", "64", "B"]
    assert "step 20, metric 0.5" in out
    assert '"note": "without a config"' in out
    assert '"rows"' not in out


def test_inspect_takes_a_step_a_name_or_one_checkpoint(run, paxrun):
    folder = str(run[0])
    for words in (
        (folder, "--which", "10"),
        (folder, "--which", "best"),
        (f"{folder}/checkpoints/step_10",),
    ):
        data = json.loads(paxrun("ckpt", "inspect", *words, "--json").stdout)
        assert data["step"] == 10
        assert data["entries"]["iteration"] == [[2], "int32"]


@pytest.mark.parametrize("which", ["10", "20"])
def test_exported_weights_are_an_agent_that_can_play(run, paxrun, tmp_path, which):
    """Step 10 names its config itself, step 20 has that of its run directory."""
    folder, state = run
    out = tmp_path / "player1"
    result = paxrun(
        *("ckpt", "export", str(folder), str(out)),
        *("--which", which, "--seed-index", "1"),
    )
    assert result.exit_code == 0, result.stderr
    env, _ = paxenv.make("IPD")
    _, loaded = weights.load_agent(out, env)
    expected = jax.tree.map(lambda x: x[1], state.outer.agents[0].params)
    jax.tree.map(np.testing.assert_array_equal, loaded.params, expected)
    meta = weights.describe_agent(out)["meta"]
    assert (meta["seed_index"], meta["env_steps"]) == (1, int(which))


def test_exported_weights_start_a_run(run, paxrun, tmp_path):
    out = str(tmp_path / "weights.msgpack")
    assert paxrun("ckpt", "export", str(run[0]), out).exit_code == 0
    result = paxrun("eval", "--model-path", out, "--dry-run")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ls", "nowhere"), "there is no folder"),
        (("ls", "."), "no checkpoint at all in"),
        (("inspect", "{run}/checkpoints/step_10/state"), "is inside one checkpoint"),
        (("inspect", "{run}", "--which", "15"), "no checkpoint of step 15"),
        (("export", "{run}", "w", "--player", "2"), "player 2 is TitForTat"),
        (("export", "{run}", "w", "--player", "3"), "there is no player 3"),
        (("export", "{run}", "w", "--seed-index", "2"), "it holds 2 seeds"),
    ],
)
def test_mistakes_are_one_message(run, paxrun, tmp_path, monkeypatch, words, message):
    """Exit code 2 and no traceback, whatever the level that was given."""
    monkeypatch.chdir(tmp_path)
    result = paxrun("ckpt", *(word.format(run=run[0]) for word in words))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unfinished_save_is_a_note(paxrun, tmp_path):
    """On the error stream, so that the table can be piped."""
    with CheckpointStore(tmp_path) as store:
        store.save(1, {"w": jnp.zeros(2)}, {})
    (tmp_path / "step_2.orbax-checkpoint-tmp").mkdir()
    result = paxrun("ckpt", "ls", str(tmp_path))
    assert result.exit_code == 0
    assert "step_2.orbax-checkpoint-tmp is not used" in result.stderr
    assert "step_2" not in result.stdout


def test_weights_are_not_read_for_a_place_that_cannot_be_written(paxrun, tmp_path):
    (tmp_path / "file").touch()
    result = paxrun("ckpt", "export", str(tmp_path), str(tmp_path / "file" / "w"))
    assert result.exit_code == 2
    assert f"cannot write to the folder {tmp_path / 'file'}" in result.stderr


def test_a_checkpoint_that_belongs_to_no_experiment_is_not_exported(paxrun, tmp_path):
    with CheckpointStore(tmp_path) as store:
        store.save(1, {"w": jnp.zeros(2)}, {})
    result = paxrun("ckpt", "export", str(tmp_path), str(tmp_path / "w"))
    assert result.exit_code == 2
    assert "does not say which agents were trained" in result.stderr
