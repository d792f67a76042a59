"""Learners that climb a policy gradient: a network, a memory and a loss as values."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int, PyTree

from paxenv import keys
from paxenv.environment import where
from paxenv.options import Count, Positive, Share, Weight, Widths, option
from paxenv_agents import structure
from paxenv_agents.agent import Game
from paxenv_agents.learners import learner, minibatches
from paxenv_agents.learners.learner import Learner
from paxenv_agents.learners.losses import Batch, Loss, Plain
from paxenv_agents.networks import actor_critic, distributions, feed_forward
from paxenv_agents.networks.actor_critic import (
    ActorCritic,
    NetworkConfig,
    PolicyDistribution,
)
from paxenv_agents.ops import multistep, policy_gradient
from paxenv_agents.types import (
    Acted,
    Hyperparameters,
    KeyLike,
    MemoryState,
    Sample,
    Stats,
    Terms,
    TrainingState,
)


@dataclasses.dataclass(frozen=True)
class LearnerConfig(NetworkConfig):
    """Options that policy-gradient learners share; `PPOConfig` explains each one."""

    learning_rate: Weight = option(
        3e-4, "Adam's step size at the first optimiser step."
    )
    n_steps: Count = option(128, "Steps of a rollout in endless play.")
    hidden_sizes: Widths = option(
        (64, 64), "Widths of the hidden layers; `()` is a linear policy."
    )
    num_envs: Count | None = option(
        None, "Games played at once; None: as the runner says."
    )
    num_epochs: Count = option(4, "Passes over each batch.")
    num_minibatches: Count = option(4, "Minibatches of a pass, an optimiser step each.")
    gamma: Share = option(0.99, "Discount of a step.")
    gae_lambda: Share = option(0.95, "Lambda of generalised advantage estimation.")
    value_coeff: Weight = option(0.5, "Weight of the value error.")
    max_grad_norm: Positive | None = option(
        0.5, "Norm at which gradients are clipped; None: not clipped."
    )
    entropy_coeff: Weight = option(0.01, "Weight of the entropy in the loss, at first.")
    entropy_coeff_end: Weight | None = option(
        None, "Weight of the entropy at the end of a linear schedule; None: constant."
    )
    entropy_coeff_horizon: Count | None = option(
        None, "Timesteps of that schedule; None: those of the planned updates."
    )
    learning_rate_end: Weight | None = option(
        None, "Learning rate at the last planned step, linearly; None: constant."
    )
    num_updates: Count | None = option(
        None, "Number of planned updates, at which linear schedules end."
    )
    adam_eps: Positive = option(1e-5, "Adam's epsilon.")
    normalise_advantages: bool = option(
        True, "Whether advantages are normalised to mean 0 and standard deviation 1."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))
        if self.entropy_coeff_horizon is not None and self.entropy_coeff_end is None:
            raise ValueError(
                f"entropy_coeff_horizon={self.entropy_coeff_horizon} needs "
                "entropy_coeff_end, the weight at its end"
            )

    @property
    def num_steps_of_update(self) -> int:
        """The optimiser steps of an update."""
        return self.num_epochs * self.num_minibatches

    def check_plan(self) -> None:
        by_plan = self.learning_rate_end is not None or (
            self.entropy_coeff_end is not None and self.entropy_coeff_horizon is None
        )
        if by_plan and self.num_updates is None:
            raise ValueError(
                "learning_rate_end and entropy_coeff_end are reached at the last "
                "planned update, but num_updates is None: set it in the config, or "
                "call agent.planned(num_updates)"
            )

    @property
    def loss(self) -> Loss:
        """What an update minimises."""
        return Plain()


@dataclasses.dataclass(frozen=True)
class PolicyGradient(Learner):
    """A policy and a value that minimise a loss over minibatches, by Adam.

    What distinguishes PPO, Naive, RecurrentPPO, Shaper, MFOS and Hyper is three values:
    `config.loss`, the network in `actor_critic`, and the rule of its memory.

    Actions are `Discrete`, by a categorical distribution, or a `Box` of floats with
    finite bounds, by normal distributions (`config.action_scale`, `action_bound`).
    In `state.hyper` are `learning_rate`, `entropy_coeff`, `gamma`, `gae_lambda`,
    `value_coeff`, `max_grad_norm`, those of the loss, and `enabled` (at 0 an update
    leaves the whole training state as it was).

    Attributes:
        config: Static options.
        actor: Own network for the logits; needs `critic`. Default: by `config`.
        critic: Own network for the value.
        num_games: Games that are played together against the same co-players, where
            the policy mixes them; None: all games of a batch are.
    """

    config: LearnerConfig = LearnerConfig()
    actor: nn.Module | None = None
    critic: nn.Module | None = None
    _: dataclasses.KW_ONLY
    num_games: int | None = None

    hyper: ClassVar[tuple[str, ...]] = (
        *("learning_rate", "entropy_coeff", "gamma", "gae_lambda"),
        *("value_coeff", "max_grad_norm"),
    )
    arithmetic: ClassVar[tuple[str, ...]] = (
        "learning_rate_end",
        "entropy_coeff_end",
        "entropy_coeff_horizon",
        "num_updates",
    )

    def __post_init__(self) -> None:
        self.check_config(self.config)
        _ = self.actor_critic
        if self.recurrent and self.actor is not None:
            raise ValueError(
                "a recurrent learner makes its own network: use hidden_sizes, gru_size "
                "and activation instead of an own actor and critic"
            )

    @classmethod
    def from_env(
        cls,
        env: Game,
        config: Any = None,
        actor_class: Any = None,
        critic_class: Any = None,
        *,
        player: int = 0,
        greedy: bool = False,
        actor_cfg: dict[str, Any] | None = None,
        critic_cfg: dict[str, Any] | None = None,
        **overrides: Any,
    ) -> Self:
        """Returns the learner for one seat of a game.

        Args:
            env: The game, or a plain or vector environment of Gymnasium; only the
                seat's spaces are read.
            config: Options: a `config_class`, a mapping by name, or None for the
                defaults. A whole number is the seat.
            actor_class: Flax module, made as `actor_class(num_actions=A,
                hidden_dims=config.hidden_sizes, activation=config.activation)`, from
                features `[..., F]` to logits `[..., A]`; over a Box of n numbers A is
                n, the means, or 2n with `action_scale="softplus"`. One that is not
                given is `MLPActor` or `MLPCritic`; the two share nothing.
            critic_class: Flax module, made alike without `num_actions`, from features
                to values `[...]`.
            player: The seat, from 0.
            greedy: Whether to act deterministically.
            actor_cfg: Keywords for `actor_class` that win over the above.
            critic_cfg: Keywords for `critic_class`.
            **overrides: Options by name; they win over `config`.

        Raises:
            ValueError: If an option is unknown or refused, or the spaces do not fit.
        """
        agent = super().from_env(env, config, player=player, greedy=greedy, **overrides)
        if not (actor_class or critic_class or actor_cfg or critic_cfg):
            return agent
        options = agent.config
        widths = {"hidden_dims": options.hidden_sizes, "activation": options.activation}
        outputs = {"num_actions": agent.distribution.head_size}
        actor = _make(actor_class or feed_forward.MLPActor, outputs, widths, actor_cfg)
        critic = _make(critic_class or feed_forward.MLPCritic, widths, critic_cfg)
        return dataclasses.replace(agent, actor=actor, critic=critic)

    # The values that it holds.

    @property
    def distribution(self) -> distributions.Distribution:
        """How the network's outputs become actions."""
        config = self.config
        return distributions.for_space(
            self.action_space, config.action_scale, config.action_bound
        )

    @property
    def actor_critic(self) -> ActorCritic:
        """How policy and value are computed, and what is remembered."""
        return actor_critic.make_feed_forward(
            self.observation_space,
            self.distribution,
            self.config,
            self.actor,
            self.critic,
        )

    @property
    def network(self) -> nn.Module:
        """The network alone: of features, and of a hidden state if it is recurrent."""
        return self.actor_critic.module

    # What depends on the run.

    def planned(self, num_updates: int) -> Self:
        """Returns the agent with `num_updates` planned, unless its config has a plan.

        Linear schedules end at the last planned update.
        """
        if self.config.num_updates is not None:
            return self
        config = dataclasses.replace(self.config, num_updates=num_updates)
        return dataclasses.replace(self, config=config)

    def check_batch(self, num_steps: int, num_games: int) -> None:
        """Raises ValueError if a batch `[T, E]` does not split into the minibatches."""
        self._minibatch_axis(num_steps, num_games)

    def _minibatch_axis(self, num_steps: int, num_games: int) -> int:
        return minibatches.minibatch_axis(
            num_steps,
            num_games,
            self.config.num_minibatches,
            recurrent=self.recurrent,
            group_size=self.group_size(num_games),
        )

    def rollout_length(self, num_games: int) -> int:
        del num_games
        return self.config.n_steps

    @property
    def recurrent(self) -> bool:
        return self.actor_critic.recurrent

    @property
    def stores_hiddens(self) -> Literal["all", "first"]:
        return "first" if self.recurrent else "all"

    @property
    def mixes_games(self) -> bool:
        return self.actor_critic.mixes_games

    def grouped(self, num_games: int) -> Self:
        if not self.mixes_games:
            return self
        return dataclasses.replace(self, num_games=num_games)

    def group_size(self, num_games: int) -> int:
        """Returns how many neighbours of a batch of games a loss sees together."""
        return (self.num_games or num_games) if self.mixes_games else 1

    # Acting.

    def initial_hyper(self) -> Hyperparameters:
        return self.traced(*self.hyper, *self.config.loss.hyper)

    def init_params(self, key: KeyLike) -> PyTree:
        """Returns fresh parameters of the network; consumes the key."""
        return self.actor_critic.init(key)

    def policy_params(self, params: PyTree) -> PyTree:
        """Returns the parameters without those that only the value reads."""
        return self.actor_critic.policy_params(params)

    def init_state(self, key: KeyLike) -> TrainingState:
        self.config.check_plan()
        return super().init_state(key)

    @property
    def hidden_size(self) -> int:
        return self.actor_critic.hidden_size

    def init_hidden(self, num_envs: int) -> Float[Array, "E H"]:
        return jnp.tile(self.actor_critic.opening(), (num_envs, 1))

    def reset_memory(self, memory: MemoryState, eval: bool = False) -> MemoryState:
        del eval
        return memory.replace(hidden=self.actor_critic.opening())

    def end_inner_episode(
        self, state: TrainingState, memory: MemoryState
    ) -> MemoryState:
        hidden = self.actor_critic.next_episode(state.params, memory.hidden)
        return memory.replace(hidden=hidden)

    def forward(
        self, params: PyTree, obs: PyTree, hidden: Float[Array, " H"]
    ) -> tuple[PolicyDistribution, Float[Array, ""], Float[Array, " H"]]:
        """Returns (policy, value, next hidden) at one observation."""
        return self.actor_critic.forward(params, obs, hidden)

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        """Chooses one action and returns (action in its space, state, memory).

        Draws from `fold_in(memory.key, 0)`. `memory.extras` holds the log-probability
        of the action under the policy (also when `greedy`, which takes the mode, of
        several the lowest) and the value of `obs`.
        """
        policy, value, hidden = self.forward(state.params, obs, memory.hidden)
        action = policy.mode() if self.greedy else policy.sample(memory.key)
        extras = {"log_probs": policy.log_prob(action), "values": value}
        key = keys.fold_in(memory.key, 1)
        return action, state, memory.replace(hidden=hidden, key=key, extras=extras)

    def value(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> Float[Array, ""]:
        return self.forward(state.params, obs, memory.hidden)[1]

    def batch_value(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> Float[Array, " E"]:
        """`value` over games; a batch of several groups keeps them apart."""
        num_games = memory.hidden.shape[0]
        size = self.group_size(num_games)
        if size in (1, num_games):
            return super().batch_value(state, obs, memory)
        values = jax.vmap(super().batch_value, in_axes=(None, 0, 0))
        obs, memory = (actor_critic.in_groups(x, size) for x in (obs, memory))
        return values(state, obs, memory).reshape(num_games)

    def evaluate(self, state: TrainingState, sample: Sample) -> Terms:
        return self.actor_critic.evaluate(state.params, sample)

    # Learning.

    def loss(
        self,
        params: PyTree,
        state: TrainingState,
        batch: Batch,
        entropy_coeff: Float[Array, ""],
    ) -> tuple[Float[Array, ""], Stats]:
        """Returns (the loss of `config.loss`, its parts) of a batch."""
        evaluated = self.evaluate(state.replace(params=params), batch.sample)
        return self.config.loss(evaluated, batch, state.hyper, entropy_coeff)

    def make_batch(
        self, traj: Sample, last_obs: PyTree, state: TrainingState, memory: MemoryState
    ) -> Batch:
        """Returns what the loss reads of a trajectory: advantages and value targets.

        The advantages are normalised here, once, over the valid steps of the batch.
        """
        traj, values = traj.with_flags(), traj.behavior_values
        advantages = multistep.generalised_advantages(
            traj.rewards.astype(jnp.float32),
            values,
            self.batch_value(state, last_obs, memory),
            state.hyper["gamma"],
            state.hyper["gae_lambda"],
            terminated=traj.dones,
            truncated=traj.truncations,
            final_values=traj.final_values,
            valid=traj.valid,
        )
        weights = traj.valid.astype(jnp.float32)
        targets = advantages + values
        if self.config.normalise_advantages:
            advantages = policy_gradient.normalise(advantages, weights)
        return Batch(self.loss_sample(traj), advantages, targets, weights)

    def loss_sample(self, traj: Sample) -> Sample:
        """Returns the fields that `evaluate` and the loss read; the others are None."""
        nothing = dict.fromkeys(Sample._fields)
        played = ("observations", "actions", "behavior_log_probs", "behavior_values")
        read = (*played, *self.actor_critic.sequence_fields)
        return Sample(**{**nothing, **{name: getattr(traj, name) for name in read}})

    @structure.compiled_method
    def update(
        self, traj: Sample, last_obs: PyTree, state: TrainingState, memory: MemoryState
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
        axis = self._minibatch_axis(num_steps, num_games)
        batch = self.make_batch(traj, last_obs, state, memory)
        entropy_coeff = self.entropy_coeff(state)
        order = minibatches.indices(
            jax.random.fold_in(state.key, 0),
            num_games // group_size if axis == minibatches.GAMES else num_steps,
            config.num_epochs,
            config.num_minibatches,
        )
        if axis == minibatches.GAMES:
            order = minibatches.of_games(order, group_size)

        def step(carry, index):
            part = minibatches.take(batch, index, axis)
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

    def learning_rate(
        self, hyper: Hyperparameters, step: Int[Array, ""]
    ) -> Float[Array, ""]:
        """Returns the rate of optimiser step number `step`, counted from 0."""
        config, start = self.config, hyper["learning_rate"]
        if config.learning_rate_end is None:
            return start
        num_updates = 1 if config.num_updates is None else config.num_updates
        num_steps = num_updates * config.num_steps_of_update
        share = learner.share_of_steps(step, num_steps)
        return learner.linear(start, config.learning_rate_end, share)

    def entropy_coeff(self, state: TrainingState) -> Float[Array, ""]:
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


def _make(module_class: Any, *options: Mapping[str, Any] | None) -> nn.Module:
    """Returns a module made with options; the last ones win, lists become tuples."""
    if not callable(module_class):
        raise ValueError(
            "actor_class and critic_class must be classes of Flax modules, got "
            f"{module_class!r}"
        )
    merged = {name: x for given in options for name, x in (given or {}).items()}
    module: Any = module_class(
        **{n: tuple(x) if isinstance(x, list) else x for n, x in merged.items()}
    )
    return module
