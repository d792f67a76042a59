"""A job that is run twice gives the same bits, each time in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

#: Fifty updates by matrix products and minibatches; a digest of all that comes out.
TRAINING = """
import hashlib, json, jax, numpy as np
import paxenv, runners
from paxenv_agents.learners.ppo import PPOConfig

if jax.default_backend() == "cpu" and {accelerated}:
    print(json.dumps(None))
    raise SystemExit
env, params = paxenv.make("CartPole-v1")
state, history = runners.train_ppo(
    env, params, ppo_config=PPOConfig(n_steps=32, hidden_sizes=(128, 128)),
    runner_config=runners.RunnerConfig(
        total_timesteps=50 * 32 * 64, num_envs=64, eval_every=10**9, plot=False))
trained = (state.agent_state.params, state.agent_state.opt_state, history)
digest = hashlib.sha256()
for leaf in jax.tree.leaves(trained):
    digest.update(np.asarray(leaf).tobytes())
print(json.dumps([len(history.total_loss), digest.hexdigest()]))
"""


def train(accelerated, **environment):
    """Returns (updates, digest), None where there is no accelerator."""
    done = subprocess.run(
        [sys.executable, "-c", TRAINING.format(accelerated=accelerated)],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            # Each process compiles, and so chooses its kernels, for itself.
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_cpu_repeats_fifty_updates_bit_for_bit():
    """As users run it, without a flag."""
    one, other = (train(False, XLA_FLAGS="", JAX_PLATFORMS="cpu") for _ in range(2))
    assert one[0] == 50
    assert one == other


@pytest.mark.gpu
def test_a_gpu_repeats_fifty_updates_bit_for_bit_under_the_documented_flag(root):
    """The flag is the one that docs/devices.md names."""
    flag = "--xla_gpu_deterministic_ops=true"
    assert f"XLA_FLAGS={flag}" in (root / "docs/devices.md").read_text()
    one, other = (train(True, XLA_FLAGS=flag, JAX_PLATFORMS="") for _ in range(2))
    if one is None:
        pytest.skip("needs an accelerator")
    assert one[0] == 50
    assert one == other
