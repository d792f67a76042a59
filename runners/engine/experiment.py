"""An experiment as one value, and the compiled loop that runs a chunk of it."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import core
from jax.sharding import Mesh

from paxenv import missing, scalars
from paxenv.environment import Environment
from paxenv_agents import structure
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import Trial, summed_scan
from paxenv_agents.engine.stream import Rollout
from paxenv_agents.types import TrainingState
from runners.engine import placement
from runners.engine.inner_episodes import CURVES, by_inner_episode
from runners.engine.lanes import lane_keys, open_streams, play_opponents, play_trials
from runners.engine.outer import Gradient, OuterOptimiser, OuterState
from runners.engine.population import Generation, play_population
from runners.engine.rows import RETURNS, Row, rollout_row, update_row
from runners.engine.tags import AGENTS, OUTER, SAMPLERS
from runners.engine.types import RunState

__all__ = [
    "Experiment",
    "Played",
    "RunState",
    "iterate",
    "lane_keys",
    "rollout",
    "train_chunk",
    "update",
    "with_outer_begun",
]


class Played(NamedTuple):
    """What lies between the two stages of an iteration.

    Attributes:
        play: What was played, with a leading axis `[opponents]`, apart from the
            states of slots that share one.
        outer: The outer optimiser's state after `ask`.
    """

    play: Trial | Rollout | Generation
    outer: OuterState


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A game, who plays it, and what changes between trials. Frozen and hashable.

    One iteration is two stages: `rollout`, one trial of every game against every
    opponent, or a set number of steps of an endless stream; then `update`, the outer
    optimiser's turn.

    Attributes:
        env: The game.
        slots: Who sits where.
        outer: The outer optimiser.
        num_games: Games played at once against each opponent.
        num_opponents: Length of the opponent axis: every slot with `per_opponent` has
            as many training states.
        chunk_size: Rows of the metrics buffer: the most iterations of one call.
        num_steps: Steps that every game plays in an iteration; games go on from one
            iteration to the next and open their next trial by themselves. None: an
            iteration is a trial.
        keep_returns: Whether the rows of a stream hold the return of every episode by
            itself, `RETURNS`.
        keep_parts: Whether rows hold of what several of them are joined, `LATEST` and
            `TOTALS`.
        keep_curves: Whether the row of a trial holds the rewards by inner episode,
            `CURVES`.
        params_sampler: `params_sampler(key, params) -> params`, the game's numbers of a
            trial; compared by identity or equality, like a slot's callables. None:
            those of the state.
        params_per_opponent: Whether it draws for each opponent by itself.
        mesh: Devices over which the games are spread, and large parameters divided;
            None: the default device.
    """

    env: Environment
    slots: tuple[Slot, ...]
    outer: OuterOptimiser[Any, Any] = dataclasses.field(default_factory=Gradient)
    num_games: int = 1
    num_opponents: int = 1
    chunk_size: int = 64
    num_steps: int | None = None
    keep_returns: bool = False
    keep_parts: bool = False
    keep_curves: bool = False
    params_sampler: Callable[[jax.Array, Any], Any] | None = None
    params_per_opponent: bool = True
    mesh: Mesh | None = None

    def __post_init__(self) -> None:
        scalars.settle(self)
        object.__setattr__(self, "slots", tuple(map(self._sized, self.slots)))
        for field in ("num_opponents", "chunk_size"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be >= 1, got {getattr(self, field)}")
        members = self.outer.num_members
        if self.mesh is not None and members is None:
            placement.check_games(self.num_games, self.mesh)
        elif self.mesh is not None and members is not None:
            placement.check_members(members, self.mesh)
        if self.num_steps is not None:
            self._check_stream(self.num_steps)
            return
        self.outer.check(self.lineup)
        for i, slot in enumerate(self.slots):
            shared = not slot.per_opponent and self.num_opponents > 1
            if shared and self.lineup.clock(i) == "inner":
                raise ValueError(
                    f"the slot of players {slot.players} shares one training state "
                    f"over {self.num_opponents} opponents, so it cannot learn on the "
                    "inner clock: set per_opponent=True or clock='trial'"
                )

    def _sized(self, slot: Slot) -> Slot:
        """Returns a slot whose agent knows how many games it learns from together."""
        opponents = 1 if slot.per_opponent else self.num_opponents
        seats = len(slot.players) + len(slot.self_play_players)
        games = self.num_games * seats * opponents
        agent = slot.agent.sized(games) if slot.learns else slot.agent
        return slot if agent is slot.agent else dataclasses.replace(slot, agent=agent)

    def _check_stream(self, num_steps: int) -> None:
        if num_steps < 1:
            raise ValueError(f"num_steps must be >= 1, got {num_steps}")
        if self.outer.num_members is not None:
            raise ValueError("members of a population play trials: leave num_steps out")
        if self.params_sampler is not None:
            raise ValueError(
                "params_sampler draws the game's numbers for each trial: leave "
                "num_steps out"
            )
        for slot in self.slots:
            if (
                slot.reset != "never"
                or slot.schedule is not None
                or slot.self_play_players
            ):
                raise ValueError(
                    f"the slot of players {slot.players} has a reset, a schedule or "
                    "self-play, which count trials and inner episodes: leave num_steps "
                    "out"
                )

    @functools.cached_property
    def lineup(self) -> Lineup:
        """The game with its seats taken."""
        return Lineup(self.env, self.slots, self.num_games)

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration, the most where episodes end early."""
        steps = self.num_steps
        if steps is None:
            steps = self.env.num_inner_steps * self.env.num_outer_steps
        trials = self.outer.num_trials
        return steps * self.num_games * self.num_opponents * trials

    def init(self, run_key: jax.Array, params: Any) -> RunState:
        """Returns the state before the first iteration; shares no buffer with `params`.

        Args:
            run_key: The run's key; only folded.
            params: The game's numbers.
        """
        agents = tuple(
            _fresh(self, i, run_key, jnp.zeros((), jnp.int32))
            for i in range(len(self.slots))
        )
        return self.begin(run_key, params, agents)

    def begin(
        self, run_key: jax.Array, params: Any, agents: tuple[TrainingState, ...]
    ) -> RunState:
        """Returns the state before the first iteration of agents that are given.

        Shares no buffer with what it is given.

        Args:
            run_key: The run's key; only folded.
            params: The game's numbers.
            agents: One training state for each slot.
        """
        state = RunState(
            iteration=jnp.zeros((), jnp.int32),
            key=run_key,
            params=params,
            outer=OuterState(agents=placement.learners_on(self.mesh, agents)),
        )
        state = with_outer_begun(self, state)
        if self.num_steps is not None:
            state = state.replace(stream=open_streams(self, state))
        return jax.tree.map(_own, state)


def _own(leaf: jax.Array) -> jax.Array:
    """Returns a copy whose dtype is its own: a weak one would compile a chunk twice."""
    return jnp.array(leaf, leaf.dtype)


def with_outer_begun(experiment: Experiment, state: RunState) -> RunState:
    """Returns a state whose outer optimiser begins with the agents that are there."""
    outer = experiment.outer.begin(
        _outer_key(state, 2), experiment.lineup, state.outer.agents
    )
    return state.replace(outer=outer)


def train_chunk(
    experiment: Experiment, state: RunState, num_iterations: int | jax.Array
) -> tuple[RunState, Row]:
    """Runs iterations in one compiled call and returns (state, metrics).

    One compile serves every chunk length. Does not donate `state`. Under `jax.vmap`
    over `state` it runs many seeds at once.

    Args:
        experiment: What to run; static.
        state: The state before.
        num_iterations: At most `experiment.chunk_size`.

    Returns:
        The state after, and metrics by name, each float32 `[chunk_size]`; rows that
        were not run are NaN.

    Raises:
        ValueError: If more iterations are asked for than the buffer has rows.
    """
    if isinstance(num_iterations, int) and not (
        0 <= num_iterations <= experiment.chunk_size
    ):
        raise ValueError(
            f"num_iterations must be in [0, {experiment.chunk_size}], the chunk size, "
            f"got {num_iterations}"
        )
    number = jnp.asarray(num_iterations, jnp.int32)
    traced = any(isinstance(x, core.Tracer) for x in jax.tree.leaves(state))
    if traced or not missing.stops_at_nan():
        return _train_chunk(experiment, state, number)
    state, rows = _flagged_chunk(experiment, state, number)
    return state, missing.on_device(rows)


@structure.jit("experiment")
def _train_chunk(
    experiment: Experiment, state: RunState, num_iterations: jax.Array
) -> tuple[RunState, Row]:
    def body(i: jax.Array, carry: tuple[RunState, Row]) -> tuple[RunState, Row]:
        state, rows = carry
        state, row = iterate(experiment, state)
        return state, jax.tree.map(lambda b, x: b.at[i].set(x), rows, row)

    shapes = jax.eval_shape(functools.partial(iterate, experiment), state)[1]
    rows = jax.tree.map(
        lambda x: jnp.full((experiment.chunk_size, *x.shape), jnp.nan, x.dtype), shapes
    )
    return jax.lax.fori_loop(0, num_iterations, body, (state, rows))


@structure.jit("experiment")
def _flagged_chunk(
    experiment: Experiment, state: RunState, num_iterations: jax.Array
) -> tuple[RunState, Any]:
    state, rows = _train_chunk(experiment, state, num_iterations)
    return state, missing.flagged(rows)


def iterate(experiment: Experiment, state: RunState) -> tuple[RunState, Row]:
    """Runs both stages of one iteration and returns (state, metrics)."""
    played, seen = rollout(experiment, state)
    state, learnt = update(experiment, state, played)
    return state, seen | learnt


def rollout(experiment: Experiment, state: RunState) -> tuple[Played, Row]:
    """Plays in every lane what one update learns from; changes no learner."""
    e = state.iteration
    members, outer = experiment.outer.ask(
        _outer_key(state, 0), state.outer, experiment.lineup
    )
    members = tuple(
        _restarted(experiment, i, member, state, e) for i, member in enumerate(members)
    )
    if experiment.outer.num_members is None:
        play = play_opponents(experiment, state, members)
    else:
        one = functools.partial(play_trials, experiment, state, scan=summed_scan)
        play = play_population(experiment, members, one)
    row = rollout_row(
        experiment.env, experiment.slots, play, parts=experiment.keep_parts
    )
    if experiment.keep_returns and isinstance(play, Rollout):
        own = jnp.where(play.lengths > 0, play.returns[..., 0], jnp.nan)
        row[RETURNS] = own.astype(jnp.float32)
    if experiment.keep_curves and isinstance(play, Trial):
        row[CURVES] = by_inner_episode(play.episodes)
    return Played(play, outer), row


def update(
    experiment: Experiment, state: RunState, played: Played
) -> tuple[RunState, Row]:
    """Lets the outer optimiser learn from `played` and returns (state, metrics)."""
    outer, stats = experiment.outer.tell(
        _outer_key(state, 1), played.outer, experiment.lineup, played.play
    )
    agents = placement.learners_on(experiment.mesh, outer.agents)
    outer = outer.replace(agents=agents)
    row = update_row(experiment.slots, stats, agents)
    state = state.replace(iteration=state.iteration + 1, outer=outer)
    if isinstance(played.play, Rollout):
        state = state.replace(stream=played.play.stream)
    return state, row


def _outer_key(state: RunState, stage: int) -> jax.Array:
    key = jax.random.fold_in(jax.random.fold_in(state.key, OUTER), state.iteration)
    return jax.random.fold_in(key, stage)


def _restarted(
    experiment: Experiment,
    index: int,
    member: TrainingState,
    state: RunState,
    e: jax.Array,
) -> TrainingState:
    """Returns a slot's training state, afresh if its reset interval is due."""
    interval = experiment.slots[index].reset_interval
    if interval is None:
        return member
    fresh = _fresh(experiment, index, state.key, e)
    start = state.starts[index] if state.starts else None
    if start is not None:
        fresh = fresh.replace(params=start)
    if interval == 1:
        return fresh
    due = e % interval == 0
    return jax.tree.map(lambda new, old: jnp.where(due, new, old), fresh, member)


def _fresh(
    experiment: Experiment, index: int, run_key: jax.Array, e: jax.Array
) -> TrainingState:
    """Returns a slot's training state at a fresh start in trial `e`."""
    slot = experiment.slots[index]
    seat = min(slot.players)

    def tagged(tag: int, opponent: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.fold_in(run_key, tag), e)
        return jax.random.fold_in(jax.random.fold_in(key, opponent), seat)

    def one(opponent: jax.Array) -> TrainingState:
        fresh = slot.agent.init_state(tagged(AGENTS, opponent))
        if slot.sampler is None:
            return fresh
        return fresh.replace(
            hyper=slot.sampler(tagged(SAMPLERS, opponent), fresh.hyper)
        )

    if slot.per_opponent:
        return jax.vmap(one)(jnp.arange(experiment.num_opponents))
    return one(jnp.zeros((), jnp.int32))
