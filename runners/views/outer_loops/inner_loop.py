"""The inner loop as pure functions: begin, train for some iterations, evaluate.

`Hook`s are parts of it: they read its metrics and set hyperparameters.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from paxenv.environment import Environment
from paxenv.missing import Flagged, flagged, restored
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.types import Hyperparameters, TrainingState
from runners.engine.experiment import Experiment, RunState, iterate
from runners.engine.rows import Row
from runners.engine.statistics import summarise
from runners.engine.tags import AGENTS, LEARNER
from runners.search.outer_options import OuterConfig
from runners.session.evaluation import play_episodes
from runners.session.one_learner import experiment_of

#: Most iterations of one call that returns their rows.
ROWS = 256
#: The events of hooks: before an iteration of the inner loop, and after its update.
EVENTS = ("pre_update", "post_update")
#: The lifetimes of a hook's state: one inner loop, or the whole run.
SCOPES = ("loop", "run")


class HookContext(NamedTuple):
    """The arguments of a hook.

    Attributes:
        hyper: The learner's hyperparameters by name, float32 scalars.
        metrics: The metrics of the iteration, float32 scalars by name; with
            `pre_update` those of the one before, NaN before the first.
        iteration: The iteration's number in this inner loop, from 0. int32.
    """

    hyper: Hyperparameters
    metrics: dict[str, jax.Array]
    iteration: jax.Array


@dataclasses.dataclass(frozen=True)
class Hook:
    """A pure function that is called in every iteration of inner loops.

    It runs inside the compiled loop, so its results depend on its arguments alone. If a
    population is trained, every individual has a copy of the state, and the next
    generation begins with that of the best individual.

    Attributes:
        init: Returns the state before the first call, a pytree of arrays.
        call: `(state, context) -> (state, hyper)`, where `hyper` are hyperparameters
            to change.
        event: The event at which it is called, one of `EVENTS`.
        scope: The lifetime of the state: `"loop"` calls `init` for every inner loop,
            `"run"` keeps the state from one inner loop to the next.
    """

    init: Callable[[], Any]
    call: Callable[[Any, HookContext], tuple[Any, Mapping[str, Any]]]
    event: str = "post_update"
    scope: str = "loop"

    def __post_init__(self) -> None:
        for field, known in (("event", EVENTS), ("scope", SCOPES)):
            if getattr(self, field) not in known:
                raise ValueError(
                    f"{field} of a hook must be one of {', '.join(known)}, got "
                    f"{getattr(self, field)!r}"
                )


class InnerState(struct.PyTreeNode):
    """Everything that an inner loop changes; arrays only.

    Attributes:
        run: The states of games and learner, and the run's key.
        hooks: The hooks' states.
        seen: The metrics of the last iteration, `Flagged`, missing before the first;
            {} if no hook reads them.
    """

    run: RunState
    hooks: tuple[Any, ...] = ()
    seen: dict[str, Flagged] = struct.field(default_factory=dict)

    @property
    def learner(self) -> TrainingState:
        """The training state."""
        return self.run.agents[0]

    def with_learner(self, learner: TrainingState) -> "InnerState":
        """Returns the state with another training state."""
        outer = self.run.outer.replace(agents=(learner,))
        return self.replace(run=self.run.replace(outer=outer))


@dataclasses.dataclass(frozen=True)
class InnerLoop:
    """One agent that learns in one game. Frozen and hashable.

    Attributes:
        experiment: The agent in endless games.
        hooks: Functions that are called in every iteration.
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
    env: Environment,
    config: OuterConfig,
    num_envs: int,
    hooks: tuple[Hook, ...] = (),
) -> InnerLoop:
    """Returns the inner loop of an agent in a one-player game.

    Args:
        agent: The learner, without the plan by which its schedules end.
        env: The game.
        config: The length of an inner loop and the options of its evaluation.
        num_envs: Games side by side.
        hooks: Functions that are called in every iteration.

    Raises:
        ValueError: If agent and game do not fit together.
    """
    per_iteration = agent.rollout_length(num_envs) * num_envs
    iterations = max(1, -(-config.inner_steps // per_iteration))
    experiment = experiment_of(agent.planned(iterations), env, num_envs)
    return InnerLoop(experiment, hooks, config.eval_episodes, config.deterministic)


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
        learner: The first training state; its own draws come from `key` from now on.
        env_params: The game's numbers.
        key: The key of all its random numbers; only folded.
        carried: The hooks' states at the end of the inner loop before.
    """
    learner = learner.replace(key=jax.random.fold_in(key, LEARNER))
    run = loop.experiment.begin(key, env_params, (learner,))
    opened = (
        state if hook.scope == "run" else hook.init()
        for hook, state in zip(loop.hooks, carried, strict=True)
    )
    state = InnerState(run, tuple(opened))
    if not loop.hooks:
        return state
    nothing = _nothing(loop, run)
    seen = {n: Flagged(x, jnp.ones(x.shape, bool)) for n, x in nothing.items()}
    return state.replace(seen=seen)


def _nothing(loop: InnerLoop, run: RunState, num_rows: int | None = None) -> Row:
    """Returns metrics of value 0, with an axis of `num_rows` rows if it is given."""
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

    The rows hold the arrays from which several are joined; those not run are 0.
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
    """Calls the hooks of an event in their order.

    Raises:
        ValueError: If a hook sets a name that is no hyperparameter.
    """
    metrics = restored(state.seen)
    hyper, after = dict(state.learner.hyper), []
    for hook, own in zip(loop.hooks, state.hooks, strict=True):
        if hook.event == event:
            own, changed = hook.call(own, HookContext(dict(hyper), metrics, iteration))
            unknown = sorted(set(changed) - set(hyper))
            if unknown:
                raise ValueError(
                    f"a hook sets {', '.join(unknown)}: the hyperparameters are "
                    f"{', '.join(sorted(hyper))}"
                )
            for name, value in changed.items():
                hyper[name] = jnp.asarray(value, hyper[name].dtype)
        after.append(own)
    learner = state.learner.replace(hyper=hyper)
    return state.with_learner(learner).replace(hooks=tuple(after))


def evaluate(
    loop: InnerLoop, learner: TrainingState, env_params: Any, key: jax.Array
) -> Row:
    """Returns statistics of whole episodes by name, scalars; pure.

    The statistics of a learner that holds a NaN are NaN: it has no policy.
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


#: Compiled functions, whose `loop` is static.
begin_compiled = structure.jit("loop")(begin)
advance_rows_compiled = structure.jit("loop")(advance_rows)
evaluate_compiled = structure.jit("loop")(evaluate)


@structure.jit("loop")
def _fresh_learner(loop: InnerLoop, key: jax.Array) -> TrainingState:
    return loop.agent.init_state(key)


def fresh_learner(loop: InnerLoop, key: jax.Array) -> TrainingState:
    """Returns a new training state, the same for equal keys; folds the key."""
    return _fresh_learner(loop, jax.random.fold_in(key, AGENTS))


def fitting_learner(
    loop: InnerLoop, key: jax.Array, learner: TrainingState
) -> TrainingState:
    """Returns a training state, or a new one if the agent's has other shapes."""
    fresh = fresh_learner(loop, key)
    return learner if _shapes(fresh) == _shapes(learner) else fresh


def _shapes(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(jnp.shape(x), jnp.asarray(x).dtype) for x in leaves]
