"""The smallest outer loop: train, then evaluate."""

from typing import Any

import numpy as np

from runners.outer_loops.outer_runner import OuterRunner, Results


class OnlineRunner(OuterRunner):
    """Trains an agent for `config.num_steps` environment steps and evaluates it.

    Every `run` trains that much more. Only a run that was cut off and goes on from a
    snapshot counts what it has done before.

    Example:
        >>> runner = OnlineRunner("PPO", "CartPole-v1", config=OuterConfig(num_envs=8))
        >>> train_results, eval_results = runner.run()
    """

    def run(self) -> Results:
        """Returns (training results, evaluation results)."""
        self.turn.begin(self.agent.env_steps)
        left = self.turn.left(self.config.num_steps, self.agent.env_steps)
        return self.train(left), self.evaluate()

    def snapshot(self) -> Any:
        return {**super().snapshot(), "turn": np.int64(self.turn.began)}

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot)
        self.turn.resume(int(snapshot["turn"]))
