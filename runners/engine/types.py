"""Types that the engine's modules share: what runs, and where it stands."""

import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax
from flax import struct
from jax.sharding import Mesh

from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.types import TrainingState
from runners.engine.outer import OuterOptimiser, OuterState


class RunState(struct.PyTreeNode):
    """Everything that a run changes; arrays only.

    Attributes:
        iteration: Trials played by every lane, which is the next trial's number.
        key: The run's key; only folded.
        params: The game's numbers.
        outer: The outer optimiser's state, with the training states.
        stream: The games in endless play, leaves `[opponents, games, ...]`; () where
            an iteration is a trial.
        starts: For each slot the parameters with which it starts afresh, None for
            its agent's own; () if that holds for all.
    """

    iteration: jax.Array
    key: jax.Array
    params: Any
    outer: OuterState
    stream: Any = ()
    starts: tuple[Any, ...] = ()

    @property
    def agents(self) -> tuple[TrainingState, ...]:
        """The training states in the order of the slots."""
        return self.outer.agents


class Setup(Protocol):
    """What an `Experiment` says of its play, to the modules that it is made of."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Who sits where."""
        ...

    @functools.cached_property
    def lineup(self) -> Lineup:
        """The game with its seats taken."""
        ...

    @property
    def outer(self) -> OuterOptimiser[Any, Any]:
        """What changes between trials."""
        ...

    @property
    def num_games(self) -> int:
        """Games played at once against each opponent."""
        ...

    @property
    def num_opponents(self) -> int:
        """Length of the opponent axis."""
        ...

    @property
    def num_steps(self) -> int | None:
        """Steps of an iteration of endless play; None: an iteration is a trial."""
        ...

    @property
    def params_sampler(self) -> Callable[[jax.Array, Any], Any] | None:
        """The game's numbers of a trial; None: those of the state."""
        ...

    @property
    def params_per_opponent(self) -> bool:
        """Whether these are drawn for each opponent by itself."""
        ...

    @property
    def mesh(self) -> Mesh | None:
        """The devices over which games or members are spread."""
        ...
