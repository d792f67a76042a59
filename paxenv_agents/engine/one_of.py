"""One of several agents, drawn anew at the opening of each trial."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from paxenv import keys, spaces
from paxenv_agents.agent import Agent
from paxenv_agents.types import Acted, KeyLike, MemoryState, TrainingState


@dataclasses.dataclass(frozen=True)
class OneOf(Agent):
    """Plays a whole trial as one of its members, each as likely as the others.

    The memory holds the member's number, drawn from the memory's key when a trial is
    opened, and the memories of all members. It does not learn; its training state
    holds those of the members, in order, as `params`.

    Attributes:
        members: The agents, all for the same seat.

    Raises:
        ValueError: If there is no member, or one was made for other spaces.

    Example:
        >>> titfortat = make_agent("TitForTat", env, player=1)
        >>> all_d = make_agent("AllD", env, player=1)
        >>> OneOf.from_env(env, player=1, members=(titfortat, all_d))
    """

    _: dataclasses.KW_ONLY
    members: tuple[Agent, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        if not self.members:
            raise ValueError("OneOf needs at least one member, got none")
        seat = (self.observation_space, self.action_space)
        for member in self.members:
            spaces = (member.observation_space, member.action_space)
            if spaces != seat:
                raise ValueError(
                    f"{type(member).__name__} was made for the spaces {spaces}, the "
                    f"seat has {seat}"
                )

    def init_state(self, key: KeyLike) -> TrainingState:
        states = [
            member.init_state(jax.random.fold_in(key, i))
            for i, member in enumerate(self.members)
        ]
        return TrainingState(params=tuple(states))

    def init_memory(
        self, key: Key[Array, ""], hidden: Float[Array, " H"]
    ) -> MemoryState:
        memories = tuple(
            member.init_memory(_member_key(key, i), member.init_hidden(1)[0])
            for i, member in enumerate(self.members)
        )
        extras = {"index": self._draw(key), "memories": memories}
        return MemoryState(hidden=hidden, key=key, extras=extras)

    def reset_memory(self, memory: MemoryState, eval: bool = False) -> MemoryState:
        memories = tuple(
            member.reset_memory(own, eval)
            for member, own in zip(self.members, self._memories(memory), strict=True)
        )
        extras = {"index": self._draw(memory.key), "memories": memories}
        return memory.replace(extras=extras)

    def observe_params(
        self, memory: MemoryState, params: PyTree, player: Int[Array, ""] | int
    ) -> MemoryState:
        memories = tuple(
            member.observe_params(own, params, player)
            for member, own in zip(self.members, memory.extras["memories"], strict=True)
        )
        return memory.replace(extras={**memory.extras, "memories": memories})

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        shape, dtype = self.action_space.shape, spaces.dtype_of(self.action_space)
        actions, memories = [], []
        for i, member in enumerate(self.members):
            own = memory.extras["memories"][i]
            played = own.replace(key=memory.key)
            action, _, after = member.policy(state.params[i], obs, played)
            actions.append(jnp.asarray(action, dtype).reshape(shape))
            memories.append(after.replace(key=own.key))
        extras = {**memory.extras, "memories": tuple(memories)}
        after = memory.replace(key=keys.fold_in(memory.key, 1), extras=extras)
        return jnp.stack(actions)[memory.extras["index"]], state, after

    def end_inner_episode(
        self, state: TrainingState, memory: MemoryState
    ) -> MemoryState:
        memories = tuple(
            member.end_inner_episode(own_state, own)
            for member, own_state, own in zip(
                self.members, state.params, memory.extras["memories"], strict=True
            )
        )
        return memory.replace(extras={**memory.extras, "memories": memories})

    def _memories(self, memory: MemoryState) -> tuple[MemoryState, ...]:
        """Returns the members' memories, each under its own fold of our key."""
        return tuple(
            own.replace(key=_member_key(memory.key, i))
            for i, own in enumerate(memory.extras["memories"])
        )

    def _draw(self, key: jax.Array) -> jax.Array:
        return keys.below(keys.words(key, 1)[0], len(self.members))


def _member_key(key: jax.Array, i: int) -> jax.Array:
    # Fold 0 is the draw of the member.
    return keys.fold_in(key, 1 + i)
