"""Worker processes: spawned ones run, forked ones are refused at once."""

import copy
import pickle
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

import paxenv
from paxenv.adapters import forking

PROGRAM = """
import gymnasium, jax, paxenv
if __name__ == "__main__":
    jax.numpy.ones(3).sum()
    envs = gymnasium.make_vec(
        "pax/IPD-v0",
        num_envs=4,
        vectorization_mode="async",
        vector_kwargs={{"context": {context!r}}},
    )
    envs.reset(seed=0)
    for _ in range(200):
        envs.step(envs.action_space.sample())
    envs.close()
    print("completed")
"""


def run(context: str | None, tmp_path, timeout: float) -> subprocess.CompletedProcess:
    script = tmp_path / "async_program.py"
    script.write_text(PROGRAM.format(context=context))
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_forked_workers_are_refused_at_once_with_advice(tmp_path) -> None:
    """JAX would hang in them."""
    done = run("fork", tmp_path, timeout=600)
    assert done.returncode != 0
    assert "completed" not in done.stdout
    assert 'context="spawn"' in done.stderr


@pytest.mark.slow
def test_spawned_workers_complete(tmp_path) -> None:
    """200 steps."""
    done = run("spawn", tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "completed"


def single() -> Any:
    return gymnasium.make("pax/IPD-v0", opponent="AllC").unwrapped


def many() -> Any:
    return gymnasium.make_vec("pax/IPD-v0", num_envs=2, opponent="AllC")


def parallel() -> Any:
    return paxenv.parallel_env("IPD")


CARRIED = [
    (single, 0),
    (many, np.zeros(2, int)),
    (parallel, {"player_0": 0, "player_1": 0}),
]


@pytest.mark.parametrize(("make", "action"), CARRIED)
def test_an_environment_carried_into_a_forked_process_is_refused(
    make: Any, action: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether memory or a pickle carried it; before JAX is asked for anything."""
    env = make()
    env.reset(seed=0)
    kept = pickle.dumps(env)
    monkeypatch.setattr(forking, "_forked_from_jax", True)
    monkeypatch.setattr("jax.numpy.asarray", None)
    for use in (
        env.reset,
        lambda: env.step(action),
        env.render,
        lambda: pickle.loads(kept),
        lambda: copy.deepcopy(env),
    ):
        with pytest.raises(RuntimeError, match=r"spawn.*one process.*num_cpus=1"):
            use()
    env.close()
