"""Soft actor-critic over a Box."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Key, PyTree

from paxenv import keys, spaces
from paxenv.options import Positive, Real, documented, option
from paxenv_agents.learners.off_policy import OffPolicy, OffPolicyConfig, mixed
from paxenv_agents.learners.replay import Minibatch
from paxenv_agents.networks import distributions, feed_forward
from paxenv_agents.ops import gaussian, policy_gradient
from paxenv_agents.registry import PairingError
from paxenv_agents.types import Acted, KeyLike, MemoryState, Stats, TrainingState

NUM_CRITICS = 2


@documented
@dataclasses.dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """Options of SAC: those of `DQNConfig` that are not about epsilon, and two more.

    Defaults that differ from DQN's: learning_rate 0.001, hidden_sizes (256, 256),
    batch_size 256, max_grad_norm None.
    """

    learning_rate: float = 1e-3
    hidden_sizes: tuple[int, ...] = (256, 256)
    batch_size: int = 256
    alpha: Positive | None = option(None, "Weight of the entropy; None: it is learnt.")
    target_entropy: Real | None = option(
        None,
        "Entropy at which a learnt weight aims, in nats, of actions in [-1, 1]; None: "
        "minus the number of coordinates.",
    )


class Critic(nn.Module):
    """Features and a unit action to a value `[...]`."""

    hidden_dims: tuple[int, ...]
    activation: str

    @nn.compact
    def __call__(
        self, features: Float[Array, "*batch F"], action: Float[Array, "*batch A"]
    ) -> Float[Array, "*batch"]:
        """Returns the value of an action in [-1, 1]."""
        both = jnp.concatenate([features, action], axis=-1)
        return feed_forward.MLPCritic(self.hidden_dims, self.activation)(both)


@dataclasses.dataclass(frozen=True)
class SAC(OffPolicy):
    """Maximises reward and entropy with twin critics and a squashed normal policy.

    Critics: mean squared error to r + gamma^n (min Q'(s', a') - alpha log pi(a' | s')).
    Actor: minimises alpha log pi(a | s) - min Q(s, a) through the draw. Temperature:
    log alpha falls where the entropy is above its target. An end by time is no end.
    Log-densities are those of actions scaled to [-1, 1].

    Source: Haarnoja et al., Soft Actor-Critic Algorithms and Applications (2018).
    """

    config: SACConfig = SACConfig()

    arithmetic: ClassVar[tuple[str, ...]] = ("alpha", "target_entropy")

    def __post_init__(self) -> None:
        super().__post_init__()
        made = distributions.for_space(self.action_space, "softplus", "squashed")
        if not isinstance(made, distributions.SquashedGaussian):
            raise PairingError(f"SAC plays a Box of floats, got {self.action_space}")

    @property
    def distribution(self) -> distributions.BoxGaussian:
        """The distribution of actions."""
        made: Any = distributions.for_space(self.action_space, "softplus", "squashed")
        return made

    @property
    def num_coordinates(self) -> int:
        """Numbers of an action."""
        return len(self.distribution.low)

    @property
    def _actor(self) -> nn.Module:
        width = self.distribution.head_size
        return feed_forward.MLPActor(
            width, self.config.hidden_sizes, self.config.activation
        )

    @property
    def _critic(self) -> Critic:
        return Critic(self.config.hidden_sizes, self.config.activation)

    def init_params(self, key: KeyLike) -> PyTree:
        fold = jax.random.fold_in
        example = (
            jnp.zeros(feed_forward.num_features(self.observation_space)),
            jnp.zeros(self.num_coordinates),
        )
        critics = jax.vmap(lambda k: self._critic.init(k, *example)["params"])(
            keys.folds(fold(key, 1), NUM_CRITICS)
        )
        alpha = 1.0 if self.config.alpha is None else self.config.alpha
        return {
            "actor": feed_forward.init(
                self._actor, fold(key, 0), self.observation_space
            ),
            "critics": critics,
            "target_critics": jax.tree.map(jnp.copy, critics),
            "log_alpha": jnp.log(jnp.asarray(alpha, jnp.float32)),
        }

    def init_opt_state(self, params: PyTree) -> PyTree:
        return {
            name: self.optimiser().init(params[name])
            for name in ("actor", "critics", "log_alpha")
        }

    def policy_params(self, params: PyTree) -> PyTree:
        return params["actor"]

    def outputs(
        self, params: PyTree, observations: PyTree
    ) -> Float[Array, "*batch outputs"]:
        """Returns the inputs of the policy's distribution, `[..., 2 * coordinates]`."""
        outputs: Any = feed_forward.apply(
            self._actor, params["actor"], observations, self.observation_space
        )
        return outputs

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        """Chooses one action and returns (action in its Box, state, memory).

        Draws from `fold_in(memory.key, 0)`. `memory.extras` holds the log-density of
        the action under the policy, in the Box's units, and its value.
        """
        distribution = self.distribution
        outputs = self.outputs(state.params, obs)
        if self.greedy:
            action = distribution.mode(outputs)
        else:
            drawn = distribution.sample(memory.key, outputs)
            action = jnp.where(self.warming_up(state), self._uniform(memory.key), drawn)
        features = feed_forward.features(obs, self.observation_space)
        memory = memory.replace(
            key=keys.fold_in(memory.key, 1),
            extras={
                "log_probs": distribution.log_prob(outputs, action),
                "values": self._least(
                    state.params["critics"], features, self.unit(action)
                ),
            },
        )
        return action, state, memory

    def value(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> Float[Array, ""]:
        action = self.distribution.mode(self.outputs(state.params, obs))
        features = feed_forward.features(obs, self.observation_space)
        return self._least(state.params["critics"], features, self.unit(action))

    def unit(self, actions: Float[Array, "..."]) -> Float[Array, "*batch A"]:
        """Returns actions `[..., *space]` scaled to [-1, 1], `[..., coordinates]`."""
        batch = actions.shape[: actions.ndim - len(self.action_space.shape or ())]
        flat = jnp.reshape(actions, (*batch, self.num_coordinates))
        low, high = (
            jnp.asarray(x, jnp.float32)
            for x in (self.distribution.low, self.distribution.high)
        )
        return 2 * (flat - low) / (high - low) - 1

    def drawn(
        self, outputs: Float[Array, "*batch outputs"], key: Key[Array, ""]
    ) -> tuple[Float[Array, "*batch A"], Float[Array, "*batch"]]:
        """Returns (unit actions, their log-densities), differentiable in `outputs`."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        scale = distributions.SCALES["softplus"].positive(raw)
        words = keys.words(key, mean.size).reshape(mean.shape)
        inner = mean + scale * gaussian.standard_normal(words)
        log_density = gaussian.log_prob(inner, mean, scale) - gaussian.log_slope(inner)
        return jnp.tanh(inner), jnp.sum(log_density, axis=-1)

    def learn(
        self, key: Key[Array, ""], state: TrainingState, batch: Minibatch
    ) -> tuple[TrainingState, Stats]:
        fold = jax.random.fold_in
        state, critic_stats = self._learn_critics(fold(key, 0), state, batch)
        state, stats = self._learn_actor(fold(key, 1), state, batch)
        rate = {"learning_rate": state.hyper["learning_rate"]}
        return state, {**critic_stats, **stats, **rate}

    def targets(
        self, key: Key[Array, ""], params: PyTree, batch: Minibatch
    ) -> Float[Array, " batch"]:
        """Returns the critics' targets for the actions taken, `[batch]`."""
        features = feed_forward.features(
            batch.next_observations, self.observation_space
        )
        outputs = self.outputs(params, batch.next_observations)
        actions, log_probs = self.drawn(outputs, key)
        value = self._least(params["target_critics"], features, actions)
        soft = value - jnp.exp(self._log_alpha(params)) * log_probs
        return batch.rewards + batch.discounts * soft

    def with_targets(
        self, state: TrainingState, tau: Float[Array, ""]
    ) -> TrainingState:
        params = state.params
        target = mixed(params["critics"], params["target_critics"], tau)
        return state.replace(params={**params, "target_critics": target})

    def _learn_critics(
        self, key: jax.Array, state: TrainingState, batch: Minibatch
    ) -> tuple[TrainingState, Stats]:
        targets = self.targets(key, state.params, batch)
        features = feed_forward.features(batch.observations, self.observation_space)
        unit = self.unit(batch.actions)

        def loss(critics: Any) -> tuple[jax.Array, jax.Array]:
            values = self._every(critics, features, unit)
            errors = jnp.sum(jnp.square(values - targets), axis=0)
            return policy_gradient.weighted_mean(errors, batch.weights), values

        (value, values), grads = jax.value_and_grad(loss, has_aux=True)(
            state.params["critics"]
        )
        state, norm = self._descend(state, "critics", grads)
        stats = {"loss/critic": value, "q_mean": values.mean(), "grad_norm": norm}
        return state, stats

    def _learn_actor(
        self, key: jax.Array, state: TrainingState, batch: Minibatch
    ) -> tuple[TrainingState, Stats]:
        params = state.params
        log_alpha = self._log_alpha(params)
        alpha = jnp.exp(log_alpha)
        features = feed_forward.features(batch.observations, self.observation_space)

        def loss(actor: Any) -> tuple[jax.Array, jax.Array]:
            outputs = self.outputs({"actor": actor}, batch.observations)
            actions, log_probs = self.drawn(outputs, key)
            value = self._least(params["critics"], features, actions)
            regret = alpha * log_probs - value
            entropy = -policy_gradient.weighted_mean(log_probs, batch.weights)
            return policy_gradient.weighted_mean(regret, batch.weights), entropy

        (actor_loss, entropy), grads = jax.value_and_grad(loss, has_aux=True)(
            params["actor"]
        )
        state, _ = self._descend(state, "actor", grads)
        surplus = entropy - self._target_entropy
        stats = {
            "loss/actor": actor_loss,
            "loss/alpha": log_alpha * surplus,
            "alpha": alpha,
            "entropy": entropy,
        }
        if self.config.alpha is None:
            state, _ = self._descend(state, "log_alpha", surplus)
        return state, stats

    def _log_alpha(self, params: PyTree) -> jax.Array:
        """Returns the logarithm of the weight of the entropy."""
        if self.config.alpha is None:
            return params["log_alpha"]
        return jnp.log(jnp.asarray(self.config.alpha, jnp.float32))

    @property
    def _target_entropy(self) -> float:
        target = self.config.target_entropy
        return -float(self.num_coordinates) if target is None else target

    def _descend(
        self, state: TrainingState, name: str, grads: PyTree
    ) -> tuple[TrainingState, jax.Array]:
        params, opt_state, norm = self.descended(
            state.hyper,
            state.params[name],
            state.opt_state[name],
            grads,
            state.hyper["learning_rate"],
        )
        state = state.replace(
            params={**state.params, name: params},
            opt_state={**state.opt_state, name: opt_state},
        )
        return state, norm

    def _every(self, critics: Any, features: jax.Array, unit: jax.Array) -> jax.Array:
        """Returns what each critic says, `[critics, ...]`."""
        apply = jax.vmap(lambda p: self._critic.apply({"params": p}, features, unit))
        values: Any = apply(critics)
        return values

    def _least(self, critics: Any, features: jax.Array, unit: jax.Array) -> jax.Array:
        """Returns the smallest value that a critic gives.

        `jnp.min` has a gradient of 0 / 0 where XLA computes the values again for the
        gradient and rounds them otherwise, so that none equals the minimum.
        """
        values = self._every(critics, features, unit)
        index = jnp.argmin(jax.lax.stop_gradient(values), axis=0)
        critic = jnp.arange(values.shape[0]).reshape(-1, *[1] * index.ndim)
        return jnp.sum(jnp.where(critic == index, values, 0.0), axis=0)

    def _uniform(self, key: jax.Array) -> jax.Array:
        """Returns an action drawn uniformly over the whole Box."""
        words = keys.words(keys.fold_in(key, 0), self.num_coordinates)
        bounds = self.distribution.low, self.distribution.high
        low, high = (jnp.asarray(x, jnp.float32) for x in bounds)
        flat = jnp.clip(low + (high - low) * keys.uniform(words), low, high)
        space: Any = self.action_space
        dtype = spaces.dtype_of(space)
        return jnp.reshape(flat, space.shape).astype(dtype)
