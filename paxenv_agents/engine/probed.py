"""An agent that is recorded, and forced to take one action at one step."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Num, PyTree

from paxenv_agents.agent import Agent
from paxenv_agents.types import KeyLike, MemoryState, Sample, Stats, TrainingState


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

    def policy(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> tuple[Num[Array, "*action"], TrainingState, MemoryState]:
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


def _extras(own: MemoryState, step: Any) -> dict[str, Any]:
    # What an engine records of a learner; a probe has no use for either.
    zero = jnp.zeros((), jnp.float32)
    step = jnp.asarray(step, jnp.int32)
    return {"own": own, "step": step, "log_probs": zero, "values": zero}
