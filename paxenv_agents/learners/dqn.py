"""Deep Q-learning over finitely many actions."""

import dataclasses
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from paxenv import keys, spaces
from paxenv.options import Count, Positive, Share, documented, option
from paxenv_agents.learners import learner
from paxenv_agents.learners.off_policy import OffPolicy, OffPolicyConfig, mixed
from paxenv_agents.learners.replay import Minibatch
from paxenv_agents.networks import feed_forward
from paxenv_agents.ops import categorical, policy_gradient
from paxenv_agents.registry import PairingError
from paxenv_agents.types import Acted, KeyLike, MemoryState, Stats, TrainingState


@documented
@dataclasses.dataclass(frozen=True)
class DQNConfig(OffPolicyConfig):
    """Options of DQN. A value out of range is a ValueError that names it.

    All steps are environment steps over all games.
    """

    epsilon_start: Share = option(
        1.0, "Share of random actions at the end of the warm-up."
    )
    epsilon_end: Share = option(0.02, "Share of random actions in the end.")
    epsilon_steps: Count = option(
        5_000, "Steps of the linear schedule between the two."
    )
    double: bool = option(
        True,
        "Whether the online network chooses the action of the target (double DQN).",
    )
    huber_delta: Positive | None = option(
        None, "Error beyond which the loss is linear; None: the loss is squared."
    )
    max_grad_norm: float | None = 10.0


@dataclasses.dataclass(frozen=True)
class DQN(OffPolicy):
    """Learns action values from replay, and acts epsilon-greedily.

    Loss: half the square of Q(s, a) - (r + gamma^n Q'(s', a*)), where a* is the online
    network's choice (`double`) or the target's own. A time limit is no end: the value
    of the observation to which it led counts.

    With `huber_delta` the loss grows linearly with large errors. It is then minimal at
    a median, which rare ends do not move: where most steps have the same reward, values
    grow without bound.

    Source: Mnih et al., Human-level control through deep reinforcement learning (2015);
    van Hasselt et al., Deep Reinforcement Learning with Double Q-learning (2016).
    """

    config: DQNConfig = DQNConfig()

    hyper: ClassVar[tuple[str, ...]] = (*OffPolicy.hyper, "epsilon_start")
    arithmetic: ClassVar[tuple[str, ...]] = ("epsilon_end", "epsilon_steps")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.action_space, gymnasium.spaces.Discrete):
            raise PairingError(f"DQN plays Discrete actions, got {self.action_space}")

    @property
    def num_actions(self) -> int:
        """The number of actions."""
        return int(self.action_space.n)  # type: ignore[attr-defined]

    @property
    def _network(self) -> feed_forward.MLPActor:
        return feed_forward.MLPActor(
            self.num_actions, self.config.hidden_sizes, self.config.activation
        )

    def action_values(
        self, params: PyTree, observations: PyTree
    ) -> Float[Array, "*batch A"]:
        """Returns the values of all actions, `[..., A]`.

        Args:
            params: Those of one network.
            observations: `[..., *space]`.
        """
        values: Any = feed_forward.apply(
            self._network, params, observations, self.observation_space
        )
        return values

    def init_params(self, key: KeyLike) -> PyTree:
        online = feed_forward.init(self._network, key, self.observation_space)
        return {"online": online, "target": jax.tree.map(jnp.copy, online)}

    def init_opt_state(self, params: PyTree) -> PyTree:
        return self.optimiser().init(params["online"])

    def policy_params(self, params: PyTree) -> PyTree:
        return params["online"]

    def epsilon(self, state: TrainingState) -> Float[Array, ""]:
        """Returns the share of random actions, float32 scalar."""
        config = self.config
        share = (state.timesteps - config.warmup) / config.epsilon_steps
        line = learner.linear(state.hyper["epsilon_start"], config.epsilon_end, share)
        return jnp.where(self.warming_up(state), 1.0, line)

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        """Chooses one action and returns (action, state, memory).

        Draws from `fold_in(memory.key, 0)`. `memory.extras` holds the log-probability
        of the action and the highest value.
        """
        values = self.action_values(state.params["online"], obs)
        best = categorical.mode(values)
        epsilon = jnp.zeros(()) if self.greedy else self.epsilon(state)
        word = keys.words(memory.key, 1)[0]
        likely = jnp.where(jnp.arange(self.num_actions) == best, 1.0 - epsilon, 0.0)
        # A network of NaN has no best action: its log-probabilities are NaN too.
        likely = jnp.where(jnp.isnan(values).any(), jnp.nan, likely)
        probs = likely + epsilon / self.num_actions
        chosen = best if self.greedy else categorical.sample(word, jnp.log(probs))
        memory = memory.replace(
            key=keys.fold_in(memory.key, 1),
            extras={"log_probs": jnp.log(probs[chosen]), "values": jnp.max(values)},
        )
        space: Any = self.action_space
        dtype = spaces.dtype_of(space)
        return (chosen + int(space.start)).astype(dtype), state, memory

    def value(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> Float[Array, ""]:
        return jnp.max(self.action_values(state.params["online"], obs), axis=-1)

    def targets(self, params: PyTree, batch: Minibatch) -> Float[Array, " batch"]:
        """Returns the targets of the values of the actions taken, `[batch]`."""
        ahead = self.action_values(params["target"], batch.next_observations)
        if self.config.double:
            choice = self.action_values(params["online"], batch.next_observations)
        else:
            choice = ahead
        best = jnp.argmax(choice, axis=-1)
        value = jnp.take_along_axis(ahead, best[:, None], axis=-1)[:, 0]
        return batch.rewards + batch.discounts * value

    def penalty(self, error: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Returns the loss of temporal difference errors, of their shape."""
        delta = self.config.huber_delta
        if delta is None:
            return optax.squared_error(error) / 2
        return optax.huber_loss(error, delta=delta)

    def learn(
        self, key: Key[Array, ""], state: TrainingState, batch: Minibatch
    ) -> tuple[TrainingState, Stats]:
        del key
        targets = self.targets(state.params, batch)
        index = batch.actions.astype(jnp.int32) - int(self.action_space.start)  # type: ignore[attr-defined]

        def loss(online: PyTree) -> tuple[jax.Array, jax.Array]:
            values = self.action_values(online, batch.observations)
            taken = jnp.take_along_axis(values, index[:, None], axis=-1)[:, 0]
            error = self.penalty(taken - targets)
            return policy_gradient.weighted_mean(error, batch.weights), taken

        (value_loss, taken), grads = jax.value_and_grad(loss, has_aux=True)(
            state.params["online"]
        )
        online, opt_state, norm = self.descended(
            state.hyper,
            state.params["online"],
            state.opt_state,
            grads,
            state.hyper["learning_rate"],
        )
        params = {**state.params, "online": online}
        stats = {
            "loss/q": value_loss,
            "q_mean": policy_gradient.weighted_mean(taken, batch.weights),
            "grad_norm": norm,
            "epsilon": self.epsilon(state),
            "learning_rate": state.hyper["learning_rate"],
        }
        return state.replace(params=params, opt_state=opt_state), stats

    def with_targets(
        self, state: TrainingState, tau: Float[Array, ""]
    ) -> TrainingState:
        params = state.params
        target = mixed(params["online"], params["target"], tau)
        return state.replace(params={**params, "target": target})
