"""SuperSuit's bridge from a parallel environment to Stable-Baselines3."""

import subprocess
import sys

import pytest
import supersuit
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import paxenv

pytestmark = pytest.mark.sb3
torch.set_num_threads(1)

WORKERS = """
import paxenv, supersuit
if __name__ == "__main__":
    env = paxenv.parallel_env("IPD", max_cycles=8)
    venv = supersuit.pettingzoo_env_to_vec_env_v1(env)
    supersuit.concat_vec_envs_v1(venv, 4, num_cpus=2).reset(seed=0)
"""


def test_supersuit_bridges_the_parallel_environment() -> None:
    """4 copies of 2 agents are 8 lanes; episodes are as long as the horizon."""
    env = paxenv.parallel_env("IPD", max_cycles=16)
    venv = supersuit.concat_vec_envs_v1(
        supersuit.pettingzoo_env_to_vec_env_v1(env),
        4,
        base_class="stable_baselines3",
    )
    assert venv.num_envs == 8
    monitored = VecMonitor(venv)
    model = PPO("MlpPolicy", monitored, n_steps=64, batch_size=64, device="cpu")
    model.learn(2_048)
    assert model.num_timesteps >= 2_048
    lengths = {episode["l"] for episode in model.ep_info_buffer}
    assert lengths == {16}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are spawned")
def test_its_forked_workers_are_refused_with_the_cure(tmp_path) -> None:
    """They unpickle copies of the environment, where JAX would hang."""
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "concat_vec_envs_v1 does so with num_cpus=1" in done.stderr
