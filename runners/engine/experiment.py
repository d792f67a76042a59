"""An experiment as one value: its play, and the loop that runs a chunk."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from flax import struct
from jax import core
from jax.sharding import Mesh
from jaxtyping import Array, Int, Key, PyTree

from paxenv import keys, missing, scalars
from paxenv.environment import Environment
from paxenv_agents import structure
from paxenv_agents.engine.game_batch import GameBatch
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import Trial, play_trial, summed_scan
from paxenv_agents.engine.stream import Rollout, open_stream, play_steps
from paxenv_agents.types import TrainingState
from runners.engine import placement
from runners.engine.outer import Gradient, OuterOptimiser, OuterState
from runners.engine.population import Evolving, Generation, play_population
from runners.engine.rows import Row, rollout_row, update_row
from runners.engine.tags import AGENTS, LANES, OUTER, PARAMS, SAMPLERS, slot_key


class RunState(struct.PyTreeNode):
    """Everything that a run changes; arrays only.

    Attributes:
        iteration: Trials played by every lane, which is the next trial's number.
        key: The run's key; only folded.
        params: The game's numbers.
        outer: The outer optimiser's state, with the training states.
        stream: The games in endless play, leaves `[opponents, games, ...]`; () where
            an iteration is a trial.
        starts: For each slot the parameters of a new training state, None for those
            of the agent's initialiser; () if that holds for all.
    """

    iteration: jax.Array
    key: jax.Array
    params: PyTree
    outer: OuterState
    stream: Any = ()
    starts: tuple[Any, ...] = ()

    @property
    def agents(self) -> tuple[TrainingState, ...]:
        """The training states in the order of the slots."""
        return self.outer.agents


class Played(NamedTuple):
    """The results of a rollout, which the update of the iteration reads.

    Attributes:
        play: The trial, rollout or generation, with a leading axis `[opponents]` except
            for the training states of slots without `per_opponent`.
        outer: The outer optimiser's state after `ask`.
    """

    play: Trial | Rollout | Generation
    outer: OuterState


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A game, its slots and an outer optimiser. Frozen and hashable.

    One iteration is two stages: `rollout`, one trial of every game against every
    opponent, or a set number of steps of an endless stream; then `update`, in which the
    outer optimiser changes the agents.

    Attributes:
        env: The game.
        slots: The slots.
        outer: The outer optimiser.
        num_games: Games played at once against each opponent.
        num_opponents: Length of the opponent axis: every slot with `per_opponent` has
            as many training states.
        chunk_size: Rows of the metrics buffer: the most iterations of one call.
        num_steps: Steps that every game plays in an iteration of endless play. None:
            an iteration is a trial.
        keep_returns: Whether the rows of a stream hold the return of every single
            episode, `RETURNS`.
        keep_parts: Whether rows hold the arrays from which several rows are joined,
            `LATEST` and `TOTALS`.
        keep_curves: Whether the row of a trial holds the rewards by inner episode,
            `CURVES`.
        params_sampler: `params_sampler(key, params) -> params`, the game's numbers of a
            trial; compared by identity or equality, like a slot's callables. None:
            those of the state.
        params_per_opponent: Whether it draws for each opponent separately.
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
        """Returns a slot whose agent knows the number of games of one update."""
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
        """The game with its slots."""
        return Lineup(self.env, self.slots, self.num_games)

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration, an upper bound if episodes end early."""
        steps = self.num_steps
        if steps is None:
            steps = self.env.num_inner_steps * self.env.num_outer_steps
        trials = self.outer.num_trials
        return steps * self.num_games * self.num_opponents * trials

    def init(self, run_key: Key[Array, ""], params: PyTree) -> RunState:
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
        self, run_key: Key[Array, ""], params: PyTree, agents: tuple[TrainingState, ...]
    ) -> RunState:
        """Returns the state before the first iteration from given training states.

        Shares no buffer with its arguments.

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
        state = init_outer(self, state)
        if self.num_steps is not None:
            state = state.replace(stream=open_streams(self, state))
        return jax.tree.map(_own, state)


def _own(leaf: jax.Array) -> jax.Array:
    """Returns a copy of strong dtype: a weak one would compile a chunk twice."""
    return jnp.array(leaf, leaf.dtype)


def init_outer(experiment: Experiment, state: RunState) -> RunState:
    """Returns a state whose outer optimiser begins from its current agents."""
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
        experiment: The experiment; static.
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
    """Plays the experience of one update in every lane; changes no learner."""
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
        evolution = cast(Evolving, experiment.outer)
        slots, mesh = experiment.slots, experiment.mesh
        play = play_population(evolution, slots, members, one, mesh)
    row = rollout_row(
        experiment.env,
        experiment.slots,
        play,
        returns=experiment.keep_returns,
        parts=experiment.keep_parts,
        curves=experiment.keep_curves,
    )
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
    """Returns a slot's training state, a new one if a reset is due."""
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
    """Returns a slot's new training state at a reset in trial `e`."""
    slot = experiment.slots[index]
    seat = min(slot.players)

    def one(opponent: jax.Array) -> TrainingState:
        fresh = slot.agent.init_state(slot_key(run_key, AGENTS, e, opponent, seat))
        if slot.sampler is None:
            return fresh
        own = slot_key(run_key, SAMPLERS, e, opponent, seat)
        return fresh.replace(hyper=slot.sampler(own, fresh.hyper))

    if slot.per_opponent:
        return jax.vmap(one)(jnp.arange(experiment.num_opponents))
    return one(jnp.zeros((), jnp.int32))


