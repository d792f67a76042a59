"""Stable-Baselines3's PPO against a JAX learner that learns while they play.

Every trial begins with a new naive learner, which updates at the end of each inner
episode, inside `step`. What PPO does early changes whom it plays later.

Needs the extra `sb3` (with a CPU build of Torch before it if there is no GPU).

    python examples/sb3_shaper.py
"""

import argparse

import numpy as np
from stable_baselines3 import PPO

import paxenv
import paxenv_agents

NUM_ENVS, NUM_STEPS, NUM_EPISODES = 16, 16, 16
TRIAL = NUM_STEPS * NUM_EPISODES


def main() -> None:
    """Trains, plays one trial in every lane, and prints both players' rewards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    total_timesteps = 1024 if parser.parse_args().quick else 400_000

    sizes = {"num_inner_steps": NUM_STEPS, "num_outer_steps": NUM_EPISODES}
    game, _ = paxenv.make("IPD-v0", **sizes)
    learner = paxenv_agents.make_agent(
        "Naive", game, player=1, tabular=True, learning_rate=1.0, gamma=0.96
    )
    envs = paxenv.sb3_vec_env(
        "IPD-v0", num_envs=NUM_ENVS, opponent=learner, opponent_learns=True, **sizes
    )
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=64 if total_timesteps == 1024 else TRIAL,
        batch_size=256,
        learning_rate=1e-3,
        gamma=0.999,
        seed=0,
        device="cpu",
    )
    model.learn(total_timesteps)

    obs, rewards = envs.reset(), []
    for _ in range(TRIAL):
        actions, _ = model.predict(obs)
        obs, reward, _, infos = envs.step(actions)
        rewards.append(reward)
    both = np.mean([info["episode_metrics/returns"] for info in infos], axis=0)
    curve = np.mean(rewards, axis=1).reshape(NUM_EPISODES, NUM_STEPS).mean(axis=1)
    print(f"PPO's reward a step, first to last episode: {curve.round(2).tolist()}")
    ours, theirs = both / TRIAL
    print(
        f"after {total_timesteps} steps: {ours:.2f} a step for PPO, {theirs:.2f} for "
        "the learner; -1 is mutual cooperation, -2 mutual defection"
    )


if __name__ == "__main__":
    main()
