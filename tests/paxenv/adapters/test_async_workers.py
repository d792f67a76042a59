"""Worker processes: spawned ones run, forked ones are refused at once."""

import subprocess
import sys

import pytest

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
    """A49: JAX would hang in them."""
    done = run("fork", tmp_path, timeout=60)
    assert done.returncode != 0
    assert "completed" not in done.stdout
    assert 'context="spawn"' in done.stderr


@pytest.mark.slow
def test_spawned_workers_complete(tmp_path) -> None:
    """A49: 200 steps."""
    done = run("spawn", tmp_path, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "completed"
