"""What the functions `train_*` return."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import jax


class PPOTrainState(NamedTuple):
    """Where a PPO training stands; enough to go on.

    Attributes:
        agent_state: The learner's training state.
        env_obs: What the games show, `[num_envs, ...]`.
        env_state: The games' states, leaves `[num_envs, ...]`.
        rng: The key of the outer loop.
    """

    agent_state: Any
    env_obs: Any
    env_state: Any
    rng: jax.Array


class PPOMetricsHistory(NamedTuple):
    """Means over each update, float32 `[num_updates]`.

    From several devices `[num_devices, num_updates]`, one row for each.

    Attributes:
        total_loss: What is minimised.
        actor_loss: The policy's part.
        critic_loss: The value's part, before its weight.
        entropy: Of the policy, nats.
        approx_kl: Divergence of the new policy from the one that played, estimated.
    """

    total_loss: jax.Array
    actor_loss: jax.Array
    critic_loss: jax.Array
    entropy: jax.Array
    approx_kl: jax.Array


class _StateAndHistory(NamedTuple):
    state: PPOTrainState
    history: PPOMetricsHistory


class PPOTrainResult(_StateAndHistory):
    """What a PPO training leaves: the pair (state, history), and its log.

    Attributes:
        state: Where the training stands.
        history: Means over each update.
        metrics_log: One dict for each logged row and each evaluation, with its `step`.
    """

    metrics_log: list[dict[str, Any]]

    def __new__(
        cls,
        state: PPOTrainState,
        history: PPOMetricsHistory,
        metrics_log: Sequence[dict[str, Any]] = (),
    ) -> Self:
        """Returns the pair with its log, which takes no part in comparisons."""
        pair = super().__new__(cls, state, history)
        pair.metrics_log = list(metrics_log)
        return pair


class DQNTrainResult(NamedTuple):
    """What a DQN training leaves.

    Attributes:
        agent_state: The learner's training state.
        episode_returns: The return of every finished episode: by iteration, then by
            step, and of games that end together by the number of the game.
        metrics_log: One dict for each logged row and each evaluation, with its `step`.
    """

    agent_state: Any
    episode_returns: list[float]
    metrics_log: list[dict[str, Any]]


class SACTrainResult(NamedTuple):
    """What a SAC training leaves; fields as in `DQNTrainResult`."""

    agent_state: Any
    episode_returns: list[float]
    metrics_log: list[dict[str, Any]]
