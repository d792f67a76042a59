"""Generations of a search around inner loops, as a program that a session advances."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from paxenv.missing import flagged, on_host
from paxenv_agents.types import TrainingState
from runners.engine.program import Program, Rows
from runners.engine.rows import FINITE
from runners.engine.tags import ASK, EVALUATE, OUTER, TELL, TRAIN
from runners.search.outer_options import ESConfig
from runners.search.search import Search, SearchState
from runners.search.space import Solution, make_space
from runners.search.unit_search import UnitSearch, make_search
from runners.views.outer_loops.handle import AgentHandle
from runners.views.outer_loops.individuals import (
    FITNESS,
    EvaluatedPopulation,
    Individuals,
    Parent,
    score,
)


class Best(struct.PyTreeNode):
    """The best individual so far.

    Attributes:
        solution: What it began with, apart from the parent.
        learner: What it was when it was evaluated.
        fitness: In its own generation, in which it may have been lucky.
        generation: When it lived, from 0; -1 before the first.
    """

    solution: Solution
    learner: TrainingState
    fitness: jax.Array
    generation: jax.Array


class Generations(Program):
    """A search, its population and how far it has come: a `Program` of a `Session`.

    An iteration is a generation.

    Attributes:
        space: What is searched.
        strategy: By what, in the units of the config.
        individuals: What trains and evaluates a population.
        parent: The training state with which every individual begins.
        env_params: The game's numbers with which it begins.
        iteration: Generations that are done.
        state: Where the strategy stands.
        best: The best individual so far.
    """

    def __init__(self, config: ESConfig, agent: AgentHandle, key: jax.Array) -> None:
        """Begins a search; compiles nothing yet.

        Args:
            config: How it searches.
            agent: The inner loop, and the state of its hooks.
            key: Of everything random; only folded.

        Raises:
            ValueError: If a target cannot be searched.
        """
        self._config, self._agent, self._key = config, agent, key
        self.parent, self.env_params = agent.training_state, agent.env_params
        self.space = make_space(config, agent.agent, self.parent, self.env_params)
        self.individuals = Individuals(config, agent, self.space, key)
        search = make_search(config)
        search.check(self._start)
        self._begin(search)

    def _begin(self, search: Search) -> None:
        self.strategy, self.iteration = self._in_units(search, self._start), 0
        self.state: SearchState = _begin(self.strategy, self.key_of(0))
        self.best = self._empty_best(self._start, self.parent)

    @property
    def _start(self) -> Solution:
        return self.space.start(self.parent, self.env_params)

    def start_from(self, learner: TrainingState) -> None:
        """Makes another training state the parent, before the first generation."""
        if self.iteration:
            raise ValueError("the search has begun: its parent cannot change")
        self.parent = learner
        self._begin(self.strategy.search)

    @property
    def center(self) -> Solution:
        """The middle of the search."""
        return self.strategy.mean(self.state)

    @property
    def found(self) -> Solution:
        """The best solution so far; the middle of the search before the first."""
        return self.best.solution if int(self.best.generation) >= 0 else self.center

    @property
    def env_steps(self) -> int:
        """Environment steps of all individuals so far."""
        return self.individuals.env_steps

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of a generation, all with the options of the parent."""
        return self.individuals.steps_of(self._config.population_size)

    @property
    def max_iterations(self) -> int:
        """The most iterations of one call of `run`."""
        return 1

    def run(self, num_iterations: int) -> Rows:
        """Runs one generation and returns its metrics, float64 `[1, 1]`.

        It is not finite if every individual has failed.
        """
        del num_iterations
        row = self.next_generation()
        failed = row["population/failed"] >= self._config.population_size
        row = {**row, FINITE: float(not failed)}
        return {name: np.array([[value]]) for name, value in row.items()}

    def next_generation(self) -> dict[str, float]:
        """Runs one generation and returns what to log of it."""
        key = self.key_of(1 + self.iteration)
        asking = jax.random.fold_in(key, ASK)
        units, members, asked = _ask(self.strategy, asking, self.state)
        evaluated = self.individuals.evaluate(self.make_parent(key), members)
        fitness = evaluated.statistics[FITNESS]
        telling = jax.random.fold_in(key, TELL)
        self.state, stats = _tell(self.strategy, telling, asked, units, fitness)
        best = int(jnp.argmax(score(fitness)))
        top = float(score(fitness)[best])
        if top > float(self.best.fitness):
            self.best = Best(
                solution=_member(members, best),
                learner=evaluated.learner,
                fitness=jnp.float32(top),
                generation=jnp.int32(self.iteration),
            )
        if math.isfinite(top):
            self._agent.hook_states = evaluated.hooks
        self.iteration += 1
        return self._described(stats, evaluated, _member(members, best))

    def make_parent(self, key: jax.Array) -> Parent:
        """Returns what the individuals of a generation begin with, by its key."""
        return Parent(
            learner=self.parent,
            env_params=self.env_params,
            hooks=self._agent.hook_states,
            train_key=jax.random.fold_in(key, TRAIN),
            eval_key=jax.random.fold_in(key, EVALUATE),
        )

    def _in_units(self, search: Search, start: Solution) -> UnitSearch:
        config = self._config
        sigma = {"parameters": config.sigma_parameters, "hyper": config.sigma_hyper}
        return UnitSearch(search, start, sigma)

    def key_of(self, number: int) -> jax.Array:
        """Returns the key of a generation, from 1; 0 is the beginning."""
        outer = jax.random.fold_in(self._key, OUTER)
        return jax.random.fold_in(outer, jnp.uint32(number))

    def _empty_best(self, start: Solution, learner: TrainingState) -> Best:
        return Best(start, learner, jnp.float32(-jnp.inf), jnp.int32(-1))

    def _described(
        self, stats: Any, evaluated: EvaluatedPopulation, best: Solution
    ) -> dict[str, float]:
        row = {name: float(value) for name, value in on_host(stats).items()}
        row["population/failed"] = row.pop("nan_members")
        row["population/trained_steps"] = float(np.asarray(evaluated.steps).mean())
        center = self.space.values(self.center)
        for group, values in (("best", self.space.values(best)), ("center", center)):
            for name, value in values.items():
                if isinstance(value, int | float):
                    row[f"{group}/{name}"] = float(value)
        return row

    # What is saved.

    def arrays(self) -> Any:
        """Returns everything that the search changes, a pytree of arrays."""
        return {
            "search": self.state,
            "best": self.best,
            "hooks": self._agent.hook_states,
            "clock": np.array([self.iteration, self.env_steps], np.int64),
        }

    def about(self) -> dict[str, Any]:
        """Returns which options the best individual has, as JSON."""
        options = self.space.option_values(self.best.solution)
        options = options if int(self.best.generation) >= 0 else ()
        return {"best_options": [list(pair) for pair in options]}

    def template(self, about: Mapping[str, Any]) -> Any:
        """Returns what `arrays` looks like."""
        own = tuple((name, value) for name, value in about.get("best_options", ()))
        learner = self.individuals.parent_of(own, self.parent)
        return {**self.arrays(), "best": self._empty_best(self._start, learner)}

    def restore(self, arrays: Any, about: Mapping[str, Any]) -> None:
        """Goes on from what `arrays` returned."""
        del about
        self.state, self.best = arrays["search"], arrays["best"]
        self._agent.hook_states = arrays["hooks"]
        self.iteration, self.individuals.env_steps = map(int, arrays["clock"])


_begin = jax.jit(lambda strategy, *rest: strategy.begin(*rest))
_ask = jax.jit(lambda strategy, *rest: strategy.ask(*rest))


@jax.jit
def _tell(strategy: UnitSearch, *rest: Any) -> tuple[SearchState, Any]:
    state, stats = strategy.tell(*rest)
    return state, flagged(stats)


def _member(members: Solution, index: int) -> Solution:
    return jax.tree.map(lambda x: x[index], members)
