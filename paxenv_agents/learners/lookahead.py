"""Co-players after a few gradient steps, differentiable in one's own parameters.

Sampled games give every player's DiCE objective. The co-players ascend theirs by plain
gradient steps, through which the agent's own objective is differentiated.
"""

import dataclasses
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from paxenv_agents.agent import Agent
from paxenv_agents.engine.context import Context
from paxenv_agents.ops import dice
from paxenv_agents.types import Sample, TrainingState

Params = tuple[Any, ...]
Samples = tuple[Sample | None, ...]


class Seat(NamedTuple):
    """The agent that a look-ahead assumes in a slot: that of the run, or a model."""

    agent: Agent
    state: TrainingState


class Returns(NamedTuple):
    """Values and returns of a slot in its rollouts, `[T, seats, games]`.

    Attributes:
        values: Estimates, differentiable.
        targets: Discounted rewards to go.
        valid: Whether the step was played.
    """

    values: jax.Array
    targets: jax.Array
    valid: jax.Array


@dataclasses.dataclass(frozen=True)
class Lookahead:
    """The games of a context, with the agents that are assumed in its slots.

    Attributes:
        context: Of one opponent.
        seats: For each slot the agent that learns there, None where nobody does.
        gamma: Discount of every objective.
        use_baseline: Whether objectives have a baseline.
        num_games: Games of a rollout; None: as many as are played.
    """

    context: Context
    seats: tuple[Seat | None, ...]
    gamma: Any
    use_baseline: bool
    num_games: int | None = None

    @property
    def params(self) -> Params:
        """The parameters of every learner, () for the others."""
        return tuple(() if seat is None else seat.state.params for seat in self.seats)

    def rollout(self, key: Key[Array, ""], params: Params) -> Samples:
        """Returns samples of fresh games that are played with these parameters."""
        states, agents = [], []
        for seat, own in zip(self.seats, params, strict=True):
            agents.append(None if seat is None else seat.agent)
            constant = jax.lax.stop_gradient(own)
            states.append(None if seat is None else seat.state.replace(params=constant))
        played = self.context.play(key, states, self.num_games, agents)
        return jax.lax.stop_gradient(played)

    def objective(
        self, index: int, params: Params, samples: Samples
    ) -> tuple[Float[Array, ""], Returns]:
        """Returns the DiCE objective of a slot, summed over its seats, and its returns.

        The nodes are the actions of every learner, of which `params` may depend on
        each other.
        """
        log_probs: Any = 0.0
        values = None
        for j, seat in enumerate(self.seats):
            sample = samples[j]
            if seat is None or sample is None:
                continue
            state = seat.state.replace(params=params[j])
            own_log_probs, own_values, _ = seat.agent.evaluate(state, sample)
            log_probs += jnp.sum(self._by_seat(j, own_log_probs), axis=1)
            if j == index:
                values = self._by_seat(j, own_values)
        sample = samples[index]
        assert sample is not None
        assert values is not None
        rewards = self._by_seat(index, sample.rewards.astype(jnp.float32))
        valid = self._by_seat(index, sample.valid)
        targets = dice.rewards_to_go(rewards, self.gamma)
        total: Any = 0.0
        for s in range(rewards.shape[1]):
            baseline = None
            if self.use_baseline:
                v_t = jax.lax.stop_gradient(values[:, s])
                baseline = dice.baseline(v_t, targets[:, s], valid[:, s])
            total += dice.objective(
                log_probs, rewards[:, s], self.gamma, baseline, valid[:, s]
            )
        return total, Returns(values, targets, valid)

    def ahead(
        self,
        params: Params,
        keys: Key[Array, " K"],
        rates: tuple[Float[Array, ""] | None, ...],
    ) -> Params:
        """Returns the parameters after a plain gradient step of the others for each
        key, all at once, each from rollouts of its own. Differentiable.

        Args:
            params: Of every learner.
            keys: `[K]`.
            rates: For each slot the size of its step, None where nobody steps.
        """

        def value(theirs: Any, i: int, params: Params, samples: Samples) -> jax.Array:
            joint = (*params[:i], theirs, *params[i + 1 :])
            return self.objective(i, joint, samples)[0]

        def step(params: Params, key: jax.Array) -> tuple[Params, None]:
            samples = self.rollout(key, params)
            after = list(params)
            for i, rate in enumerate(rates):
                if rate is None:
                    continue
                slopes = jax.grad(value)(params[i], i, params, samples)
                after[i] = jax.tree.map(lambda p, g: p + rate * g, params[i], slopes)  # noqa: B023
            return tuple(after), None

        return jax.lax.scan(step, params, keys)[0]

    def _by_seat(self, index: int, x: Any) -> jax.Array:
        """Splits the seats of a slot from its games: [T, S * E] -> [T, S, E]."""
        seats = len(self.context.lineup.slots[index].players)
        return x.reshape(x.shape[0], seats, x.shape[1] // seats)


def logit_share(action_space: gymnasium.Space) -> float:
    """Returns the share of a step that each logit takes; see `LOLAConfig.lr_in`."""
    two = isinstance(action_space, gymnasium.spaces.Discrete) and action_space.n == 2
    return 0.5 if two else 1.0
