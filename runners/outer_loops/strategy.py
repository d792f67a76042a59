"""Strategies of evosax behind one ask and tell; a larger fitness is better."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from runners.outer_loops.families import (
    CENTRED_RANK,
    COST_GRADIENT,
    FULL_COVARIANCE,
    MAX_FULL,
    POPULATIONS,
    check_shaper,
    find,
)

#: Adam's step for strategies that follow a gradient, in units of the search.
LEARNING_RATE = 0.1


class StrategyState(struct.PyTreeNode):
    """Where a strategy stands; arrays only.

    Attributes:
        evosax: The state that evosax keeps.
        start: Where the search began, a solution.
        generation: Generations told. int32.
    """

    evosax: Any
    start: Any
    generation: jax.Array


class Strategy:
    """One strategy over solutions, any pytree of floats; a larger fitness is better.

    evosax works in units around 0: a solution is `start + sigma * u`. So `sigma` means
    the same for every strategy, and may differ from part to part of a solution. The
    first generation of a strategy that keeps a population is drawn around `start`.

    Attributes:
        name: evosax's name.
        shaper: How fitness is shaped before the strategy is told.
        population_size: Members of a generation.
        num_dims: Numbers of a solution.
    """

    def __init__(
        self,
        name: str,
        population_size: int,
        solution: Any,
        *,
        fit_shaper: str = "auto",
        sigma: Any = 1.0,
        learning_rate: float | None = None,
    ) -> None:
        """Makes a strategy.

        Args:
            name: A strategy, in any case.
            population_size: Members of a generation.
            solution: Any solution; only its shapes matter.
            fit_shaper: A shaping, or `"auto"`, the strategy's own.
            sigma: Unit of the search, such as the first deviation from the start: a
                number, or a pytree of them of which `solution` is an extension.
            learning_rate: Adam's, in units of `sigma`, for strategies that follow a
                gradient; None: 0.1.

        Raises:
            ValueError: If something does not fit the strategy.
        """
        self.name = find(name)
        self.shaper = check_shaper(self.name, fit_shaper)
        self.population_size = population_size
        self.num_dims = sum(jnp.size(x) for x in jax.tree.leaves(solution))
        self._populations = self.name in POPULATIONS
        self._groups = 2 if self.name.startswith("SV_") else 1
        self._check_sizes()
        self._sigma = sigma
        self._zero = jax.tree.map(jnp.zeros_like, solution)
        self._algorithm = self._make(learning_rate)
        self._params = self._algorithm.default_params

    def init(self, key: jax.Array, start: Any) -> StrategyState:
        """Returns the state before the first generation; consumes the key."""
        if self._populations:
            members = _copies(self._zero, self.population_size)
            cost = jnp.zeros(self.population_size)
            state = self._algorithm.init(key, members, cost, self._params)
        else:
            groups = self._groups
            mean = _copies(self._zero, groups) if groups > 1 else self._zero
            state = self._algorithm.init(key, mean, self._params)
        start = jax.tree.map(jnp.copy, start)
        return StrategyState(_strong(state), start, jnp.zeros((), jnp.int32))

    def ask(self, key: jax.Array, state: StrategyState) -> tuple[Any, StrategyState]:
        """Returns (members, leaves `[population, ...]`, state); consumes the key."""
        units, asked = self._algorithm.ask(key, state.evosax, self._params)
        if self._populations:
            first = _normals(jax.random.fold_in(key, 1), units)
            opening = state.generation == 0
            units = jax.tree.map(lambda x, y: jnp.where(opening, x, y), first, units)
        asked = _like(asked, state.evosax)
        return self._members(state, units), state.replace(evosax=asked)

    def tell(
        self, key: jax.Array, state: StrategyState, members: Any, fitness: jax.Array
    ) -> StrategyState:
        """Returns the state after a generation.

        A member whose fitness is not finite counts as the worst of the others. Where
        all are, nothing is learnt.

        Args:
            key: Consumed.
            state: What `ask` returned.
            members: What `ask` returned.
            fitness: `[population]`, larger is better.
        """
        known = jnp.isfinite(fitness)
        worst = jnp.max(jnp.where(known, -fitness, -jnp.inf))
        cost = jnp.where(known, -fitness, worst)
        units = self._units(state, members)
        if self._groups > 1:  # [population, ...] -> [groups, population / groups, ...]
            units = jax.tree.map(
                lambda x: x.reshape(self._groups, -1, *x.shape[1:]), units
            )
        told, _ = self._algorithm.tell(key, units, cost, state.evosax, self._params)
        if self._populations:
            first = self._algorithm.init(key, units, cost, self._params)
            opening = state.generation == 0
            told = jax.tree.map(
                lambda x, y: jnp.where(opening, x, y), _like(first, told), told
            )
        told = _like(told, state.evosax)
        learnt = state.replace(evosax=told)
        learnt = jax.tree.map(lambda x, y: jnp.where(known.any(), x, y), learnt, state)
        return learnt.replace(generation=state.generation + 1)

    def mean(self, state: StrategyState) -> Any:
        """Returns the solution in the middle of the search.

        Of a strategy that keeps a population it is the best member, of one that keeps
        several means the mean of them.
        """
        if self._populations:
            units = self._algorithm.get_best_solution(state.evosax)
            opening = state.generation == 0
            units = jax.tree.map(lambda x: jnp.where(opening, 0.0, x), units)
        else:
            units = self._algorithm.get_mean(state.evosax)
            if self._groups > 1:
                units = jax.tree.map(lambda x: x.mean(0), units)
        return jax.tree.map(lambda x: x[0], self._members(state, _copies(units, 1)))

    def _members(self, state: StrategyState, units: Any) -> Any:
        return jax.tree.map(
            lambda sigma, x, u: jax.tree.map(lambda a, b: a + sigma * b, x, u),
            *(self._sigma, state.start, units),
        )

    def _units(self, state: StrategyState, members: Any) -> Any:
        return jax.tree.map(
            lambda sigma, x, m: jax.tree.map(lambda a, b: (b - a) / sigma, x, m),
            *(self._sigma, state.start, members),
        )

    def _check_sizes(self) -> None:
        size, follows = self.population_size, (*CENTRED_RANK, *COST_GRADIENT)
        if self.num_dims == 0:
            raise ValueError("there is nothing to search: a solution has no numbers")
        if size < 4 * self._groups:
            raise ValueError(
                f"population_size must be >= {4 * self._groups} for {self.name}, "
                f"got {size}"
            )
        if (self.name in follows or self._groups > 1) and size % (2 * self._groups):
            raise ValueError(
                f"{self.name} draws members in pairs: population_size must be a "
                f"multiple of {2 * self._groups}, got {size}"
            )
        if self.name in FULL_COVARIANCE and self.num_dims > MAX_FULL:
            raise ValueError(
                f"{self.name} keeps a covariance of {self.num_dims} x {self.num_dims} "
                "numbers: take Sep_CMA_ES, SNES, Open_ES or PGPE, or smaller networks"
            )

    def _make(self, learning_rate: float | None) -> Any:
        import optax
        from evosax.algorithms import algorithms
        from evosax.core import fitness_shaping

        made = algorithms[self.name]
        follows = self.name in (*CENTRED_RANK, *COST_GRADIENT)
        if learning_rate is not None and not follows:
            raise ValueError(
                f"{self.name} follows no gradient, so it has no learning_rate: leave "
                "it out"
            )
        shaping = getattr(fitness_shaping, f"{self.shaper}_fitness_shaping_fn")
        options: dict[str, Any] = {"fitness_shaping_fn": shaping}
        if follows:
            rate = LEARNING_RATE if learning_rate is None else learning_rate
            options["optimizer"] = optax.adam(rate)
        if "sampling_fn" in inspect.signature(made.__init__).parameters:
            zero = self._zero
            options["sampling_fn"] = lambda key: _normals(key, zero)
        if self._groups > 1:
            options["num_populations"] = self._groups
        return made(
            population_size=self.population_size // self._groups,
            solution=self._zero,
            **options,
        )


def _copies(tree: Any, count: int) -> Any:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), tree)


def _normals(key: jax.Array, tree: Any) -> Any:
    """Returns standard normals in the shape of a pytree."""
    leaves, structure = jax.tree.flatten(tree)
    return structure.unflatten(
        jax.random.normal(jax.random.fold_in(key, i), x.shape, x.dtype)
        for i, x in enumerate(leaves)
    )


def _strong(tree: Any) -> Any:
    """Returns a pytree of arrays whose dtypes are their own."""
    return jax.tree.map(lambda x: jnp.array(x, jnp.asarray(x).dtype), tree)


def _like(tree: Any, other: Any) -> Any:
    """Returns a pytree with the dtypes of another one."""
    return jax.tree.map(lambda x, y: jnp.asarray(x, jnp.asarray(y).dtype), tree, other)
