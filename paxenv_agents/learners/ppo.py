"""Proximal policy optimisation."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from paxenv.options import Positive, documented, option
from paxenv_agents.learners.config import LearnerConfig
from paxenv_agents.learners.policy_gradient import Batch, PolicyGradient
from paxenv_agents.ops import policy_gradient
from paxenv_agents.types import Hyperparameters, Stats


@documented
@dataclasses.dataclass(frozen=True)
class PPOConfig(LearnerConfig):
    """Options of PPO. A value out of range is a ValueError that names it."""

    clip_epsilon: Positive = option(
        0.2, "How far a ratio or a value may move in an update."
    )
    clip_value: bool = option(True, "Whether the value error is clipped too.")


@dataclasses.dataclass(frozen=True)
class PPO(PolicyGradient):
    """Maximises a clipped surrogate over several passes of minibatches.

    Loss = -mean min(rho A, clip(rho, 1 - eps, 1 + eps) A) + value_coeff * mean value
    error - entropy_coeff * mean entropy. Advantages are normalised once over the batch.
    `state.hyper` also holds `clip_epsilon`.

    Source: Schulman et al., Proximal Policy Optimization Algorithms (2017).

    Example:
        >>> agent = PPO.from_env(env, PPOConfig(hidden_sizes=(16, 16)), player=0)
        >>> state, memory = agent.batch_init(key, agent.init_hidden(num_envs))
    """

    config: PPOConfig = PPOConfig()

    config_class: ClassVar[type[LearnerConfig]] = PPOConfig

    def initial_hyper(self) -> Hyperparameters:
        epsilon = jnp.asarray(self.config.clip_epsilon, jnp.float32)
        return {**super().initial_hyper(), "clip_epsilon": epsilon}

    def policy_objective(
        self, ratio: jax.Array, advantages: jax.Array, hyper: Hyperparameters
    ) -> jax.Array:
        return policy_gradient.clipped_surrogate(
            ratio, advantages, hyper["clip_epsilon"]
        )

    def value_error(
        self, values: jax.Array, batch: Batch, hyper: Hyperparameters
    ) -> jax.Array:
        if not self.config.clip_value:
            return jnp.square(batch.targets - values)
        return policy_gradient.clipped_squared_error(
            values, batch.sample.behavior_values, batch.targets, hyper["clip_epsilon"]
        )

    def diagnostics(self, ratio: jax.Array, hyper: Hyperparameters) -> Stats:
        outside = jnp.abs(ratio - 1.0) > hyper["clip_epsilon"]
        return {"clip_fraction": outside.astype(jnp.float32)}
