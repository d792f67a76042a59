"""A population of inner loops, each from a copy of one parent."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paxenv_agents import structure
from paxenv_agents.types import TrainingState
from runners.engine.rows import Row
from runners.search import space
from runners.search.outer_options import ESConfig
from runners.search.space import SearchSpace, Solution
from runners.views.outer_loops import inner_loop
from runners.views.outer_loops.handle import AgentHandle
from runners.views.outer_loops.inner_loop import InnerLoop

#: The metric that a search maximises.
FITNESS = "mean_eval_reward"


@dataclasses.dataclass(frozen=True)
class Trial:
    """The training and evaluation of every individual. Frozen and hashable.

    Attributes:
        loop: Its inner loop.
        space: The search space, by which solutions are read.
        trains: Whether it trains before it is evaluated.
        own_game: Whether it is evaluated in its own game, or in the parent's.
        repeats: The number of its trainings, each with keys of its own.
    """

    loop: InnerLoop
    space: SearchSpace
    trains: bool
    own_game: bool
    repeats: int = 1


class Parent(NamedTuple):
    """The state with which every individual begins.

    Attributes:
        learner: The training state.
        env_params: The game's numbers.
        hooks: The hooks' states.
        train_key: The key of training, shared by all, so that their noise is the same.
        eval_key: The key of evaluation, shared by all.
    """

    learner: TrainingState
    env_params: Any
    hooks: tuple[Any, ...]
    train_key: jax.Array
    eval_key: jax.Array


class EvaluatedPopulation(NamedTuple):
    """The results of a population.

    Attributes:
        statistics: Statistics of each evaluation by name, `[population]`.
        steps: Environment steps of each individual's training, int32 `[population]`.
        learner: The training state of the best one.
        hooks: The hooks' states of the best one.
    """

    statistics: Row
    steps: jax.Array
    learner: TrainingState
    hooks: tuple[Any, ...]


def score(fitness: jax.Array) -> jax.Array:
    """Returns fitness with -inf in place of NaN and infinity, which are never best."""
    return jnp.where(jnp.isfinite(fitness), fitness, -jnp.inf)


def _individual(
    trial: Trial, parent: Parent, num_iterations: jax.Array, solution: Solution
) -> EvaluatedPopulation:
    """Trains and evaluates one individual; keeps the learner of its best repeat."""
    if trial.repeats == 1:
        return _once(trial, parent, num_iterations, solution)

    def repeat(number: jax.Array) -> EvaluatedPopulation:
        keyed = parent._replace(
            train_key=jax.random.fold_in(parent.train_key, number),
            eval_key=jax.random.fold_in(parent.eval_key, number),
        )
        return _once(trial, keyed, num_iterations, solution)

    every = jax.vmap(repeat)(jnp.arange(trial.repeats))
    best = jnp.argmax(score(every.statistics[FITNESS]))
    return EvaluatedPopulation(
        statistics={n: _pooled(n, x) for n, x in every.statistics.items()},
        steps=every.steps.sum(),
        learner=jax.tree.map(lambda x: x[best], every.learner),
        hooks=jax.tree.map(lambda x: x[best], every.hooks),
    )


def _pooled(name: str, values: jax.Array) -> jax.Array:
    """Returns one statistic of all repeats."""
    if name == "eval/n_episodes":
        return values.sum()
    if name in ("eval/min_reward", "eval/max_reward"):
        return values.min() if "min" in name else values.max()
    return values.mean()


def _once(
    trial: Trial, parent: Parent, num_iterations: jax.Array, solution: Solution
) -> EvaluatedPopulation:
    loop = trial.loop
    learner, env_params = trial.space.applied(
        parent.learner, parent.env_params, solution
    )
    state = inner_loop.begin(loop, learner, env_params, parent.train_key, parent.hooks)
    if trial.trains:
        state = inner_loop.advance(loop, state, num_iterations)
    game = env_params if trial.own_game else parent.env_params
    statistics = inner_loop.evaluate(loop, state.learner, game, parent.eval_key)
    steps = state.learner.timesteps - parent.learner.timesteps
    return EvaluatedPopulation(statistics, steps, state.learner, state.hooks)


@structure.jit("trial")
def judge_together(
    trial: Trial, parent: Parent, num_iterations: jax.Array, members: Solution
) -> EvaluatedPopulation:
    """Returns the results of a population, trained side by side.

    Args:
        trial: The training and evaluation; static.
        parent: The state of which every individual gets a copy.
        num_iterations: Iterations of training; traced.
        members: Solutions, leaves `[population, ...]`.
    """
    individual = functools.partial(_individual, trial, parent, num_iterations)
    every = jax.vmap(individual)(members)
    best = jnp.argmax(score(every.statistics[FITNESS]))
    return every._replace(
        learner=jax.tree.map(lambda x: x[best], every.learner),
        hooks=jax.tree.map(lambda x: x[best], every.hooks),
    )


@structure.jit("trial")
def evaluate_subset(
    trial: Trial,
    parent: Parent,
    num_iterations: jax.Array,
    members: Solution,
    indices: jax.Array,
    count: jax.Array,
) -> EvaluatedPopulation:
    """Returns the results of a part of a population, trained one after another.

    One compile serves any number of them. The others' statistics are 0.

    Args:
        trial: The training and evaluation; static.
        parent: The state of which every individual gets a copy.
        num_iterations: Iterations of training; traced.
        members: Solutions, leaves `[population, ...]`.
        indices: Their indices, int32 `[population]`; the first `count` are read.
        count: Their number; traced, at least 1.
    """
    size = indices.shape[0]

    def evaluated(i: Any) -> EvaluatedPopulation:
        solution = jax.tree.map(lambda x: x[indices[i]], members)
        return _individual(trial, parent, num_iterations, solution)

    def step(
        i: Any, carry: tuple[EvaluatedPopulation, jax.Array]
    ) -> tuple[EvaluatedPopulation, jax.Array]:
        old, best = carry
        new, place = evaluated(i), indices[i]
        found = score(new.statistics[FITNESS])
        better = found > best
        learner, hooks = jax.tree.map(
            lambda x, y: jnp.where(better, x, y),
            (new.learner, new.hooks),
            (old.learner, old.hooks),
        )
        statistics = {
            name: x.at[place].set(new.statistics[name])
            for name, x in old.statistics.items()
        }
        steps = old.steps.at[place].set(new.steps)
        return EvaluatedPopulation(statistics, steps, learner, hooks), jnp.maximum(
            found, best
        )

    shapes = jax.eval_shape(evaluated, 0)
    statistics = {
        name: jnp.zeros(size, x.dtype) for name, x in shapes.statistics.items()
    }
    nothing = EvaluatedPopulation(
        statistics, jnp.zeros(size, jnp.int32), parent.learner, shapes[3]
    )
    hooks = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes.hooks)
    opening = (nothing._replace(hooks=hooks), jnp.float32(-jnp.inf))
    return jax.lax.fori_loop(0, count, step, opening)[0]


#: Options of an agent by name; individuals with the same ones share a program.
Options = tuple[tuple[str, Any], ...]


class Individuals:
    """Trains and evaluates populations.

    Attributes:
        env_steps: Environment steps so far, of the members that count.
    """

    def __init__(
        self, config: ESConfig, handle: AgentHandle, space: SearchSpace, key: jax.Array
    ) -> None:
        """Prepares the common parts of all individuals; compiles nothing yet.

        Args:
            config: The options of the search.
            handle: Their agent and game.
            space: The search space.
            key: The key of new training states, where options change their shapes.
        """
        self.env_steps = 0
        self._config, self._space, self._key = config, space, key
        self._agent = handle.unplanned
        self._make_loop = functools.partial(
            inner_loop.make_loop,
            env=handle.env,
            config=config,
            num_envs=handle.num_envs,
            hooks=handle.loop.hooks,
        )
        self._loops: dict[Options, InnerLoop] = {(): handle.loop}

    def evaluate(
        self, parent: Parent, members: Solution, count: int | None = None
    ) -> EvaluatedPopulation:
        """Returns the results of a population.

        Args:
            parent: The state with which every individual begins.
            members: Solutions, leaves `[population, ...]`.
            count: The number of members that count, from the first; None: all. The
                others' statistics have no meaning.
        """
        count = self._config.population_size if count is None else count
        if not self._space.options:
            trial = self._trial(())
            self.env_steps += self.steps_of(count)
            return judge_together(trial, parent, self._budget(trial), members)
        groups: dict[Options, list[int]] = {}
        for i in range(count):
            own = self._space.option_values(jax.tree.map(lambda x, i=i: x[i], members))
            groups.setdefault(own, []).append(i)
        parts = [self._group(parent, members, *group) for group in groups.items()]
        return _joined(parts, list(groups.values()))

    def _group(
        self, parent: Parent, members: Solution, own: Options, indices: list[int]
    ) -> EvaluatedPopulation:
        trial = self._trial(own)
        self.env_steps += self.steps_of(len(indices), own)
        padded = np.zeros(self._config.population_size, np.int32)
        padded[: len(indices)] = indices
        parent = parent._replace(learner=self.parent_of(own, parent.learner))
        return evaluate_subset(
            *(trial, parent, self._budget(trial), members),
            *(jnp.asarray(padded), jnp.int32(len(indices))),
        )

    def loop(self, own: Options) -> InnerLoop:
        """Returns the inner loop of individuals with given options."""
        if own not in self._loops:
            agent = self._agent
            for name, value in own:
                agent = space.with_option(agent, name, value)
            self._loops[own] = self._make_loop(agent)
        return self._loops[own]

    def parent_of(self, own: Options, parent: TrainingState) -> TrainingState:
        """Returns the parent, a new training state if options change its shapes."""
        if not own:
            return parent
        return inner_loop.fitting_learner(self.loop(own), self._key, parent)

    def _trial(self, own: Options) -> Trial:
        return Trial(
            loop=self.loop(own),
            space=self._space,
            trains=self._config.train_agent,
            own_game=self._config.evaluate_in == "own",
            repeats=self._config.repeats,
        )

    def _budget(self, trial: Trial) -> jax.Array:
        return jnp.int32(trial.loop.iterations(self._config.inner_steps))

    def steps_of(self, individuals: int, own: Options = ()) -> int:
        """Returns the environment steps of some individuals with given options."""
        trial = self._trial(own)
        steps = int(self._budget(trial)) * trial.loop.steps_per_iteration
        return individuals * trial.repeats * steps if trial.trains else 0


def _joined(
    parts: list[EvaluatedPopulation], groups: list[list[int]]
) -> EvaluatedPopulation:
    """Joins the results of the groups of a population in the order of its members."""
    whole = parts[0]
    statistics = {name: np.array(x) for name, x in whole.statistics.items()}
    steps = np.array(whole.steps)
    for part, indices in zip(parts[1:], groups[1:], strict=True):
        for name, x in part.statistics.items():
            statistics[name][indices] = np.asarray(x)[indices]
        steps[indices] = np.asarray(part.steps)[indices]
    tops = [float(score(part.statistics[FITNESS]).max()) for part in parts]
    best = parts[int(np.argmax(tops))]
    return EvaluatedPopulation(
        statistics={name: jnp.asarray(x) for name, x in statistics.items()},
        steps=jnp.asarray(steps),
        learner=best.learner,
        hooks=best.hooks,
    )
