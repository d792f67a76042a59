"""An experiment as one value, and the compiled loop that runs a chunk of it."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from paxenv.environment import Environment
from paxenv.metrics import equality, welfare
from paxenv_agents.lineup import Lineup, Slot
from paxenv_agents.play import Trial, play_trial
from paxenv_agents.types import Stats, TrainingState
from runners.outer import Frozen, Gradient, OuterState

# Tags under the run key.
LANES, AGENTS, OUTER, SAMPLERS = range(4)
COMMON_MEMBER = 0

Row = dict[str, jax.Array]


class RunState(struct.PyTreeNode):
    """Everything that a run changes; arrays only.

    Attributes:
        iteration: Trials played by every lane, which is the next trial's number.
        key: The run's key; only folded.
        params: The game's numbers.
        outer: The outer optimiser's state, with the training states.
    """

    iteration: jax.Array
    key: jax.Array
    params: Any
    outer: OuterState

    @property
    def agents(self) -> tuple[TrainingState, ...]:
        """The training states in the order of the slots."""
        return self.outer.agents


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A game, who plays it, and what changes between trials. Frozen and hashable.

    One iteration is one trial of every game against every opponent, then the outer
    optimiser's turn.

    Attributes:
        env: The game.
        slots: Who sits where.
        outer: The outer optimiser.
        num_games: Games played at once against each opponent.
        num_opponents: Length of the opponent axis: every slot with `per_opponent` has
            as many training states.
        chunk_size: Rows of the metrics buffer: the most iterations of one call.
    """

    env: Environment
    slots: tuple[Slot, ...]
    outer: Gradient | Frozen = dataclasses.field(default_factory=Gradient)
    num_games: int = 1
    num_opponents: int = 1
    chunk_size: int = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", tuple(self.slots))
        for field in ("num_opponents", "chunk_size"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be >= 1, got {getattr(self, field)}")
        for i, slot in enumerate(self.slots):
            shared = not slot.per_opponent and self.num_opponents > 1
            if shared and self.lineup.clock(i) == "inner":
                raise ValueError(
                    f"the slot of players {slot.players} shares one training state "
                    f"over {self.num_opponents} opponents, so it cannot learn on the "
                    "inner clock: set per_opponent=True or clock='trial'"
                )

    @functools.cached_property
    def lineup(self) -> Lineup:
        """The game with its seats taken."""
        return Lineup(self.env, self.slots, self.num_games)

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration, the most where episodes end early."""
        steps = self.env.num_inner_steps * self.env.num_outer_steps
        return steps * self.num_games * self.num_opponents

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
        state = RunState(
            iteration=jnp.zeros((), jnp.int32),
            key=run_key,
            params=params,
            outer=OuterState(agents=agents),
        )
        return jax.tree.map(jnp.copy, state)


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
    return _train_chunk(experiment, state, jnp.asarray(num_iterations, jnp.int32))


@functools.partial(jax.jit, static_argnums=0)
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


def iterate(experiment: Experiment, state: RunState) -> tuple[RunState, Row]:
    """Plays one trial in every lane, then lets the outer optimiser learn."""
    e = state.iteration
    outer_key = jax.random.fold_in(jax.random.fold_in(state.key, OUTER), e)
    members, outer = experiment.outer.ask(jax.random.fold_in(outer_key, 0), state.outer)
    members = tuple(
        _restarted(experiment, i, member, state.key, e)
        for i, member in enumerate(members)
    )
    trial = _play_opponents(experiment, state, members)
    outer, stats = experiment.outer.tell(
        jax.random.fold_in(outer_key, 1), outer, experiment.lineup, trial
    )
    row = _row(experiment, trial, stats)
    return state.replace(iteration=e + 1, outer=outer), row


def lane_keys(experiment: Experiment, run_key: jax.Array) -> jax.Array:
    """Returns the keys of all lanes, `[opponents, games]`, for `paxenv.replay`."""
    root = jax.random.fold_in(jax.random.fold_in(run_key, LANES), COMMON_MEMBER)
    fold = jax.random.fold_in
    opponents = jax.vmap(fold, (None, 0))(root, jnp.arange(experiment.num_opponents))
    games = jnp.arange(experiment.num_games)
    return jax.vmap(lambda k: jax.vmap(fold, (None, 0))(k, games))(opponents)


def _play_opponents(
    experiment: Experiment, state: RunState, members: tuple[TrainingState, ...]
) -> Trial:
    """Plays one trial against every opponent; leaves get a leading axis [opponents]."""
    axes = tuple(0 if slot.per_opponent else None for slot in experiment.slots)
    trial = jax.vmap(
        functools.partial(play_trial, experiment.lineup),
        in_axes=(None, axes, 0, None),
    )(state.params, members, lane_keys(experiment, state.key), state.iteration)
    # A shared state was changed by one opponent at most.
    states = tuple(
        after if slot.per_opponent else jax.tree.map(lambda x: x[0], after)
        for slot, after in zip(experiment.slots, trial.states, strict=True)
    )
    return trial._replace(states=states)


def _restarted(
    experiment: Experiment,
    index: int,
    member: TrainingState,
    run_key: jax.Array,
    e: jax.Array,
) -> TrainingState:
    """Returns a slot's training state, afresh if its reset interval is due."""
    interval = experiment.slots[index].reset_interval
    if interval is None:
        return member
    fresh = _fresh(experiment, index, run_key, e)
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


def _row(experiment: Experiment, trial: Trial, outer_stats: tuple[Stats, ...]) -> Row:
    """Returns the metrics of one iteration, float32 scalars by name."""
    env = experiment.env
    returns = jnp.moveaxis(trial.returns, 2, -1)  # [O, K, P, G] -> [O, K, G, P]
    steps = trial.lengths.sum()
    row: dict[str, Any] = {
        "episode/length": trial.lengths.mean(),
        "episode/count": jnp.asarray(trial.lengths.size),
        "episode/welfare": welfare(returns).mean(),
        "episode/equality": equality(returns).mean(),
    }
    for p in range(env.num_players):
        row[f"episode/return/player_{p + 1}"] = returns[..., p].mean()
        row[f"episode/reward_per_step/player_{p + 1}"] = returns[..., p].sum() / steps
    totals = jax.tree.map(lambda x: x.sum(0), trial.totals)
    named = env.metrics_final(env.metrics_init().replace(totals=totals))
    row |= {f"env/{name}": value for name, value in named.items()}
    for slot, inner, outer in zip(
        experiment.slots, trial.stats, outer_stats, strict=True
    ):
        seat = f"player_{min(slot.players) + 1}"
        report = {k: jnp.mean(v) for k, v in inner.items()} | outer
        row |= {f"train/{seat}/{name}": value for name, value in report.items()}
    return {k: jnp.asarray(v, jnp.float32) for k, v in sorted(row.items())}
