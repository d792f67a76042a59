"""Evolution around an inner loop: parameters, hyperparameters, or both."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import PyTree

from paxenv.missing import flagged, on_host
from paxenv_agents.agent import Agent
from paxenv_agents.types import TrainingState
from runners.engine import population
from runners.engine.program import Program, Rows
from runners.engine.rows import FINITE
from runners.engine.tags import AGAIN, ASK, EVALUATE, OUTER, TELL, TRAIN
from runners.search.outer_options import ESConfig
from runners.search.search import Search, SearchState
from runners.search.space import SearchSpace, Solution, make_space
from runners.search.unit_search import UnitSearch, make_search
from runners.session.loop import Chunk
from runners.session.runner_config import GameLike
from runners.session.session import Session
from runners.views.outer_loops.handle import AgentHandle, as_statistics
from runners.views.outer_loops.individuals import (
    FITNESS,
    EvaluatedPopulation,
    Individuals,
    Parent,
    score,
)
from runners.views.outer_loops.inner_loop import Hook
from runners.views.outer_loops.outer_runner import OuterRunner, Results

#: The number of a generation, beyond any search, whose key the final evaluation gets.
LAST = 2**31


class Best(struct.PyTreeNode):
    """The best individual so far.

    Attributes:
        solution: Its solution.
        learner: Its training state at its evaluation.
        fitness: Its fitness in its own generation, in which it may have been lucky.
        generation: The number of that generation, from 0; -1 before the first.
    """

    solution: Solution
    learner: TrainingState
    fitness: jax.Array
    generation: jax.Array


class Generations(Program):
    """A search, its population and its progress: a `Program` of a `Session`.

    An iteration is a generation.

    Attributes:
        space: The search space.
        strategy: The strategy, over scaled coordinates.
        individuals: Trains and evaluates populations.
        parent: The training state with which every individual begins.
        env_params: The game's numbers with which every individual begins.
        iteration: Completed generations.
        state: The state of the strategy.
        best: The best individual so far.
    """

    def __init__(self, config: ESConfig, agent: AgentHandle, key: jax.Array) -> None:
        """Begins a search; compiles nothing yet.

        Args:
            config: The options of the search.
            agent: The inner loop, and the state of its hooks.
            key: The key of all random numbers; only folded.

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
        """The mean of the search."""
        return self.strategy.mean(self.state)

    @property
    def found(self) -> Solution:
        """The best solution so far; before the first, the mean of the search."""
        return self.best.solution if int(self.best.generation) >= 0 else self.center

    @property
    def env_steps(self) -> int:
        """Environment steps of all individuals so far."""
        return self.individuals.env_steps

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of a generation in which all have the parent's options."""
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
        """Runs one generation and returns its metrics."""
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
        """Returns the parent of a generation's individuals, given its key."""
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

    # State for checkpoints.

    def arrays(self) -> Any:
        """Returns everything that the search changes, a pytree of arrays."""
        return {
            "search": self.state,
            "best": self.best,
            "hooks": self._agent.hook_states,
            "clock": np.array([self.iteration, self.env_steps], np.int64),
        }

    def about(self) -> dict[str, Any]:
        """Returns the options of the best individual, as JSON."""
        options = self.space.option_values(self.best.solution)
        options = options if int(self.best.generation) >= 0 else ()
        return {"best_options": [list(pair) for pair in options]}

    def template(self, about: Mapping[str, Any]) -> Any:
        """Returns a pytree like that of `arrays`."""
        own = tuple((name, value) for name, value in about.get("best_options", ()))
        learner = self.individuals.parent_of(own, self.parent)
        return {**self.arrays(), "best": self._empty_best(self._start, learner)}

    def restore(self, arrays: Any, about: Mapping[str, Any]) -> None:
        """Continues from what `arrays` returned."""
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


