"""Loops one level above training: train and evaluate, a curriculum, a search.

Each runner wraps an agent and a game, and its `run()` returns two dicts. The search
looks for the learning rate and the entropy weight with which PPO learns to balance a
pole in a small budget.

    python examples/outer_loop.py
"""

import argparse
from typing import Any

from runners import (
    ESConfig,
    ESRunner,
    OnlineRunner,
    OuterConfig,
    OuterRunner,
    SearchDim,
)


class Curriculum(OuterRunner):
    """Trains in one gravity after another."""

    def run(self):
        """Returns (training results, evaluation results)."""
        for gravity in (5.0, 9.8):
            self.agent.set_hyperparam("env.gravity", gravity)
            train_results = self.train(self.config.num_steps // 2)
        return train_results, self.evaluate()


def main() -> None:
    """Runs all three and prints what the agents are worth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    quick = parser.parse_args().quick
    steps = 2_048 if quick else 20_480
    common: dict[str, Any] = {"num_envs": 8, "eval_episodes": 4 if quick else 64}

    config = OuterConfig(num_steps=steps, **common)
    for runner in (OnlineRunner, Curriculum):
        train, found = runner("PPO", "CartPole-v1", config=config).run()
        print(
            f"{runner.__name__}: {train['env_step']:,} steps, mean return "
            f"{found['mean_eval_reward']:.1f}"
        )
    search = ESConfig(
        search_targets=(
            "learning_rate",
            SearchDim("entropy_coeff", 1e-4, 1e-1, "log"),
        ),
        population_size=4 if quick else 8,
        iterations=1 if quick else 6,
        num_steps_per_iteration=steps,
        **common,
    )
    train, found = ESRunner("PPO", "CartPole-v1", config=search).run()
    values = ", ".join(f"{k} {v:.2g}" for k, v in train["best"]["values"].items())
    print(
        f"ESRunner: {values}; trained again with these, mean return "
        f"{found['retrained']['mean_eval_reward']:.1f}"
    )


if __name__ == "__main__":
    main()
