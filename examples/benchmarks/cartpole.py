"""Wall-clock seconds to a mean return of 475 on CartPole-v1, ours and SB3's PPO.

Counted from the start of training, compilation included, until the last 100 finished
episodes reach the threshold. SB3 (the extra `sb3`) has the settings of its own zoo.

python examples/benchmarks/cartpole.py
"""

import argparse
import importlib.util
import time

import numpy as np

import paxenv
import runners
from paxenv_agents import PPO, PPOConfig
from runners.engine.program import CompiledProgram, initial_state, run_keys
from runners.session.loop import Interval, Loop, Task

THRESHOLD, WINDOW = 475.0, 100
CONFIG = PPOConfig(
    learning_rate=1e-3,
    n_steps=128,
    gamma=0.99,
    entropy_coeff=0.0,
    shared_torso=False,
)


def ours(seed: int, max_steps: int) -> tuple[float, float, int]:
    """Returns (seconds, seconds of it for the first update, steps)."""
    began = time.perf_counter()
    env, params = paxenv.make("CartPole-v1")
    experiment = runners.Experiment(
        env,
        (runners.Slot(PPO.from_env(env, CONFIG)),),
        num_games=8,
        num_steps=CONFIG.n_steps,
        chunk_size=16,
    )
    program = CompiledProgram(
        experiment, initial_state(experiment, run_keys(seed), params)
    )
    program.run(1)
    first = time.perf_counter() - began
    returns: list[float] = []

    def look(chunk) -> None:
        rows = chunk.rows
        counts = rows["episode/count"][0].astype(int)
        for mean, count in zip(rows["episode/return/player_1"][0], counts, strict=True):
            returns.extend([float(mean)] * count)

    def solved() -> bool:
        return len(returns) >= WINDOW and np.mean(returns[-WINDOW:]) >= THRESHOLD

    loop = Loop(
        program,
        max_steps // experiment.steps_per_iteration,
        on_chunk=(look,),
        tasks=(Task(Interval(4), lambda chunk: None),),
    )
    loop.run(solved)
    return time.perf_counter() - began, first, program.env_steps


def theirs(seed: int, max_steps: int) -> tuple[float, int]:
    """Returns (seconds, steps) of Stable-Baselines3."""
    import torch
    from stable_baselines3 import PPO as TorchPPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Solved(BaseCallback):
        def _on_step(self) -> bool:
            buffer = self.model.ep_info_buffer or []
            returns = [info["r"] for info in buffer]
            return len(returns) < WINDOW or np.mean(returns) < THRESHOLD

    torch.set_num_threads(1)  # the fastest for networks so small
    began = time.perf_counter()
    envs = make_vec_env("CartPole-v1", n_envs=8, seed=seed)
    model = TorchPPO(
        "MlpPolicy",
        envs,
        n_steps=32,
        batch_size=256,
        gae_lambda=0.8,
        gamma=0.98,
        n_epochs=20,
        ent_coef=0.0,
        learning_rate=lambda left: left * 0.001,
        clip_range=lambda left: left * 0.2,
        seed=seed,
        device="cpu",
    )
    model.learn(max_steps, callback=Solved())
    return time.perf_counter() - began, model.num_timesteps


def main() -> None:
    """Prints seconds and steps of every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    options = parser.parse_args()
    with_sb3 = importlib.util.find_spec("stable_baselines3") is not None
    for seed in range(options.seeds):
        seconds, first, steps = ours(seed, options.max_steps)
        print(
            f"seed {seed}: paxenv {seconds:6.1f} s, {first:.1f} s of it to the first "
            f"update, {steps:>7,} steps",
            flush=True,
        )
        if with_sb3:
            seconds, steps = theirs(seed, options.max_steps)
            print(f"seed {seed}: SB3 {seconds:6.1f} s, {steps:>7,} steps", flush=True)
    if not with_sb3:
        print("SB3 is not installed: pip install 'paxenv[sb3]' adds it")


if __name__ == "__main__":
    main()
