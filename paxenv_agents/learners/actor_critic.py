"""What policy-gradient learners share: acting, estimating, and the update."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import gymnasium
import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Int, Key

from paxenv import keys, spaces
from paxenv.wording import counted
from paxenv_agents.agent import seated
from paxenv_agents.learners.config import LearnerConfig
from paxenv_agents.learners.learner import Learner
from paxenv_agents.networks import distributions, feed_forward
from paxenv_agents.networks.distributions import ActionDistribution, TabularDistribution
from paxenv_agents.ops.lookup import look_up
from paxenv_agents.registry import PairingError
from paxenv_agents.types import Hyperparameters, MemoryState, Sample, TrainingState

TIME, GAMES = 0, 1


def minibatch_axis(
    num_steps: int,
    num_games: int,
    num_minibatches: int,
    *,
    recurrent: bool = False,
    group_size: int = 1,
) -> int:
    """Returns the axis to permute: `GAMES`, else `TIME` for a memoryless learner.

    Args:
        num_steps: T.
        num_games: E.
        num_minibatches: Minibatches of a pass.
        recurrent: Whether a sequence must stay in one piece.
        group_size: Neighbouring games that must stay in one minibatch.

    Raises:
        ValueError: If `group_size` does not divide the games, or `num_minibatches`
            neither the games (or groups) nor, for a memoryless learner, the steps.
    """
    if num_games % group_size:
        raise ValueError(
            f"{counted(num_games, 'game')} "
            f"do not divide into groups of {group_size}: call "
            "agent.grouped(num_games) with the games that play together"
        )
    num_groups = num_games // group_size
    if num_groups % num_minibatches == 0:
        return GAMES
    if group_size > 1:
        raise ValueError(
            f"num_minibatches={num_minibatches} does not divide the "
            f"{counted(num_groups, 'group')} of {group_size} games, and a "
            "policy that mixes the games of a group keeps each group in one minibatch: "
            "change num_minibatches or num_opponents"
        )
    if recurrent:
        raise ValueError(
            f"num_minibatches={num_minibatches} does not divide the "
            f"{counted(num_games, 'game')} of the batch, and a "
            "recurrent learner keeps each game in one minibatch: change "
            "num_minibatches or num_envs"
        )
    if num_steps % num_minibatches == 0:
        return TIME
    raise ValueError(
        f"num_minibatches={num_minibatches} divides neither the "
        f"{counted(num_games, 'game')} nor the {counted(num_steps, 'step')} of the "
        "batch: change num_minibatches, num_envs or the number of steps"
    )


def indices(
    key: Key[Array, ""], size: int, num_epochs: int, num_minibatches: int
) -> Int[Array, "updates part"]:
    """Returns the indices of each minibatch; every epoch is a permutation of `size`.

    A minibatch that is the whole batch keeps its order: no mean over it would differ.

    Args:
        key: Folded by the number of the epoch.
        size: Length of the permuted axis; `num_minibatches` divides it.
        num_epochs: Passes over the batch.
        num_minibatches: Minibatches of a pass.
    """
    if num_minibatches == 1:
        return jnp.tile(jnp.arange(size), (num_epochs, 1))
    epochs = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(num_epochs))
    orders = jax.vmap(lambda k: jax.random.permutation(k, size))(epochs)
    # [epochs, size] -> [epochs * minibatches, size / minibatches]
    return orders.reshape(num_epochs * num_minibatches, size // num_minibatches)


def of_games(
    groups: Int[Array, "updates part"], group_size: int
) -> Int[Array, "updates games"]:
    """Returns the indices of all games of the groups that are indexed."""
    if group_size == 1:
        return groups
    games = groups[..., None] * group_size + jnp.arange(group_size)
    # [updates, part, group_size] -> [updates, part * group_size]
    return games.reshape(groups.shape[0], -1)


def take(batch: Any, index: Int[Array, " part"], axis: int) -> Any:
    """Returns the part of every leaf of `batch` at `index` along `axis`.

    An index of the whole axis, which comes from `indices` in order, costs nothing.
    """

    def part(x):
        if index.shape[0] == x.shape[axis]:
            return x
        return jnp.take(x, index, axis=axis, mode="clip")

    return jax.tree.map(part, batch)


@dataclasses.dataclass(frozen=True)
class ActorCritic(Learner):
    """A learner with a policy and a value estimate.

    Its actions are `Discrete`, by a categorical distribution, or a `Box` of floats with
    finite bounds, by normal distributions (`config.action_scale`, `action_bound`).

    A subclass says what its policy and its values minimise. All its numbers that may
    change in training are in `state.hyper`, float32 scalars that schedules, samplers
    and searches overwrite without a recompilation: `learning_rate`, `entropy_coeff`,
    `gamma`, `gae_lambda`, `value_coeff`, `max_grad_norm`, and `enabled` (at 0 an update
    leaves the whole training state as it was).

    Attributes:
        config: Static options.
        actor: Own network for the logits; needs `critic`. Default: by `config`.
        critic: Own network for the value.
    """

    config: LearnerConfig = dataclasses.field(default_factory=LearnerConfig)
    actor: nn.Module | None = None
    critic: nn.Module | None = None

    config_class: ClassVar[type[LearnerConfig]] = LearnerConfig

    def __post_init__(self) -> None:
        self.check_config(self.config)
        self._make_distribution(self.action_space, self.config)
        try:
            feed_forward.num_features(self.observation_space)
            if self.config.tabular:
                spaces.num_states(self.observation_space)
        except ValueError as error:
            raise PairingError(str(error)) from error
        if (self.actor is None) != (self.critic is None):
            raise ValueError("actor and critic are given together, or neither is")
        if self.config.tabular and self.actor is not None:
            raise ValueError("tabular=True leaves no place for an own actor")

    @classmethod
    def from_env(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls,
        env: Any,
        config: LearnerConfig | Mapping[str, Any] | None = None,
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
            config: Options, also as a mapping; the class's defaults if None.
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
        env, options = seated(env), cls.config_of(config, overrides)
        action_space = env.action_space(player)
        actor = critic = None
        if actor_class or critic_class or actor_cfg or critic_cfg:
            widths = {
                "hidden_dims": options.hidden_sizes,
                "activation": options.activation,
            }
            outputs = cls._make_distribution(action_space, options).head_size
            actor = _make(
                actor_class or feed_forward.MLPActor,
                {"num_actions": outputs},
                widths,
                actor_cfg,
            )
            critic = _make(critic_class or feed_forward.MLPCritic, widths, critic_cfg)
        observation_space = env.observation_space(player)
        return cls(
            observation_space, action_space, options, actor, critic, greedy=greedy
        )

    @staticmethod
    def _make_distribution(
        action_space: gymnasium.Space, config: LearnerConfig
    ) -> distributions.Distribution:
        return distributions.for_space(
            action_space, config.action_scale, config.action_bound
        )

    @property
    def distribution(self) -> distributions.Distribution:
        """How the network's outputs become actions."""
        return self._make_distribution(self.action_space, self.config)

    @property
    def network(self) -> nn.Module:
        """The network from features to (outputs of the policy, value)."""
        num_scales = self.distribution.num_scales
        if num_scales:
            return feed_forward.WithScales(self._heads, num_scales)
        return self._heads

    @property
    def _heads(self) -> nn.Module:
        config, num_outputs = self.config, self.distribution.head_size
        if self.actor is not None and self.critic is not None:
            return feed_forward.SeparateActorCritic(self.actor, self.critic)
        if config.tabular:
            num_states = spaces.num_states(self.observation_space)
            return feed_forward.TabularActorCritic(num_states, num_outputs)
        widths = {"hidden_dims": config.hidden_sizes, "activation": config.activation}
        if config.shared_torso:
            heads = feed_forward.SharedActorCritic(num_outputs, **widths)
            return feed_forward.seen(heads, self.image)
        actor = feed_forward.MLPActor(num_outputs, **widths)
        critic = feed_forward.MLPCritic(**widths)
        return feed_forward.SeparateActorCritic(
            feed_forward.seen(actor, self.image), feed_forward.seen(critic, self.image)
        )

    @property
    def image(self) -> feed_forward.Image | None:
        """How networks of its own see an observation that is an image, else None."""
        config = self.config
        return feed_forward.image(
            self.observation_space, config.conv_channels, config.kernel_size
        )

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
        minibatch_axis(
            num_steps,
            num_games,
            self.config.num_minibatches,
            recurrent=self.recurrent,
            group_size=self.group_size(num_games),
        )

    def group_size(self, num_games: int) -> int:
        """Returns how many neighbours of a batch of games a loss sees together."""
        del num_games
        return 1

    # Acting.

    def initial_hyper(self) -> Hyperparameters:
        """Returns the traced hyperparameters as the config sets them."""
        return self.traced(
            *("learning_rate", "entropy_coeff", "gamma", "gae_lambda"),
            *("value_coeff", "max_grad_norm"),
        )

    def init_params(self, key: jax.Array) -> Any:
        """Returns fresh parameters of the network; consumes the key."""
        return feed_forward.init(self.network, key, self.observation_space)

    def init_state(self, key: jax.Array) -> TrainingState:
        self.config.check_plan()
        key = keys.typed(key)
        params = self.init_params(jax.random.fold_in(key, 0))
        return TrainingState(
            params=params,
            opt_state=self.optimiser().init(params),
            key=jax.random.fold_in(key, 1),
            timesteps=jnp.zeros((), jnp.int32),
            hyper=self.initial_hyper(),
        )

    def rollout_length(self, num_games: int) -> int:
        del num_games
        return self.config.n_steps

    def forward(
        self, params: Any, obs: Any, hidden: jax.Array
    ) -> tuple[ActionDistribution | TabularDistribution, jax.Array, jax.Array]:
        """Returns (law of the actions, value, next hidden) for one observation."""
        return *self._outputs(params, obs), hidden

    def policy(
        self, state: TrainingState, obs: Any, memory: MemoryState
    ) -> tuple[jax.Array, TrainingState, MemoryState]:
        """Chooses one action and returns (action in its space, state, memory).

        Draws from `fold_in(memory.key, 0)`. `memory.extras` holds the log-probability
        of the action under the policy (also when `greedy`, which takes the mode, of
        several the lowest) and the value of `obs`.
        """
        law, value, hidden = self.forward(state.params, obs, memory.hidden)
        action = law.mode() if self.greedy else law.sample(memory.key)
        memory = memory.replace(
            hidden=hidden,
            key=keys.fold_in(memory.key, 1),
            extras={
                "log_probs": law.log_prob(action),
                "values": value,
            },
        )
        return action, state, memory

    def value(self, state: TrainingState, obs: Any, memory: MemoryState) -> jax.Array:
        return self.forward(state.params, obs, memory.hidden)[1]

    def evaluate(
        self, state: TrainingState, sample: Sample
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        law, values = self._outputs(state.params, sample.observations)
        return law.log_prob(sample.actions), values, law.entropy()

    def _outputs(
        self, params: Any, observations: Any
    ) -> tuple[ActionDistribution | TabularDistribution, jax.Array]:
        """Returns (law of the actions, values) of observations `[..., *space]`."""
        network, space = self.network, self.observation_space
        if not feed_forward.few_states(space):
            outputs, values = feed_forward.apply(network, params, observations, space)
            return ActionDistribution(self.distribution, outputs), values
        outputs, values = feed_forward.tables(network, params, space)
        states = feed_forward.features(observations, space)
        law = TabularDistribution(self.distribution, outputs, states)
        return law, look_up(states, values)


def _make(module_class: Any, *options: dict[str, Any] | None) -> nn.Module:
    """Returns a module made with options; the last ones win, lists become tuples."""
    merged = {name: x for given in options for name, x in (given or {}).items()}
    return module_class(
        **{n: tuple(x) if isinstance(x, list) else x for n, x in merged.items()}
    )
