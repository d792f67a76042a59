"""The inner loop as pure functions: begin, train for some iterations, evaluate."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from paxenv.missing import Flagged, flagged, restored
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.types import TrainingState
from runners.engine.experiment import Experiment, RunState, iterate
from runners.engine.rows import Row
from runners.engine.statistics import summarise
from runners.engine.tags import LEARNER
from runners.session.evaluation import play_episodes
from runners.views.outer_loops import hooks
from runners.views.outer_loops.hooks import Hook, HookContext

#: Most iterations of one call that returns their rows.
ROWS = 256


class InnerState(struct.PyTreeNode):
    """Everything that an inner loop changes; arrays only.

    Attributes:
        run: Games, training state, keys.
        hooks: The hooks' states.
        seen: The metrics of the last iteration, `Flagged`, missing before the first;
            {} where no hook asks for them.
    """

    run: RunState
    hooks: tuple[Any, ...] = ()
    seen: dict[str, Flagged] = struct.field(default_factory=dict)

    @property
    def learner(self) -> TrainingState:
        """The training state."""
        return self.run.agents[0]


@dataclasses.dataclass(frozen=True)
class InnerLoop:
    """One agent that learns in one game. Frozen and hashable.

    Attributes:
        experiment: The agent in endless games.
        hooks: What is called in every iteration.
        num_episodes: Episodes of an evaluation.
        deterministic: Whether evaluated agents take the likeliest action.
    """

    experiment: Experiment
    hooks: tuple[Hook, ...] = ()
    num_episodes: int = 32
    deterministic: bool = True

    @property
    def agent(self) -> Agent:
        """The learner."""
        return self.experiment.slots[0].agent

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration."""
        return self.experiment.steps_per_iteration

    def iterations(self, num_steps: int) -> int:
        """Returns the iterations that hold at least so many environment steps."""
        return -(-num_steps // self.steps_per_iteration)


def make_loop(
    agent: Agent,
    env: Any,
    *,
    num_envs: int,
    num_steps: int,
    hooks: tuple[Hook, ...] = (),
    num_episodes: int = 32,
    deterministic: bool = True,
) -> InnerLoop:
    """Returns the inner loop of an agent in a one-player game.

    Args:
        agent: The learner.
        env: The game.
        num_envs: Games side by side.
        num_steps: The budget, with which the agent's schedules end.
        hooks: What is called in every iteration.
        num_episodes: Episodes of an evaluation.
        deterministic: Whether evaluated agents take the likeliest action.

    Raises:
        ValueError: If agent and game do not fit together.
    """
    length = agent.rollout_length(num_envs)
    agent.check_batch(length, num_envs)
    iterations = max(1, -(-num_steps // (length * num_envs)))
    experiment = Experiment(
        env=env,
        slots=(Slot(agent.planned(iterations)),),
        num_games=num_envs,
        num_steps=length,
    )
    return InnerLoop(experiment, hooks, num_episodes, deterministic)


def begin(
    loop: InnerLoop,
    learner: TrainingState,
    env_params: Any,
    key: jax.Array,
    carried: tuple[Any, ...],
) -> InnerState:
    """Returns the state of an inner loop before its first iteration.

    Args:
        loop: The loop.
        learner: What it starts from; its own draws come from `key` from here on.
        env_params: The game's numbers.
        key: Of all that is random in it; only folded.
        carried: The hooks' states at the end of the inner loop before.
    """
    learner = learner.replace(key=jax.random.fold_in(key, LEARNER))
    run = loop.experiment.begin(key, env_params, (learner,))
    state = InnerState(run, hooks.begin(loop.hooks, carried))
    if not loop.hooks:
        return state
    nothing = _nothing(loop, run)
    seen = {n: Flagged(x, jnp.ones(x.shape, bool)) for n, x in nothing.items()}
    return state.replace(seen=seen)


def _nothing(loop: InnerLoop, run: RunState, num_rows: int | None = None) -> Row:
    """Returns the metrics of no iteration, 0; with an axis of rows if it is said."""
    shapes = jax.eval_shape(lambda s: iterate(loop.experiment, s)[1], run)
    lead = () if num_rows is None else (num_rows,)
    return jax.tree.map(lambda x: jnp.zeros((*lead, *x.shape), x.dtype), shapes)


def advance(
    loop: InnerLoop, state: InnerState, num_iterations: jax.Array
) -> InnerState:
    """Runs iterations; pure. The number is traced, so one compile serves them all."""
    return jax.lax.fori_loop(
        0, num_iterations, lambda _, state: _iteration(loop, state)[0], state
    )


def advance_rows(
    loop: InnerLoop, state: InnerState, num_iterations: jax.Array
) -> tuple[InnerState, dict[str, Flagged]]:
    """Runs at most `ROWS` iterations and returns (state, rows), leaves `[ROWS, ...]`.

    The rows hold what several of them are joined from; those not run are 0.
    """
    experiment = dataclasses.replace(loop.experiment, keep_parts=True)
    loop = dataclasses.replace(loop, experiment=experiment)

    def step(i: jax.Array, carry: tuple[InnerState, Row]) -> tuple[InnerState, Row]:
        state, row = _iteration(loop, carry[0])
        return state, jax.tree.map(lambda b, x: b.at[i].set(x), carry[1], row)

    opening = (state, _nothing(loop, state.run, ROWS))
    state, rows = jax.lax.fori_loop(0, num_iterations, step, opening)
    return state, flagged(rows)


def _iteration(loop: InnerLoop, state: InnerState) -> tuple[InnerState, Row]:
    if not loop.hooks:
        run, row = iterate(loop.experiment, state.run)
        return state.replace(run=run), row
    state = _hooked(loop, "pre_update", state, state.run.iteration)
    run, row = iterate(loop.experiment, state.run)
    seen = flagged({name: row[name] for name in state.seen})
    state = state.replace(run=run, seen=seen)
    return _hooked(loop, "post_update", state, run.iteration - 1), row


def _hooked(
    loop: InnerLoop, event: str, state: InnerState, iteration: jax.Array
) -> InnerState:
    context = HookContext(state.learner.hyper, restored(state.seen), iteration)
    states, hyper = hooks.call(loop.hooks, event, state.hooks, context)
    run = with_learner(state.run, state.learner.replace(hyper=hyper))
    return state.replace(run=run, hooks=states)


def with_learner(run: RunState, learner: TrainingState) -> RunState:
    """Returns the state with another training state."""
    return run.replace(outer=run.outer.replace(agents=(learner,)))


def evaluate(
    loop: InnerLoop, learner: TrainingState, env_params: Any, key: jax.Array
) -> Row:
    """Returns statistics of whole episodes by name, scalars; pure.

    A learner that holds a NaN gets NaN: no policy follows from it.
    """
    env, agent = loop.experiment.env, loop.agent
    if loop.deterministic:
        agent = dataclasses.replace(agent, greedy=True)
    stats = play_episodes(
        *(agent, learner, env, env_params, key),
        n_episodes=loop.num_episodes,
        max_steps=env.num_inner_steps * env.num_outer_steps,
    )
    return summarise(stats)


#: Compiled: static loop.
begin_compiled = structure.jit("loop")(begin)
advance_rows_compiled = structure.jit("loop")(advance_rows)
evaluate_compiled = structure.jit("loop")(evaluate)


@structure.jit("loop")
def fresh_learner(loop: InnerLoop, key: jax.Array) -> TrainingState:
    """Returns a fresh training state; consumes the key."""
    return loop.agent.init_state(key)
