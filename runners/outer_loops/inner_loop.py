"""The inner loop as pure functions: begin, train for some iterations, evaluate."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.lineup import Slot
from paxenv_agents.types import TrainingState
from runners.episode_statistics import summarise
from runners.experiment import Experiment, RunState, iterate
from runners.outer_loops import hooks
from runners.outer_loops.hooks import Hook, HookContext
from runners.rows import Row
from runners.whole_episodes import play_episodes

#: Tag of the learner's own draws under the key of an inner loop.
LEARNER = 6


class InnerState(struct.PyTreeNode):
    """Everything that an inner loop changes; arrays only.

    Attributes:
        run: Games, training state, keys.
        hooks: The hooks' states.
    """

    run: RunState
    hooks: tuple[Any, ...] = ()

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
    return InnerState(run, hooks.begin(loop.hooks, carried))


def advance(
    loop: InnerLoop, state: InnerState, num_iterations: jax.Array
) -> tuple[InnerState, Row]:
    """Runs iterations and returns (state, metrics of the last one).

    Pure; the number is traced, so one compile serves every length. The metrics of no
    iteration at all are NaN.
    """
    step = functools.partial(_iteration, loop)
    shapes = jax.eval_shape(lambda s: iterate(loop.experiment, s)[1], state.run)
    nothing = jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), shapes)
    return jax.lax.fori_loop(
        0, num_iterations, lambda _, carry: step(*carry), (state, nothing)
    )


def _iteration(loop: InnerLoop, state: InnerState, row: Row) -> tuple[InnerState, Row]:
    if not loop.hooks:
        run, row = iterate(loop.experiment, state.run)
        return state.replace(run=run), row
    state = _hooked(loop, "pre_update", state, row, state.run.iteration)
    run, row = iterate(loop.experiment, state.run)
    state = state.replace(run=run)
    return _hooked(loop, "post_update", state, row, run.iteration - 1), row


def _hooked(
    loop: InnerLoop, event: str, state: InnerState, row: Row, iteration: jax.Array
) -> InnerState:
    context = HookContext(state.learner.hyper, row, iteration)
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
advance_compiled = structure.jit("loop")(advance)
evaluate_compiled = structure.jit("loop")(evaluate)


@structure.jit("loop")
def fresh_learner(loop: InnerLoop, key: jax.Array) -> TrainingState:
    """Returns a fresh training state; consumes the key."""
    return loop.agent.init_state(key)
