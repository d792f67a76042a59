"""Information that a privileged learner gets beyond its own experience."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Lineup
from paxenv_agents.types import Sample, TrainingState


class CoPlayer(NamedTuple):
    """The agent of a slot.

    Attributes:
        agent: The agent.
        state: Its training state before the updates of this boundary.
        learns: Whether its slot learns.
    """

    agent: Agent
    state: TrainingState
    learns: bool


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=("params", "states", "samples", "opponent"),
    meta_fields=("lineup", "index", "engine", "axes"),
)
@dataclasses.dataclass(frozen=True)
class Context:
    """The agents of a game, its rules, and a way to play further games.

    Engines make one inside their `vmap`, for agents with `privileges` only. It is a
    pytree of experience and training states; the rules are static.

    Attributes:
        lineup: The game and who sits where.
        index: The slot of the learner that gets the context.
        params: The game's numbers.
        states: Training states before the boundary, in the order of the slots.
        samples: For each learning slot its part of what was just played.
        engine: `engine(lineup, params, states, key)` plays one inner episode.
        opponent: Number of the opponent of this context, 0 if there is only one.
        axes: For each slot the axis of opponents of its state, where params, states
            and samples are of several opponents at once; None: of one.
    """

    lineup: Lineup
    index: int
    params: Any
    states: tuple[TrainingState, ...]
    samples: tuple[Sample | None, ...]
    engine: Callable[..., tuple[Sample | None, ...]]
    opponent: Any = 0
    axes: tuple[int | None, ...] | None = None

    @property
    def co_players(self) -> tuple[CoPlayer, ...]:
        """One for each slot, in order; that of `index` is the learner itself.

        Raises:
            ValueError: If the learner has no privilege `"co_players"`.
        """
        self._check("co_players")
        slots = zip(self.lineup.slots, self.states, strict=True)
        return tuple(CoPlayer(slot.agent, state, slot.learns) for slot, state in slots)

    @property
    def trajs(self) -> tuple[Sample | None, ...]:
        """What was just played, for each slot `[T, seats x games, ...]`, None for those
        that do not learn.

        Raises:
            ValueError: If the learner has no privilege `"trajs"`.
        """
        self._check("trajs")
        return self.samples

    def play(
        self,
        key: Key[Array, ""],
        states: Sequence[TrainingState | None],
        num_games: int | None = None,
        agents: Sequence[Agent | None] | None = None,
    ) -> tuple[Sample | None, ...]:
        """Plays one inner episode by the same numbers, with fresh memories.

        Nobody learns, and nothing of the run changes.

        Args:
            key: Consumed; game i gets a fold of its own.
            states: For each slot the training state that plays; None: its own.
            num_games: How many games; None: as many as the run plays at once.
            agents: For each slot the agent that plays; None: the slot's own.

        Returns:
            For each learning slot a sample `[T, seats x games, ...]`, else None.

        Raises:
            ValueError: If the learner has no privilege `"play"`.
        """
        self._check("play")
        games = self.lineup.num_games if num_games is None else num_games
        slots = []
        for slot, agent in zip(
            self.lineup.slots, agents or [None] * len(states), strict=True
        ):
            clock = "inner" if slot.learns else slot.clock
            own = (agent or slot.agent).sized(games * len(slot.players))
            slots.append(dataclasses.replace(slot, agent=own, clock=clock))
        lineup = Lineup(self.lineup.env, tuple(slots), games)
        given = zip(states, self.states, strict=True)
        playing = tuple(own if state is None else state for state, own in given)
        return self.engine(lineup, self.params, playing, key)

    def each(self, function: Callable[["Context"], Any]) -> Any:
        """Returns `function(context)` for each opponent; leaves are `[opponents, ...]`.

        A learner that has one training state against several opponents learns from all
        of them at once; the contexts that `function` gets are of one opponent.
        """
        if self.axes is None:
            return jax.tree.map(lambda x: jnp.asarray(x)[None], function(self))

        def one(params: PyTree, states: Any, samples: Any, opponent: jax.Array) -> Any:
            context = dataclasses.replace(
                self,
                params=params,
                states=states,
                samples=samples,
                opponent=opponent,
                axes=None,
            )
            return function(context)

        num_opponents = jax.tree.leaves(self.samples[self.index])[0].shape[0]
        return jax.vmap(one, in_axes=(0, self.axes, 0, 0))(
            self.params, self.states, self.samples, jnp.arange(num_opponents)
        )

    def _check(self, privilege: str) -> None:
        agent = self.lineup.slots[self.index].agent
        if privilege not in agent.privileges:
            raise ValueError(
                f"{type(agent).__name__} has no privilege {privilege!r}, only "
                f"{sorted(agent.privileges)}"
            )
