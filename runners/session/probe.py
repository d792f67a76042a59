"""How co-players respond to one forced action: play with it and without it.

`Probed` is an agent that is recorded, and forced to take one action at one step.
"""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from paxenv import COOPERATE
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.types import (
    Acted,
    KeyLike,
    MemoryState,
    Sample,
    Stats,
    TrainingState,
)
from runners.config import ConfigError
from runners.engine.experiment import Experiment, RunState, map_axis, rollout
from runners.engine.program import evaluation_keys, initial_state, with_agents
from runners.planning.plan import Plan
from runners.session import models


@dataclasses.dataclass(frozen=True)
class Probed(Agent):
    """Plays as `agent`, but takes `action` at step `at` of every inner episode.

    Its play is recorded as if it learnt on the trial clock, but no update changes it.
    The agent draws the same numbers as it would alone, so that play with and without
    the forced step is the same up to that step.

    Attributes:
        agent: The agent that plays; its training state is that of the probe.
        at: The step, from 0; None forces nothing.
        action: The forced action, in a `Discrete` space.

    Raises:
        ValueError: If an action is forced on a seat without discrete actions.

    Example:
        >>> titfortat = make_agent("TitForTat", env)
        >>> Probed.of(titfortat, at=10, action=1)
    """

    _: dataclasses.KW_ONLY
    agent: Agent
    at: int | None = None
    action: int = 1

    learns: ClassVar[bool] = True
    #: Of what it played no log-probabilities are kept to learn from.
    on_policy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        choices = getattr(self.action_space, "n", None)
        if self.at is None:
            return
        if choices is None:
            raise ValueError(
                f"an action is forced in discrete games only, this seat has "
                f"{self.action_space}"
            )
        if not 0 <= self.action < choices:
            raise ValueError(
                f"the forced action must be in [0, {choices}), got {self.action}"
            )

    @classmethod
    def of(cls, agent: Agent, *, at: int | None = None, action: int = 1) -> "Probed":
        """Returns the agent, watched, in its own seat."""
        spaces = (agent.observation_space, agent.action_space)
        return cls(*spaces, agent=agent, at=at, action=action, greedy=agent.greedy)

    @property
    def mixes_games(self) -> bool:
        return self.agent.mixes_games

    def grouped(self, num_games: int) -> "Probed":
        return dataclasses.replace(self, agent=self.agent.grouped(num_games))

    def init_state(self, key: KeyLike) -> TrainingState:
        state = self.agent.init_state(key)
        # Whatever an engine takes for a learner can be told to stop.
        return state.replace(hyper={"enabled": jnp.ones(()), **state.hyper})

    def init_memory(
        self, key: Key[Array, ""], hidden: Float[Array, " H"]
    ) -> MemoryState:
        own = self.agent.init_memory(key, self.agent.init_hidden(1)[0])
        return MemoryState(hidden=hidden, key=key, extras=_extras(own, 0))

    def reset_memory(self, memory: MemoryState, eval: bool = False) -> MemoryState:
        own = memory.extras["own"].replace(key=memory.key)
        return memory.replace(extras=_extras(self.agent.reset_memory(own, eval), 0))

    def observe_params(
        self, memory: MemoryState, params: PyTree, player: Int[Array, ""] | int
    ) -> MemoryState:
        own = self.agent.observe_params(memory.extras["own"], params, player)
        return memory.replace(extras={**memory.extras, "own": own})

    def end_inner_episode(
        self, state: TrainingState, memory: MemoryState
    ) -> MemoryState:
        own = self.agent.end_inner_episode(state, memory.extras["own"])
        return memory.replace(extras=_extras(own, 0))

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        step, own = memory.extras["step"], memory.extras["own"]
        agent = dataclasses.replace(self.agent, greedy=self.greedy)
        chosen, _, after = agent.policy(state, obs, own.replace(key=memory.key))
        if self.at is not None:
            chosen = jnp.where(step == self.at, self.action, chosen)
        extras = _extras(after.replace(key=own.key), step + 1)
        return chosen, state, memory.replace(key=after.key, extras=extras)

    def update(
        self, traj: Sample, last_obs: PyTree, state: TrainingState, memory: MemoryState
    ) -> tuple[TrainingState, MemoryState, Stats]:
        del traj, last_obs
        return state, memory, {"gradient_steps": jnp.zeros(())}


