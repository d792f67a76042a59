"""Losses of policy-gradient learners: plain as in REINFORCE, or clipped as in PPO.

A loss is a value that a learner's config makes. It is a sum of means over the valid
steps of a batch:

    -mean objective(rho, A) + value_coeff * mean error(V) - entropy_coeff * mean entropy

where rho is the ratio to the behaviour, 1 in the first optimiser step, and A the
advantages.
"""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paxenv_agents.ops import policy_gradient
from paxenv_agents.types import Hyperparameters, Sample, Stats, Terms

#: A number of each step.
PerStep = Float[Array, "T E"]


class Batch(NamedTuple):
    """What a loss reads; leaves are `[T, E, ...]`.

    Attributes:
        sample: The experience.
        advantages: Of each step, 0 where not valid.
        targets: The targets of the values.
        weights: 1 for valid steps, 0 for the others.
    """

    sample: Sample
    advantages: jax.Array
    targets: jax.Array
    weights: jax.Array


class Loss(abc.ABC):
    """What a policy maximises and its values minimise. Static and hashable."""

    #: Options of the config that the loss reads as traced numbers.
    hyper: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def policy_objective(
        self, ratio: PerStep, advantages: PerStep, hyper: Hyperparameters
    ) -> PerStep:
        """Returns what the policy maximises at each step."""

    @abc.abstractmethod
    def value_error(
        self, values: PerStep, batch: Batch, hyper: Hyperparameters
    ) -> PerStep:
        """Returns what the values minimise at each step."""

    def diagnostics(self, ratio: PerStep, hyper: Hyperparameters) -> dict[str, PerStep]:
        """Returns more numbers of each step whose means are worth reporting."""
        del ratio, hyper
        return {}

    def __call__(
        self,
        evaluated: Terms,
        batch: Batch,
        hyper: Hyperparameters,
        entropy_coeff: Float[Array, ""] | float,
    ) -> tuple[Float[Array, ""], Stats]:
        """Returns (loss, its parts).

        Args:
            evaluated: Log-probabilities, values and entropies of the batch's sample.
            batch: The experience, with its advantages and targets.
            hyper: The learner's traced numbers; `value_coeff`, and those of `hyper`.
            entropy_coeff: Weight of the entropy.
        """
        log_probs, values, entropies = evaluated
        ratio = policy_gradient.importance_ratio(
            log_probs, batch.sample.behavior_log_probs
        )
        objective = self.policy_objective(ratio, batch.advantages, hyper)
        error = self.value_error(values, batch, hyper)

        def mean(x):
            return policy_gradient.weighted_mean(x, batch.weights)

        policy_loss, value_loss, entropy = (
            -mean(objective),
            mean(error),
            mean(entropies),
        )
        value_part = hyper["value_coeff"] * value_loss
        total = policy_loss + value_part - entropy_coeff * entropy
        return total, {
            "loss/total": total,
            "loss/policy": policy_loss,
            "loss/value": value_loss,
            "entropy": entropy,
            "approx_kl": mean(policy_gradient.kl_estimate(ratio)),
            **{k: mean(x) for k, x in self.diagnostics(ratio, hyper).items()},
        }


@dataclasses.dataclass(frozen=True)
class Plain(Loss):
    """Objective rho A, value error (R - V)^2.

    Source: Williams, Simple Statistical Gradient-Following Algorithms (1992).
    """

    def policy_objective(
        self, ratio: PerStep, advantages: PerStep, hyper: Hyperparameters
    ) -> PerStep:
        return ratio * advantages

    def value_error(
        self, values: PerStep, batch: Batch, hyper: Hyperparameters
    ) -> PerStep:
        return jnp.square(batch.targets - values)


@dataclasses.dataclass(frozen=True)
class Clipped(Loss):
    """Objective min(rho A, clip(rho, 1 - eps, 1 + eps) A), eps = `clip_epsilon`.

    Attributes:
        clip_value: Whether the value error is the larger of those of the value and of
            the value moved by at most eps; else it is the squared error.

    Source: Schulman et al., Proximal Policy Optimization Algorithms (2017).
    """

    clip_value: bool = True

    hyper: ClassVar[tuple[str, ...]] = ("clip_epsilon",)

    def policy_objective(
        self, ratio: PerStep, advantages: PerStep, hyper: Hyperparameters
    ) -> PerStep:
        return policy_gradient.clipped_surrogate(
            ratio, advantages, hyper["clip_epsilon"]
        )

    def value_error(
        self, values: PerStep, batch: Batch, hyper: Hyperparameters
    ) -> PerStep:
        if not self.clip_value:
            return jnp.square(batch.targets - values)
        return policy_gradient.clipped_squared_error(
            values, batch.sample.behavior_values, batch.targets, hyper["clip_epsilon"]
        )

    def diagnostics(self, ratio: PerStep, hyper: Hyperparameters) -> dict[str, PerStep]:
        outside = jnp.abs(ratio - 1.0) > hyper["clip_epsilon"]
        return {"clip_fraction": outside.astype(jnp.float32)}
