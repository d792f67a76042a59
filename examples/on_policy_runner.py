"""Trains PPO on CartPole by OnPolicyRunner: callbacks, checkpoints, evaluation.

    python examples/on_policy_runner.py [--quick]

Files are written to a temporary folder.
"""

import argparse
import tempfile

from paxenv_agents import PPOConfig
from paxenv_agents.networks import MLPActor, MLPCritic
from runners import OnPolicyRunner


def report(runner: OnPolicyRunner, stats: dict[str, float]) -> None:
    """Prints a line; called after every 10th iteration."""
    length = stats.get("episode/mean_length")
    upright = "no episode ended" if length is None else f"{length:.1f} steps upright"
    print(f"iteration {runner.iteration}: {upright}, KL {stats['train/approx_kl']:.4f}")


def main(total_timesteps: int, folder: str) -> None:
    with OnPolicyRunner(
        "CartPole-v1",
        algorithm="ppo",
        actor_class=MLPActor,
        critic_class=MLPCritic,
        actor_cfg={"hidden_dims": [64, 64]},
        critic_cfg={"hidden_dims": [64, 64]},
        log_dir=folder,
        cfg=PPOConfig(learning_rate=2.5e-3, n_steps=32),
        num_envs=16,
    ) as runner:
        runner.add_callback("post_iteration", report, every=10)
        runner.learn(total_timesteps=total_timesteps)
        runner.load_checkpoint("checkpoint_final.pt")
        stats = runner.eval(num_episodes=20)
    print(
        f"20 greedy episodes: mean {stats['eval/mean_reward']:.1f}, lowest "
        f"{stats['eval/min_reward']:.0f}, highest {stats['eval/max_reward']:.0f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        main(5_120 if arguments.quick else 100_000, folder)
