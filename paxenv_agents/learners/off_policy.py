"""Learners from replay: warm-up, due gradient steps, target networks."""

import abc
import dataclasses
import math
from typing import Annotated, Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from paxenv import missing, options, spaces
from paxenv.environment import where
from paxenv.options import Count, Natural, Positive, Rule, Share, Weight, Widths, option
from paxenv.wording import counted
from paxenv_agents import structure
from paxenv_agents.learners import replay
from paxenv_agents.learners.learner import Learner
from paxenv_agents.learners.replay import Minibatch, Transition
from paxenv_agents.networks import feed_forward
from paxenv_agents.registry import PairingError
from paxenv_agents.types import (
    KeyLike,
    MemoryState,
    Sample,
    Stats,
    TrainingState,
)

BUFFER_SIZE = 100_000
WARMUP_STEPS = 1_000


def _is_pace(value: Any) -> bool:
    return options.is_real(value) and 0 < value <= 1


@dataclasses.dataclass(frozen=True)
class OffPolicyConfig:
    """Options that learners from replay share; `DQNConfig` explains each one."""

    learning_rate: Weight = option(3e-4, "Adam's step size, of every network.")
    hidden_sizes: Widths = option((128, 128), "Widths of the hidden layers.")
    activation: feed_forward.Activation = option(
        "relu", "Activation of the hidden layers."
    )
    gamma: Share = option(0.99, "Discount of a step.")
    batch_size: Count = option(128, "Transitions of a gradient step.")
    buffer_size: Count | None = option(
        None, "Transitions that replay keeps; None: as the runner says, or 100,000."
    )
    warmup_steps: Natural | None = option(
        None, "Steps of random actions at first; None: as the runner says, or 1,000."
    )
    train_every: Count = option(1, "Steps from one turn of learning to the next.")
    gradient_steps: Count = option(1, "Gradient steps of a turn.")
    target_every: Count = option(
        1, "Steps from one update of the target networks to the next."
    )
    tau: Annotated[float, Rule(_is_pace, "a number in (0, 1]")] = option(
        0.005, "Share of the way that a target network moves in an update."
    )
    n_step: Count = option(1, "Number of rewards in a bootstrapped return.")
    max_grad_norm: Positive | None = option(
        None, "Norm at which gradients are clipped; None: not clipped."
    )
    adam_eps: Positive = option(1e-8, "Adam's epsilon.")
    num_envs: Count | None = option(
        None, "Games played at once; None: as the runner says."
    )

    def __post_init__(self) -> None:
        options.check(self)
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))
        if self.capacity < self.n_step:
            raise ValueError(
                f"buffer_size={self.buffer_size} holds "
                f"{counted(self.capacity, 'step')} of "
                f"{counted(self.num_envs or 1, 'game')}, fewer than "
                f"n_step={self.n_step}"
            )

    @property
    def capacity(self) -> int:
        """The time steps that replay keeps, each of all games."""
        size = BUFFER_SIZE if self.buffer_size is None else self.buffer_size
        return size // (self.num_envs or 1)

    @property
    def warmup(self) -> int:
        """Environment steps of random actions."""
        return WARMUP_STEPS if self.warmup_steps is None else self.warmup_steps