def trial_params(experiment: Experiment, state: RunState) -> tuple[PyTree, int | None]:
    """Returns (the game's numbers in the next trial, their axis of opponents).

    The draw depends on the run, the trial and the opponent only, so that all members of
    a population play the same games.
    """
    sampler = experiment.params_sampler
    if sampler is None:
        return state.params, None

    def drawn(opponent: jax.Array) -> Any:
        own = slot_key(state.key, SAMPLERS, state.iteration, opponent, PARAMS)
        return sampler(own, state.params)

    if experiment.params_per_opponent:
        return jax.vmap(drawn)(jnp.arange(experiment.num_opponents)), 0
    return drawn(jnp.zeros((), jnp.int32)), None


def lane_keys(
    experiment: Experiment,
    run_key: Key[Array, ""],
    member: int | Int[Array, ""] = 0,
) -> Key[Array, "opponents games"]:
    """Returns the keys of all lanes, `[opponents, games]`, for `paxenv.replay`.

    Args:
        experiment: The experiment.
        run_key: The run's key.
        member: The member whose lanes are returned, in a population without common
            random numbers; with them, 0 stands for all members.
    """
    root = jax.random.fold_in(jax.random.fold_in(run_key, LANES), member)
    opponents = keys.folds(root, experiment.num_opponents)
    return jax.vmap(lambda key: keys.folds(key, experiment.num_games))(opponents)


def open_streams(experiment: Experiment, state: RunState) -> GameBatch:
    """Opens the endless games against every opponent, `[opponents, games, ...]`."""
    lanes = placement.games_on(experiment.mesh, lane_keys(experiment, state.key))
    streams = map_axis(
        functools.partial(open_stream, experiment.lineup),
        (None, experiment.lineup.state_axes, 0),
        experiment.num_opponents,
    )(state.params, state.agents, lanes)
    return placement.games_on(experiment.mesh, streams)


def play_opponents(
    experiment: Experiment, state: RunState, members: tuple[TrainingState, ...]
) -> Trial | Rollout:
    """Plays against every opponent; leaves get a leading axis [opponents]."""
    lineup, num_steps = experiment.lineup, experiment.num_steps
    if num_steps is None:
        return play_trials(experiment, state, members)
    play = functools.partial(play_steps, lineup, num_steps=num_steps)
    played = map_axis(play, (None, lineup.state_axes, 0), experiment.num_opponents)(
        state.params, members, state.stream
    )
    stream = placement.games_on(experiment.mesh, played.stream)
    return played._replace(states=members, stream=stream)


def play_trials(
    experiment: Experiment,
    state: RunState,
    members: tuple[TrainingState, ...],
    member: int | Int[Array, ""] = 0,
    *,
    scan: Callable[..., Any] = jax.lax.scan,
) -> Trial:
    """Plays a trial against every opponent, with the keys of one member."""
    lanes = lane_keys(experiment, state.key, member)
    if experiment.outer.num_members is None:
        lanes = placement.games_on(experiment.mesh, lanes)
    params, params_axis = trial_params(experiment, state)
    trial = map_axis(
        functools.partial(play_trial, experiment.lineup, scan=scan),
        (params_axis, experiment.lineup.state_axes, 0, None),
        experiment.num_opponents,
    )(params, members, lanes, state.iteration)
    # At most one opponent has changed a shared state.
    states = tuple(
        after if slot.per_opponent else jax.tree.map(lambda x: x[0], after)
        for slot, after in zip(experiment.slots, trial.states, strict=True)
    )
    return trial._replace(states=states)


def map_axis(
    f: Callable[..., Any], in_axes: tuple[Any, ...], size: int
) -> Callable[..., Any]:
    """Returns `f` over a leading axis of `size`, by `jax.vmap` if that is above 1.

    `vmap` runs both branches of a `lax.cond`, so it is not used for a single copy.

    Args:
        f: A function of one copy.
        in_axes: For each argument 0, None, or a tuple of these for its parts.
        size: Length of the axis.
    """
    if size != 1:
        return jax.vmap(f, in_axes=in_axes)

    def alone(*args: Any) -> Any:
        parts = [_first(axes, arg) for axes, arg in zip(in_axes, args, strict=True)]
        return jax.tree.map(lambda x: x[None], f(*parts))

    return alone


def _first(axes: Any, tree: Any) -> Any:
    if isinstance(axes, tuple):
        return tuple(_first(a, part) for a, part in zip(axes, tree, strict=True))
    return tree if axes is None else jax.tree.map(lambda x: x[0], tree)