class ESRunner(OuterRunner):
    """Searches by an evolution strategy of evosax around training.

    A solution is `{"parameters": ..., "hyper": ...}`. Every individual begins with a
    copy of the parent, the agent as it was when the runner was made, into which its
    solution is put; it trains `num_steps_per_iteration` steps and is evaluated. Within
    a generation all have the same keys, so only solutions make a difference; every
    generation has new keys. Fitness is `mean_eval_reward`.

    Hyperparameters, parameters and numbers of the game are trained side by side in one
    compiled program. Options that change the program (`batch_size`, `hidden_sizes`,
    `n_steps`) group the individuals by their values, one program for each.

    Attributes:
        config: The options of the search.
        agent: The inner loop; after `run` the best individual.
        generations: The search: its space, its strategy and its state.

    Every `run` adds `iterations` generations to the search. Only a run that was
    interrupted and resumed from a snapshot counts its earlier generations. The states
    of the hooks are in `agent.hook_states`: those of the best individual of the last
    generation.

    Example:
        >>> config = ESConfig(
        ...     search_targets=("learning_rate", "entropy_coeff"), iterations=10
        ... )
        >>> runner = ESRunner("PPO", "CartPole-v1", config=config)
        >>> train_results, eval_results = runner.run()
        >>> train_results["best"]["values"]
    """

    config: ESConfig
    config_class = ESConfig

    def __init__(
        self,
        agent: Agent | str,
        env: GameLike,
        env_params: PyTree = None,
        config: ESConfig | None = None,
        *,
        hooks: Sequence[Hook] = (),
        progress: bool = True,
    ) -> None:
        """Makes a runner; arguments and errors as in `OuterRunner`."""
        super().__init__(agent, env, env_params, config, hooks=hooks, progress=progress)
        self.generations = Generations(self.config, self.agent, self.key)
        self.session = Session(self.generations, parts={"turn": self.turn})
        self._warn_of_groups()

    @property
    def total_n_params(self) -> int:
        """Parameters on which the policy's actions depend."""
        leaves = population.taken(self.agent.agent, self.generations.parent.params)
        return sum(int(x.size) for x in leaves)

    @property
    def space(self) -> SearchSpace:
        """The search space."""
        return self.generations.space

    @property
    def strategy(self) -> UnitSearch:
        """The strategy, over scaled coordinates."""
        return self.generations.strategy

    @property
    def generation(self) -> int:
        """Completed generations, in all calls of `run`."""
        return self.generations.iteration

    @property
    def env_steps(self) -> int:
        """Environment steps of all individuals so far."""
        return self.generations.env_steps

    @property
    def best(self) -> Best:
        """The best individual so far."""
        return self.generations.best

    def start_from(self, learner: TrainingState) -> None:
        """Makes another training state the parent, before the first generation."""
        super().start_from(learner)
        self.generations.start_from(self.agent.training_state)

    def run(self) -> Results:
        """Searches `iterations` generations and evaluates the best individual.

        `should_stop` ends it earlier.

        Returns:
            Training results: `step`, completed generations; `env_step`, environment
            steps of all individuals; `best`, the `fitness`, `generation` and `values`
            by target of the best individual; `center`, the `values` of the mean of the
            search. Evaluation results: those of the best individual in new episodes;
            `retrained`, those of its solution trained once more with new keys;
            `final_mean`, those of the mean of the search, trained in the same way.
        """
        return self.results(self.advance())

    def advance(self) -> dict[str, Any]:
        """Runs `iterations` generations, or fewer if `should_stop` says so.

        Returns:
            The training results of `run`.
        """
        self.turn.begin(self.generation)
        end = self.turn.began + self.config.iterations
        with self._shown(end):
            self.session.run(end, on_chunk=(self._look,), **self._watched)
        search, best = self.generations, self.best
        found = int(best.generation) >= 0
        return {
            "step": self.generation,
            "env_step": self.env_steps,
            "best": {
                "fitness": float(best.fitness) if found else None,
                "generation": int(best.generation) if found else None,
                "values": search.space.values(search.found),
            },
            "center": {"values": search.space.values(search.center)},
        }

    def _look(self, chunk: Chunk) -> None:
        row = {n: float(x[0, -1]) for n, x in chunk.rows.items() if n != FINITE}
        self._row(chunk.last, self.env_steps, row)

    def next_generation(self) -> dict[str, float]:
        """Runs one generation and returns its metrics."""
        return self.generations.next_generation()

    def results(self, trained: dict[str, Any]) -> Results:
        """Evaluates the best individual so far, and returns the results of `run`."""
        search = self.generations
        key, size = search.key_of(LAST), self.config.population_size
        members = jax.tree.map(
            lambda *x: jnp.stack([x[0], *[x[1]] * (size - 1)]),
            *(search.found, search.center),
        )
        # Copies of the mean fill the other places, so no new program is compiled.
        evaluated = search.individuals.evaluate(
            search.make_parent(key), members, count=2
        )
        retrained, final_mean = (_statistics(evaluated, i) for i in range(2))
        any_found = int(self.best.generation) >= 0
        self._show(self.best.learner if any_found else evaluated.learner)
        again = self.agent.evaluate(jax.random.fold_in(key, AGAIN))
        results: dict[str, Any] = {**again, "final_mean": final_mean}
        if self.config.train_agent:
            results["retrained"] = retrained
        return {**trained, "env_step": self.env_steps}, results

    def _show(self, learner: TrainingState) -> None:
        """Puts the best individual into the handle."""
        handle, search = self.agent, self.generations
        hooks = handle.hook_states
        handle.loop = search.individuals.loop(search.space.option_values(search.found))
        handle.env_params = search.env_params
        if self.config.evaluate_in == "own":
            _, handle.env_params = search.space.applied(
                search.parent, search.env_params, search.found
            )
        handle.restart(learner, self.env_steps)
        # A hook's state at the end of a loop can be read until the next loop begins.
        handle.hook_states = hooks

    def _warn_of_groups(self) -> None:
        if not self.space.options:
            return
        count = math.prod(len(dim.values) for dim in self.space.options)
        names = ", ".join(dim.name for dim in self.space.options)
        warnings.warn(
            f"every value of {names} is a program of its own: up to {count} are "
            "compiled, and individuals with the same value train one after another",
            stacklevel=3,
        )


def _statistics(evaluated: EvaluatedPopulation, index: int) -> dict[str, Any]:
    return as_statistics({name: x[index] for name, x in evaluated.statistics.items()})
