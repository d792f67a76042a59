"""One seat of a game as a Gymnasium environment, and many of them at once.

python examples/gymnasium_env.py
"""

import argparse

import gymnasium
import numpy as np

import paxenv


def play_one(num_episodes: int) -> float:
    """Cooperates with TitForTat in a single environment; returns the mean return."""
    env = gymnasium.make("pax/IPD-v0", opponent="TitForTat", num_inner_steps=10)
    returns = []
    for episode in range(num_episodes):
        env.reset(seed=0 if episode == 0 else None)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(paxenv.COOPERATE)
            total, over = total + reward, terminated or truncated
        returns.append(total)
    env.close()
    return float(np.mean(returns))


def play_many(num_envs: int, num_steps: int) -> float:
    """Acts at random in the coin game, batched; returns the mean reward of a step."""
    envs = gymnasium.make_vec("pax/CoinGame-v0", num_envs=num_envs)
    envs.action_space.seed(0)
    envs.reset(seed=0)
    total = 0.0
    for _ in range(num_steps):
        actions = envs.action_space.sample()
        _, rewards, _, _, _ = envs.step(actions)  # lanes start again by themselves
        total += rewards.mean()
    envs.close()
    return total / num_steps


def main() -> None:
    """Runs both and prints what they return."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    quick = parser.parse_args().quick

    num_episodes = 2 if quick else 10
    print(
        f"Cooperating with TitForTat: {play_one(num_episodes):g} in 10 steps, "
        f"over {num_episodes} episodes"
    )
    num_envs, num_steps = (4, 20) if quick else (256, 1000)
    print(
        f"Acting at random in {num_envs} coin games: "
        f"{play_many(num_envs, num_steps):.3f} a step, over {num_steps} steps"
    )


if __name__ == "__main__":
    main()