@dataclasses.dataclass(frozen=True)
class OffPolicy(Learner):
    """A learner from replay; all counts are of environment steps over all games.

    Gradient steps and target updates are due when their interval is crossed, after the
    warm-up, in which actions are uniform over the whole action space. `state.hyper`
    holds float32 scalars that may change without a recompilation: `learning_rate`,
    `gamma`, `tau`, `max_grad_norm`, and `enabled` (at 0 an update changes nothing).

    Attributes:
        config: Static options.
    """

    config: OffPolicyConfig = OffPolicyConfig()

    on_policy: ClassVar[bool] = False
    stores_final_obs: ClassVar[bool] = True
    hyper: ClassVar[tuple[str, ...]] = (
        *("learning_rate", "gamma", "tau", "max_grad_norm"),
    )

    def __post_init__(self) -> None:
        self.check_config(self.config)
        try:
            feed_forward.num_features(self.observation_space)
        except ValueError as error:
            raise PairingError(str(error)) from error

    # What a learner writes.

    @abc.abstractmethod
    def init_params(self, key: KeyLike) -> PyTree:
        """Returns fresh parameters, with those of the target networks."""

    @abc.abstractmethod
    def init_opt_state(self, params: PyTree) -> PyTree:
        """Returns fresh states of the optimisers."""

    @abc.abstractmethod
    def learn(
        self, key: Key[Array, ""], state: TrainingState, batch: Minibatch
    ) -> tuple[TrainingState, Stats]:
        """Takes one gradient step and returns (state, stats); no target changes."""

    @abc.abstractmethod
    def with_targets(
        self, state: TrainingState, tau: Float[Array, ""]
    ) -> TrainingState:
        """Returns the state with its target networks moved by a share `tau`."""

    # What every learner has.

    def sized(self, num_games: int) -> Self:
        """Returns the agent for batches of `num_games` games.

        Raises:
            ValueError: If replay is too small for a step of so many games.
        """
        if self.config.num_envs == num_games:
            return self
        config = dataclasses.replace(self.config, num_envs=num_games)
        return dataclasses.replace(self, config=config)

    def rollout_length(self, num_games: int) -> int:
        config = self.config
        return max(1, math.gcd(config.train_every, config.target_every) // num_games)

    def init_state(self, key: KeyLike) -> TrainingState:
        ring = replay.empty(self.example_row(), self.config.capacity)
        return super().init_state(key).replace(replay=ring)

    def example_row(self) -> Transition:
        """Returns one row of replay, all zeros: leaves are `[E, ...]`."""
        num_games = self.config.num_envs or 1

        def zeros(space: Any) -> jax.Array:
            dtype = spaces.dtype_of(space)
            return jnp.zeros((num_games, *(space.shape or ())), dtype)

        obs, no = zeros(self.observation_space), jnp.zeros(num_games, bool)
        return Transition(
            observations=obs,
            actions=zeros(self.action_space),
            rewards=jnp.zeros(num_games, jnp.float32),
            dones=no,
            ends=no,
            next_observations=obs,
            valid=no,
        )

    def warming_up(self, state: TrainingState) -> Bool[Array, ""]:
        """Returns whether actions are still random, as a bool scalar."""
        return state.timesteps < self.config.warmup

    def update(
        self, traj: Sample, last_obs: PyTree, state: TrainingState, memory: MemoryState
    ) -> tuple[TrainingState, MemoryState, Stats]:
        """Keeps `traj`, `[T, E, ...]`, learns what is due; returns (state, memory,
        stats).

        What several due events of one update do is what they would do one by one, but
        that all gradient steps know all of `traj`. Stats are those of the last gradient
        step, NaN if none was due, `gradient_steps` and the rows of `replay_size`.

        Raises:
            ValueError: At trace time, if E is not the number of games it is made for.
        """
        num_games = self.config.num_envs or 1
        if traj.rewards.shape[1] != num_games:
            raise ValueError(
                f"this {type(self).__name__} keeps steps of "
                f"{counted(num_games, 'game')}, got "
                f"{traj.rewards.shape[1]}: agent.sized(num_games) makes one for them"
            )
        state, stats = self._learnt(traj, last_obs, state)
        return state, memory, missing.on_device(stats)

    @structure.compiled_method
    def _learnt(
        self, traj: Sample, last_obs: PyTree, state: TrainingState
    ) -> tuple[TrainingState, Any]:
        """Returns (state, stats), these `Flagged` where no gradient step was due."""
        new = replay.transitions(traj, last_obs)
        enabled = state.hyper["enabled"] > 0
        ring = replay.add(state.replay, new, enabled)
        num_steps = jnp.where(enabled, jnp.sum(new.valid, dtype=jnp.int32), 0)
        # The ring stays out of the loop, which would select it anew under vmap.
        state, due, stats = self._learn_due(
            state.replace(replay=()), ring, state.timesteps + num_steps
        )
        report = {**stats, "gradient_steps": due, "replay_size": ring.filled}
        return state.replace(replay=ring), missing.flagged(report)

    def _learn_due(
        self, state: TrainingState, ring: replay.Replay, until: jax.Array
    ) -> tuple[TrainingState, jax.Array, Stats]:
        """Takes all turns due by step `until`: (state, gradient steps, last stats).

        A turn of gradient steps comes before a target update of the same step.
        """
        config, since = self.config, state.timesteps
        first = -(-config.warmup // config.train_every)
        first = jnp.maximum(since // config.train_every + 1, first)
        turns = jnp.maximum(until // config.train_every - first + 1, 0)
        turns = jnp.where(ring.filled >= config.n_step, turns, 0)
        due = turns * config.gradient_steps

        def moved(state: TrainingState, start: Any, stop: Any) -> TrainingState:
            """Takes the target updates of steps `start` to `stop - 1`."""
            every = config.target_every
            times = (stop - 1) // every - (start - 1) // every
            return self._targets_moved(state, times)

        def step(i: Any, carry: Any) -> Any:
            state, stats = self.learn_step(carry[0], self._drawn(carry[0], ring))
            turn, of_turn = i // config.gradient_steps, i % config.gradient_steps
            now = (first + turn) * config.train_every
            last = of_turn == config.gradient_steps - 1
            then = jnp.where(turn == turns - 1, until + 1, now + config.train_every)
            return moved(state, now, jnp.where(last, then, now)), stats

        shapes = jax.eval_shape(step, 0, (state, None))[1]
        nothing = jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), shapes)
        opening = jnp.where(turns > 0, first * config.train_every, until + 1)
        state = moved(state.replace(timesteps=until), since + 1, opening)
        state, stats = jax.lax.fori_loop(0, due, step, (state, nothing))
        return state, due, stats

    def _drawn(self, state: TrainingState, ring: replay.Replay) -> Minibatch:
        key, gamma = jax.random.fold_in(state.key, 0), state.hyper["gamma"]
        config = self.config
        return replay.sample(ring, key, config.batch_size, gamma, config.n_step)

    def _targets_moved(self, state: TrainingState, times: jax.Array) -> TrainingState:
        """Returns the state after so many target updates."""
        tau = 1.0 - (1.0 - state.hyper["tau"]) ** times
        params = self.with_targets(state, tau).params
        return state.replace(params=where(times > 0, params, state.params))

    def learn_step(
        self, state: TrainingState, batch: Minibatch
    ) -> tuple[TrainingState, Stats]:
        """Takes one gradient step and advances the state's key."""
        key = jax.random.fold_in(state.key, 1)
        state, stats = self.learn(key, state, batch)
        return state.replace(key=jax.random.fold_in(state.key, 2)), stats


def mixed(online: PyTree, target: PyTree, tau: Float[Array, ""]) -> PyTree:
    """Returns tau * online + (1 - tau) * target; at tau = 1 exactly the online ones."""
    return jax.tree.map(
        lambda p, t: jnp.where(tau == 1.0, p, tau * p + (1.0 - tau) * t), online, target
    )