@dataclasses.dataclass(frozen=True)
class Response:
    """Rates of action 0 (in dilemmas: cooperation) around one forced action.

    Attributes:
        offsets: Steps after the forced one, `[window]`; below 0 they come before it.
        forced: With the forced action, `[seeds, window, players]`.
        free: Without it, with the same random numbers.
        at: The forced step, from 0.
    """

    offsets: np.ndarray
    forced: np.ndarray
    free: np.ndarray
    at: int

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data: means over seeds, by player."""
        rates = {"forced": self.forced.mean(0), "free": self.free.mean(0)}
        return {
            "at": self.at,
            "offsets": self.offsets.tolist(),
            **{
                name: {f"player_{p + 1}": r[:, p].tolist() for p in range(r.shape[1])}
                for name, r in rates.items()
            },
        }


def probe(plan: Plan, *, player: int, at: int, action: int, window: int) -> Response:
    """Plays every game twice, with and without one forced action.

    Nobody learns. Both times the same random numbers are drawn, so that play is equal
    up to the forced step.

    Args:
        plan: An evaluation; its trials have one inner episode.
        player: The forced player, from 1.
        at: The step of the forced action, from 0.
        action: The forced action.
        window: Steps before and after it that are returned, as far as the episode has
            them.

    Raises:
        ConfigError: If there is no such player or step, or the action does not fit.
    """
    check(plan, player=player, at=at)
    env = plan.env
    forced = _rates(plan, functools.partial(_forced, player - 1, at, action))
    free = _rates(plan, lambda slot: Probed.of(slot.agent))
    steps = slice(max(at - window, 0), at + window + 1)
    offsets = np.arange(env.num_inner_steps)[steps] - at
    return Response(offsets, forced[:, steps], free[:, steps], at)


def check(plan: Plan, *, player: int, at: int) -> None:
    """Raises ConfigError if a plan has no such player or step, or several episodes."""
    env = plan.env
    if env.num_players == 1:
        raise ConfigError(
            f"a probe shows how others answer, and {plan.game.id} has one player"
        )
    if not 1 <= player <= env.num_players:
        raise ConfigError(
            f"player must be in 1 to {env.num_players} of {plan.game.id}, got {player}"
        )
    if not 0 <= at < env.num_inner_steps:
        raise ConfigError(
            f"the step must be in [0, {env.num_inner_steps}), the inner episode, got "
            f"{at}"
        )
    if env.num_outer_steps != 1:
        raise ConfigError(
            f"a probe is of one inner episode: write num_outer_steps=1 instead of "
            f"{env.num_outer_steps}"
        )


def _forced(player: int, at: int, action: int, slot: Slot) -> Probed:
    if player not in slot.players:
        return Probed.of(slot.agent)
    if len(slot.players) > 1:
        raise ConfigError(
            f"player {player + 1} shares its agent with players "
            f"{[p + 1 for p in slot.players]}: give it one of its own"
        )
    try:
        return Probed.of(slot.agent, at=at, action=action)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _rates(plan: Plan, probed: Any) -> np.ndarray:
    """Returns rates of action 0, `[seeds, steps, players]`."""
    slots = tuple(
        dataclasses.replace(slot, agent=probed(slot), clock="trial", per_opponent=False)
        for slot in plan.experiment.slots
    )
    experiment = dataclasses.replace(plan.experiment, slots=slots)
    config = plan.config
    keys = evaluation_keys(config.seed, config.num_seeds)
    state = initial_state(experiment, keys, plan.params)
    state = with_agents(state, models.load_models(plan))
    return np.asarray(_cooperation(experiment, state))


@structure.jit("experiment")
def _cooperation(experiment: Experiment, state: RunState) -> jax.Array:
    def one(state: RunState) -> jax.Array:
        played, _ = rollout(experiment, state)
        return _of_players(experiment, played.play.experiences)

    return map_axis(one, (0,), state.iteration.shape[0])(state)


def _of_players(experiment: Experiment, experiences: Any) -> jax.Array:
    rates: dict[int, jax.Array] = {}
    games = experiment.num_games
    for slot, experience in zip(experiment.slots, experiences, strict=True):
        # [O, T, S * E]
        chose = experience.sample.actions == COOPERATE
        for seat, p in enumerate(slot.players):
            own = chose[..., seat * games : (seat + 1) * games]
            rates[p] = own.mean(axis=(0, 2))
    return jnp.stack([rates[p] for p in sorted(rates)], axis=-1)


def _extras(own: MemoryState, step: Any) -> dict[str, Any]:
    # What an engine records of a learner; a probe has no use for either.
    zero = jnp.zeros((), jnp.float32)
    step = jnp.asarray(step, jnp.int32)
    return {"own": own, "step": step, "log_probs": zero, "values": zero}
