"""Evolution around an inner loop: parameters, hyperparameters, or both."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from paxenv_agents.agent import Agent
from paxenv_agents.types import TrainingState
from runners.engine import population
from runners.engine.rows import FINITE
from runners.engine.tags import AGAIN
from runners.search.outer_options import ESConfig
from runners.search.space import SearchSpace
from runners.search.unit_search import UnitSearch
from runners.session.loop import Chunk
from runners.session.session import Session
from runners.views.outer_loops.generations import Best, Generations
from runners.views.outer_loops.handle import as_statistics
from runners.views.outer_loops.hooks import Hook
from runners.views.outer_loops.individuals import EvaluatedPopulation
from runners.views.outer_loops.outer_runner import OuterRunner, Results

#: The generation whose key the final evaluation has; no search comes so far.
LAST = 2**31


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
        generations: The search: its space, its strategy, and where it stands.

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
        self.generations = Generations(self.config, self.agent, self.key)
        self.session = Session(self.generations, None, dict)
        self._warn_of_groups()

    @property
    def total_n_params(self) -> int:
        """Parameters on which the policy's actions depend."""
        leaves = population.taken(self.agent.agent, self.generations.parent.params)
        return sum(int(x.size) for x in leaves)

    @property
    def space(self) -> SearchSpace:
        """What is searched."""
        return self.generations.space

    @property
    def strategy(self) -> UnitSearch:
        """By what it is searched, in the units of the config."""
        return self.generations.strategy

    @property
    def generation(self) -> int:
        """Generations that are done, in all calls of `run`."""
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
        self.agent.training_state = learner
        self.generations.start_from(self.agent.training_state)

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
        """Runs one generation and returns what to log of it."""
        return self.generations.next_generation()

    def results(self, trained: dict[str, Any]) -> Results:
        """Evaluates what was found so far, and returns what `run` returns."""
        search = self.generations
        key, size = search.key_of(LAST), self.config.population_size
        members = jax.tree.map(
            lambda *x: jnp.stack([x[0], *[x[1]] * (size - 1)]),
            *(search.found, search.center),
        )
        # The other places hold the middle once more: no new program is compiled.
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
        """Leaves the individual that was found in the handle."""
        handle, search = self.agent, self.generations
        hooks = handle.hook_states
        handle.loop = search.individuals.loop(search.space.option_values(search.found))
        handle.env_params = search.env_params
        if self.config.evaluate_in == "own":
            _, handle.env_params = search.space.applied(
                search.parent, search.env_params, search.found
            )
        handle.restart(learner, self.env_steps)
        # What a hook holds at the end of a loop can be read until the next begins.
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
