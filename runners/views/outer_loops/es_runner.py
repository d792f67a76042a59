"""Evolution around an inner loop: parameters, hyperparameters, or both."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from paxenv.missing import flagged, on_host
from paxenv_agents.agent import Agent
from paxenv_agents.types import TrainingState
from runners.engine import population
from runners.engine.tags import AGAIN, ASK, EVALUATE, OUTER, TELL, TRAIN
from runners.search.outer_options import ESConfig
from runners.search.search import Search, SearchState
from runners.search.space import Solution, make_space
from runners.search.unit_search import UnitSearch, make_search
from runners.views.outer_loops.handle import as_statistics
from runners.views.outer_loops.hooks import Hook
from runners.views.outer_loops.outer_runner import OuterRunner, Results
from runners.views.outer_loops.population import (
    FITNESS,
    EvaluatedPopulation,
    Individuals,
    Options,
    Parent,
    score,
)

#: The generation whose key the final evaluation has; no search comes so far.
LAST = 2**31


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


class ESRunner(OuterRunner):
    """Searches by an evolution strategy of evosax around training.

    A solution is `{"parameters": ..., "hyper": ...}`. Every individual begins with a
    clean copy of the parent, the agent as it was when the runner was made, with its
    solution in it; it trains `num_steps_per_iteration` steps and is evaluated. Within a
    generation all have the same keys, so only solutions make a difference; every
    generation has new ones. Fitness is `mean_eval_reward`.

    Hyperparameters, parameters and numbers of the game are trained side by side in one
    compiled program. Options that change the program (`batch_size`, `hidden_sizes`,
    `n_steps`) group the individuals by their values, one program for each.

    Attributes:
        config: How it searches.
        agent: The inner loop; after `run` the best individual.
        space: What is searched.
        strategy: By what, in the units of the config.
        generation: Generations that are done, in all calls of `run`.
        best: The best individual so far.

    Every `run` adds `iterations` generations, from where the search stands. Only a run
    that was cut off and goes on from a snapshot counts what it has done before. What
    hooks hold is in `agent.hook_states`: those of the best individual of the last
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
        env: Any,
        env_params: Any = None,
        config: ESConfig | None = None,
        *,
        hooks: Sequence[Hook] = (),
        progress: bool = True,
    ) -> None:
        """Makes a runner; arguments and errors as for `OuterRunner`."""
        super().__init__(agent, env, env_params, config, hooks=hooks, progress=progress)
        self._parent = self.agent.training_state
        self._env_params = self.agent.env_params
        self.space = make_space(
            self.config, self.agent.agent, self._parent, self._env_params
        )
        self._individuals = Individuals(self.config, self.agent, self.space, self.key)
        start = self.space.start(self._parent, self._env_params)
        search = make_search(self.config)
        search.check(start)
        self.strategy = self._in_units(search, start)
        self.generation = 0
        self._search = self._begun()
        self.best = self._empty_best(start, self._parent)
        self._warn_of_groups()

    @property
    def total_n_params(self) -> int:
        """Parameters on which the policy's actions depend."""
        leaves = population.taken(self.agent.agent, self._parent.params)
        return sum(int(x.size) for x in leaves)

    def start_from(self, learner: TrainingState) -> None:
        """Makes another training state the parent, before the first generation."""
        if self.generation:
            raise ValueError("the search has begun: its parent cannot change")
        self.agent.training_state = learner
        self._parent = self.agent.training_state
        start = self.space.start(self._parent, self._env_params)
        self.strategy = self._in_units(self.strategy.search, start)
        self._search = self._begun()
        self.best = self._empty_best(start, self._parent)

    def run(self) -> Results:
        """Searches `iterations` generations and evaluates what was found.

        `should_stop` ends it earlier.

        Returns:
            Training results: `step`, generations that are done; `env_step`,
            environment steps of all individuals; `best`, its `fitness`, `generation`
            and `values` by target; `center`, the `values` in the middle of the search.
            Evaluation results: the best individual's in new episodes; `retrained`, of
            its solution trained once more with new keys; `final_mean`, the middle of
            the search, trained alike.
        """
        self.search()
        return self.results()

    def search(self) -> None:
        """Runs `iterations` generations, or fewer if `should_stop` says so."""
        self.turn.begin(self.generation)
        budget = self.config.iterations
        with self._shown(self.turn.began + budget):
            while self.turn.left(budget, self.generation) and not self.should_stop():
                row = self.next_generation()
                self._row(self.generation, self.env_steps, row)

    def next_generation(self) -> dict[str, float]:
        """Runs one generation and returns what to log of it."""
        key = self._generation_key(1 + self.generation)
        asking = jax.random.fold_in(key, ASK)
        units, members, asked = _ask(self.strategy, asking, self._search)
        evaluated = self._individuals.evaluate(self._make_parent(key), members)
        fitness = evaluated.statistics[FITNESS]
        telling = jax.random.fold_in(key, TELL)
        self._search, stats = _tell(self.strategy, telling, asked, units, fitness)
        best = int(jnp.argmax(score(fitness)))
        top = float(score(fitness)[best])
        if top > float(self.best.fitness):
            self.best = Best(
                solution=_member(members, best),
                learner=evaluated.learner,
                fitness=jnp.float32(top),
                generation=jnp.int32(self.generation),
            )
        if math.isfinite(top):
            self.agent.hook_states = evaluated.hooks
        self.generation += 1
        return self._described(stats, evaluated, _member(members, best))

    def results(self) -> Results:
        """Evaluates what was found so far, as `run` returns it."""
        key = self._generation_key(LAST)
        center = self.strategy.mean(self._search)
        found = int(self.best.generation) >= 0
        pair = [self.best.solution if found else center, center]
        size = self.config.population_size
        members = jax.tree.map(
            lambda *x: jnp.stack([x[0], *[x[1]] * (size - 1)]), *pair
        )
        # The other places hold the middle once more: no new program is compiled.
        evaluated = self._individuals.evaluate(self._make_parent(key), members, count=2)
        retrained, final_mean = (_statistics(evaluated, i) for i in range(2))
        learner = self.best.learner if found else evaluated.learner
        options = self.space.option_values(pair[0])
        _, env_params = self.space.applied(self._parent, self._env_params, pair[0])
        self._show(options, learner, env_params)
        again = self.agent.evaluate(jax.random.fold_in(key, AGAIN))
        best = {
            "fitness": float(self.best.fitness) if found else None,
            "generation": int(self.best.generation) if found else None,
            "values": self.space.values(pair[0]),
        }
        results: dict[str, Any] = {**again, "final_mean": final_mean}
        if self.config.train_agent:
            results["retrained"] = retrained
        return {
            "step": self.generation,
            "env_step": self.env_steps,
            "best": best,
            "center": {"values": self.space.values(center)},
        }, results

    def _make_parent(self, key: jax.Array) -> Parent:
        return Parent(
            learner=self._parent,
            env_params=self._env_params,
            hooks=self.agent.hook_states,
            train_key=jax.random.fold_in(key, TRAIN),
            eval_key=jax.random.fold_in(key, EVALUATE),
        )

    @property
    def env_steps(self) -> int:
        """Environment steps of all individuals so far."""
        return self._individuals.env_steps

    def _show(self, own: Options, learner: TrainingState, env_params: Any) -> None:
        """Leaves an individual in the handle."""
        handle = self.agent
        hooks = handle.hook_states
        handle.loop = self._individuals.loop(own)
        own_game = self.config.evaluate_in == "own"
        handle.env_params = env_params if own_game else self._env_params
        handle.restart(learner)
        # What a hook holds at the end of a loop can be read until the next begins.
        handle.hook_states = hooks
        handle.env_steps = self.env_steps

    # The search.

    def _in_units(self, search: Search, start: Solution) -> UnitSearch:
        config = self.config
        sigma = {"parameters": config.sigma_parameters, "hyper": config.sigma_hyper}
        return UnitSearch(search, start, sigma)

    def _generation_key(self, number: int) -> jax.Array:
        outer = jax.random.fold_in(self.key, OUTER)
        return jax.random.fold_in(outer, jnp.uint32(number))

    def _begun(self) -> SearchState:
        return _begin(self.strategy, self._generation_key(0))

    def _empty_best(self, start: Solution, learner: TrainingState) -> Best:
        return Best(start, learner, jnp.float32(-jnp.inf), jnp.int32(-1))

    def _described(
        self, stats: Any, evaluated: EvaluatedPopulation, best: Solution
    ) -> dict[str, float]:
        row = {name: float(value) for name, value in on_host(stats).items()}
        row["population/failed"] = row.pop("nan_members")
        row["population/trained_steps"] = float(np.asarray(evaluated.steps).mean())
        center = self.space.values(self.strategy.mean(self._search))
        for group, values in (("best", self.space.values(best)), ("center", center)):
            for name, value in values.items():
                if isinstance(value, int | float):
                    row[f"{group}/{name}"] = float(value)
        return row

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

    # What is saved.

    def snapshot(self) -> Any:
        """Returns everything that the search changes, a pytree of arrays."""
        clock = [self.generation, self.env_steps, self.turn.began]
        return {
            "search": self._search,
            "best": self.best,
            "hooks": self.agent.hook_states,
            "clock": np.array(clock, np.int64),
        }

    def template(self, about: dict[str, Any]) -> Any:
        """Returns what a snapshot looks like, to read it from a file.

        Args:
            about: What `about` said when it was saved.
        """
        own = tuple((name, value) for name, value in about.get("best_options", ()))
        learner = self._individuals.parent_of(own, self._parent)
        start = self.space.start(self._parent, self._env_params)
        return {**self.snapshot(), "best": self._empty_best(start, learner)}

    def about(self) -> dict[str, Any]:
        """Returns what must be known of a snapshot before it is read; JSON."""
        options = self.space.option_values(self.best.solution)
        options = options if int(self.best.generation) >= 0 else ()
        return {"best_options": [list(pair) for pair in options]}

    def restore(self, snapshot: Any) -> None:
        """Goes on from a snapshot: `run` then ends as if it had not stopped."""
        self._search, self.best = snapshot["search"], snapshot["best"]
        self.agent.hook_states = snapshot["hooks"]
        self.generation, self._individuals.env_steps, began = map(
            int, snapshot["clock"]
        )
        self.turn.resume(began)


_begin = jax.jit(lambda strategy, *rest: strategy.begin(*rest))
_ask = jax.jit(lambda strategy, *rest: strategy.ask(*rest))


@jax.jit
def _tell(strategy: UnitSearch, *rest: Any) -> tuple[SearchState, Any]:
    state, stats = strategy.tell(*rest)
    return state, flagged(stats)


def _member(members: Solution, index: int) -> Solution:
    return jax.tree.map(lambda x: x[index], members)


def _statistics(evaluated: EvaluatedPopulation, index: int) -> dict[str, Any]:
    return as_statistics({name: x[index] for name, x in evaluated.statistics.items()})
