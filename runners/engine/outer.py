"""Outer optimisers, which change agents between trials by `ask` and `tell`."""

import abc
import dataclasses
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from paxenv_agents.engine.experience import Experience
from paxenv_agents.engine.lineup import Lineup
from paxenv_agents.engine.play import Trial, context_of, samples_of
from paxenv_agents.engine.stream import Rollout
from paxenv_agents.types import Stats, TrainingState


class OuterState(struct.PyTreeNode):
    """The state that an outer optimiser carries from trial to trial.

    Attributes:
        agents: One training state for each slot. Slots with `per_opponent` have a
            leading axis `[opponents]`.
    """

    agents: tuple[TrainingState, ...]


#: The state of an outer optimiser, and the play that it is told of.
State = TypeVar("State", bound=OuterState)
Play = TypeVar("Play")


class OuterOptimiser(abc.ABC, Generic[State, Play]):
    """Changes agents between trials: `ask` returns agents, `tell` takes their play."""

    @property
    def num_members(self) -> int | None:
        """Members of a population that play side by side; None: no such axis."""
        return None

    @property
    def num_trials(self) -> int:
        """Trials of an iteration in every game of every opponent."""
        return 1

    def check(self, lineup: Lineup) -> None:
        """Raises ValueError if it cannot optimise a lineup."""
        del lineup

    def begin(
        self, key: jax.Array, lineup: Lineup, agents: tuple[TrainingState, ...]
    ) -> OuterState:
        """Returns the state before the first trial.

        Args:
            key: Only folded.
            lineup: The game and its slots.
            agents: Fresh training states, one for each slot.
        """
        del key, lineup
        return OuterState(agents=agents)

    def ask(
        self, key: jax.Array, outer: State, lineup: Lineup
    ) -> tuple[tuple[Any, ...], State]:
        """Returns (the members that play the next trial, by slot; the outer state)."""
        del key, lineup
        return outer.agents, outer

    @abc.abstractmethod
    def tell(
        self, key: jax.Array, outer: State, lineup: Lineup, trial: Play
    ) -> tuple[State, tuple[Stats, ...]]:
        """Returns (the outer state after a trial, statistics for each slot)."""


@dataclasses.dataclass(frozen=True)
class Frozen(OuterOptimiser[OuterState, Trial | Rollout]):
    """Changes nothing between trials: evaluation.

    Inner-clock slots still learn within each trial, and start the next one from the
    training state with which they started this one.
    """

    def tell(
        self, key: jax.Array, outer: OuterState, lineup: Lineup, trial: Trial | Rollout
    ) -> tuple[OuterState, tuple[Stats, ...]]:
        """Returns `outer` unchanged, and no statistics."""
        del key, trial
        return outer, ({},) * len(lineup.slots)


@dataclasses.dataclass(frozen=True)
class Gradient(OuterOptimiser[OuterState, Trial | Rollout]):
    """Updates every learner on the trial clock by its own rule: `rl`.

    All slots update from the same snapshot, so their order never matters.
    """

    def tell(
        self, key: jax.Array, outer: OuterState, lineup: Lineup, trial: Trial | Rollout
    ) -> tuple[OuterState, tuple[Stats, ...]]:
        """Returns the outer state after the updates, and each slot's statistics.

        Args:
            key: Not used: learners draw from the keys in their own states.
            outer: The state before the trial.
            lineup: The game and its slots.
            trial: The play, with a leading axis `[opponents]` except for the training
                states of slots without `per_opponent`.
        """
        del key
        agents, stats = [], []
        for i, slot in enumerate(lineup.slots):
            state, report = trial.states[i], {}
            if trial.experiences[i] is not None and slot.per_opponent:
                state, report = _update_each(lineup, i, trial)
            elif trial.experiences[i] is not None:
                state, report = _update_shared(lineup, i, trial)
            agents.append(state)
            stats.append(report)
        return outer.replace(agents=tuple(agents)), tuple(stats)


def _update_each(
    lineup: Lineup, index: int, trial: Trial | Rollout
) -> tuple[TrainingState, Stats]:
    """Updates every opponent's training state from its own games."""

    def one(states: Any, experiences: Any, params: Any) -> tuple[TrainingState, Stats]:
        samples = samples_of(experiences)
        told = context_of(lineup, index, params, states, samples)
        return _update(lineup, index, states[index], experiences[index], told)

    state, report = jax.vmap(one, in_axes=(lineup.state_axes, 0, 0))(
        trial.states, trial.experiences, trial.params
    )
    return state, jax.tree.map(jnp.mean, report)


def _update_shared(
    lineup: Lineup, index: int, trial: Trial | Rollout
) -> tuple[TrainingState, Stats]:
    """Updates one training state from the games against all opponents."""
    samples = samples_of(trial.experiences)
    told = context_of(
        lineup, index, trial.params, trial.states, samples, axes=lineup.state_axes
    )
    experience = trial.experiences[index]
    assert experience is not None
    return _update(lineup, index, trial.states[index], _pooled(experience), told)


def _update(
    lineup: Lineup,
    index: int,
    state: TrainingState,
    experience: Experience,
    told: dict[str, Any],
) -> tuple[TrainingState, Stats]:
    state, _, report = lineup.slots[index].agent.update(
        experience.sample, experience.last_obs, state, experience.memory, **told
    )
    return state, report


def _pooled(experience: Experience) -> Experience:
    """Joins the opponents: [O, T, E, ...] -> [T, O * E, ...]."""

    def time_major(x: jax.Array) -> jax.Array:
        x = jnp.moveaxis(x, 0, 1)
        return x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])

    def flat(x: jax.Array) -> jax.Array:
        return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])

    return Experience(
        sample=jax.tree.map(time_major, experience.sample),
        last_obs=jax.tree.map(flat, experience.last_obs),
        memory=jax.tree.map(flat, experience.memory),
    )
