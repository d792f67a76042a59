"""The update that policy-gradient learners share."""

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from paxenv.environment import where
from paxenv_agents import structure
from paxenv_agents.learners import actor_critic, learner
from paxenv_agents.learners.actor_critic import ActorCritic
from paxenv_agents.ops import multistep, policy_gradient
from paxenv_agents.types import (
    Hyperparameters,
    MemoryState,
    Sample,
    Stats,
    TrainingState,
)


class Batch(NamedTuple):
    """What a loss reads; leaves are `[T, E, ...]`.

    Attributes:
        sample: The experience.
        advantages: Of each step, 0 where not valid.
        targets: What the values should have been.
        weights: 1 for valid steps, 0 for the others.
    """

    sample: Sample
    advantages: jax.Array
    targets: jax.Array
    weights: jax.Array


@dataclasses.dataclass(frozen=True)
class PolicyGradient(ActorCritic):
    """An actor-critic that climbs an objective of ratio and advantage, by Adam.

    A subclass says what its policy maximises and what its values minimise.
    """

    arithmetic: ClassVar[tuple[str, ...]] = (
        "learning_rate_end",
        "entropy_coeff_end",
        "entropy_coeff_horizon",
        "num_updates",
    )

    @abc.abstractmethod
    def policy_objective(
        self, ratio: jax.Array, advantages: jax.Array, hyper: Hyperparameters
    ) -> jax.Array:
        """Returns what the policy maximises at each step, `[T, E]`."""

    @abc.abstractmethod
    def value_error(
        self, values: jax.Array, batch: Batch, hyper: Hyperparameters
    ) -> jax.Array:
        """Returns what the values minimise at each step, `[T, E]`."""

    def loss(
        self, params: Any, state: TrainingState, batch: Batch, entropy_coeff: jax.Array
    ) -> tuple[jax.Array, Stats]:
        """Returns (-policy objective + value_coeff * value error - entropy_coeff *
        entropy, its parts), each a mean over the valid steps of `batch`.
        """
        log_probs, values, entropies = self.evaluate(
            state.replace(params=params), batch.sample
        )
        ratio = policy_gradient.importance_ratio(
            log_probs, batch.sample.behavior_log_probs
        )
        objective = self.policy_objective(ratio, batch.advantages, state.hyper)
        error = self.value_error(values, batch, state.hyper)

        def mean(x):
            return policy_gradient.weighted_mean(x, batch.weights)

        policy_loss, value_loss, entropy = (
            -mean(objective),
            mean(error),
            mean(entropies),
        )
        value_part = state.hyper["value_coeff"] * value_loss
        total = policy_loss + value_part - entropy_coeff * entropy
        return total, {
            "loss/total": total,
            "loss/policy": policy_loss,
            "loss/value": value_loss,
            "entropy": entropy,
            "approx_kl": mean(policy_gradient.kl_estimate(ratio)),
            **{k: mean(x) for k, x in self.diagnostics(ratio, state.hyper).items()},
        }

    def diagnostics(self, ratio: jax.Array, hyper: Hyperparameters) -> Stats:
        """Returns more numbers of each step whose means are worth reporting."""
        del ratio, hyper
        return {}

    def make_batch(
        self, traj: Sample, last_obs: Any, state: TrainingState, memory: MemoryState
    ) -> Batch:
        """Returns what the loss reads of a trajectory: advantages and value targets.

        The advantages are normalised here, once, over the valid steps of the batch.
        """
        no = jnp.zeros(traj.rewards.shape, bool)
        valid = ~no if traj.valid is None else traj.valid
        values = traj.behavior_values
        advantages = multistep.generalised_advantages(
            traj.rewards.astype(jnp.float32),
            values,
            self.batch_value(state, last_obs, memory),
            state.hyper["gamma"],
            state.hyper["gae_lambda"],
            terminated=traj.dones,
            truncated=no if traj.truncations is None else traj.truncations,
            final_values=(
                jnp.zeros_like(values)
                if traj.final_values is None
                else traj.final_values
            ),
            valid=valid,
        )
        weights = valid.astype(jnp.float32)
        targets = advantages + values
        if self.config.normalise_advantages:
            advantages = policy_gradient.normalise(advantages, weights)
        return Batch(self.loss_sample(traj), advantages, targets, weights)

    def loss_sample(self, traj: Sample) -> Sample:
        """Returns the fields that `evaluate` and the loss read; the others are None."""
        nothing = dict.fromkeys(Sample._fields)
        read = ("observations", "actions", "behavior_log_probs", "behavior_values")
        return Sample(**{**nothing, **{name: getattr(traj, name) for name in read}})

    @structure.compiled_method
    def update(
        self, traj: Sample, last_obs: Any, state: TrainingState, memory: MemoryState
    ) -> tuple[TrainingState, MemoryState, Stats]:
        """Learns from `traj`, `[T, E, ...]`, and returns (state, memory, stats).

        Takes `num_epochs * num_minibatches` optimiser steps. Stats are float32 scalars:
        means over these steps, except `learning_rate`, that of the last one, and those
        of the batch as it was played: `explained_variance`, `value_mean`,
        `return_mean`, and `advantage_mean` and `advantage_std` before normalisation.

        Raises:
            ValueError: At trace time, if the batch does not split into minibatches.
        """
        config = self.config
        config.check_plan()
        num_steps, num_games = traj.rewards.shape
        group_size = self.group_size(num_games)
        axis = actor_critic.minibatch_axis(
            num_steps,
            num_games,
            config.num_minibatches,
            recurrent=self.recurrent,
            group_size=group_size,
        )
        batch = self.make_batch(traj, last_obs, state, memory)
        entropy_coeff = self.entropy_coeff(state)
        order = actor_critic.indices(
            jax.random.fold_in(state.key, 0),
            num_games // group_size if axis == actor_critic.GAMES else num_steps,
            config.num_epochs,
            config.num_minibatches,
        )
        if axis == actor_critic.GAMES:
            order = actor_critic.of_games(order, group_size)

        def step(carry, index):
            part = actor_critic.take(batch, index, axis)
            return self._optimiser_step(carry, state, part, entropy_coeff)

        (params, opt_state), steps = jax.lax.scan(
            step, (state.params, state.opt_state), order
        )
        learnt = state.replace(
            params=params,
            opt_state=opt_state,
            key=jax.random.fold_in(state.key, 1),
            timesteps=state.timesteps + jnp.sum(batch.weights, dtype=jnp.int32),
        )
        stats = {name: jnp.mean(x) for name, x in steps.items()}
        stats["learning_rate"] = steps["learning_rate"][-1]
        stats["entropy_coeff"] = entropy_coeff
        stats["explained_variance"] = policy_gradient.explained_variance(
            traj.behavior_values, batch.targets, batch.weights
        )
        stats |= _of_batch(traj.behavior_values, batch)
        changes = (state.hyper["enabled"] > 0) & jnp.any(batch.weights > 0)
        return where(changes, learnt, state), memory, stats

    def _optimiser_step(
        self, carry: Any, state: TrainingState, batch: Batch, entropy_coeff: jax.Array
    ) -> tuple[Any, Stats]:
        params, opt_state = carry
        rate = self.learning_rate(state.hyper, opt_state.count)
        gradient = jax.grad(self.loss, has_aux=True)
        grads, stats = gradient(params, state, batch, entropy_coeff)
        params, opt_state, norm = self.descended(
            state.hyper, params, opt_state, grads, rate
        )
        return (params, opt_state), {**stats, "grad_norm": norm, "learning_rate": rate}

    def learning_rate(self, hyper: Hyperparameters, step: jax.Array) -> jax.Array:
        """Returns the rate of optimiser step number `step`, counted from 0."""
        config, start = self.config, hyper["learning_rate"]
        if config.learning_rate_end is None:
            return start
        num_updates = 1 if config.num_updates is None else config.num_updates
        num_steps = num_updates * config.num_steps_of_update
        share = learner.share_of_steps(step, num_steps)
        return learner.linear(start, config.learning_rate_end, share)

    def entropy_coeff(self, state: TrainingState) -> jax.Array:
        """Returns the entropy weight of this update."""
        config, start = self.config, state.hyper["entropy_coeff"]
        if config.entropy_coeff_end is None:
            return start
        if config.entropy_coeff_horizon is not None:
            share = state.timesteps / config.entropy_coeff_horizon
        else:
            update = state.opt_state.count // config.num_steps_of_update
            num_updates = 1 if config.num_updates is None else config.num_updates
            share = learner.share_of_steps(update, num_updates)
        return learner.linear(start, config.entropy_coeff_end, share)


def _of_batch(values: jax.Array, batch: Batch) -> Stats:
    """Returns means over the valid steps of what a batch was played with."""

    def mean(x: jax.Array) -> jax.Array:
        return policy_gradient.weighted_mean(x, batch.weights)

    advantages = batch.targets - values
    average = mean(advantages)
    return {
        "advantage_mean": average,
        "advantage_std": jnp.sqrt(mean(jnp.square(advantages - average))),
        "value_mean": mean(values),
        "return_mean": mean(batch.targets),
    }
