"""The smallest outer loop: train, then evaluate."""

from runners.outer_loops.outer_runner import OuterRunner, Results


class OnlineRunner(OuterRunner):
    """Trains an agent for `config.num_steps` environment steps and evaluates it.

    Example:
        >>> runner = OnlineRunner("PPO", "CartPole-v1", config=OuterConfig(num_envs=8))
        >>> train_results, eval_results = runner.run()
    """

    def run(self) -> Results:
        """Returns (training results, evaluation results)."""
        left = self.config.num_steps - self.agent.env_steps
        return self.train(max(left, 0)), self.evaluate()
