"""Stable-Baselines3's PPO learns to cooperate with TitForTat.

Needs the extra `sb3` (with a CPU build of Torch before it if there is no GPU).

    python examples/sb3_ppo.py
"""

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

import paxenv

NUM_STEPS = 20


def main() -> None:
    """Trains, evaluates, and prints the mean return."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    total_timesteps = 512 if parser.parse_args().quick else 40_000

    envs = paxenv.sb3_vec_env(
        "IPD-v0", num_envs=16, opponent="TitForTat", num_inner_steps=NUM_STEPS
    )
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=32,
        batch_size=128,
        learning_rate=2e-3,
        gamma=0.96,
        ent_coef=0.01,
        seed=0,
        device="cpu",
    )
    model.learn(total_timesteps)
    mean, deviation = evaluate_policy(model, envs, n_eval_episodes=32)
    print(
        f"after {total_timesteps} steps: return {mean:.1f} (sd {deviation:.1f}) "
        f"in {NUM_STEPS} rounds; {-NUM_STEPS} is mutual cooperation, "
        f"{-2 * NUM_STEPS} mutual defection"
    )


if __name__ == "__main__":
    main()
