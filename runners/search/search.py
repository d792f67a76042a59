"""One search over the parameters of one agent: ask, tell, and its state."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Int32, Key, PyTree

from paxenv.environment import where
from paxenv_agents.types import Stats
from runners.search import algorithms, strategies
from runners.search.options import ESOptions

#: A solution, and the members of a population, leaves `[population, ...]`.
Solution = PyTree[Float[Array, "..."], "T"]
Members = PyTree[Float[Array, "population ..."], "T"]
#: The fitness of each member; larger is better.
Fitness = Float[Array, " population"]


class Archive(struct.PyTreeNode):
    """The members of highest fitness, best first; fitness -inf in an empty place.

    A member's fitness is that of its own generation, in which it may have been lucky.

    Attributes:
        solutions: Leaves `[k, ...]`.
        fitness: float32 `[k]`.
        generation: The generation of each, from 0. int32 `[k]`.
    """

    solutions: PyTree[Float[Array, "k ..."]]
    fitness: Float[Array, " k"]
    generation: Int32[Array, " k"]


def empty_archive(solution: Solution, k: int) -> Archive:
    """Returns an empty archive of `k` places for solutions of the same shapes."""
    return Archive(
        solutions=jax.tree.map(lambda x: jnp.zeros((k, *x.shape), x.dtype), solution),
        fitness=jnp.full((k,), -jnp.inf),
        generation=jnp.full((k,), -1, jnp.int32),
    )


def with_members(
    archive: Archive, population: Members, fitness: Fitness, generation: Int[Array, ""]
) -> Archive:
    """Returns the archive after a generation; members with a NaN never enter.

    Args:
        archive: The archive before, of k places.
        population: Leaves `[members, ...]`, at least k members.
        fitness: `[members]`, larger is better.
        generation: The generation's number.
    """
    k = archive.fitness.shape[0]
    known = jnp.where(jnp.isfinite(fitness), fitness, -jnp.inf)
    best, index = jax.lax.top_k(known, k)
    joined = jax.tree.map(
        lambda old, new: jnp.concatenate([old, new[index]]),
        archive.solutions,
        population,
    )
    every = jnp.concatenate([archive.fitness, best])
    born = jnp.concatenate([archive.generation, jnp.full((k,), generation, jnp.int32)])
    kept, places = jax.lax.top_k(every, k)
    return Archive(
        solutions=jax.tree.map(lambda x: x[places], joined),
        fitness=kept,
        generation=born[places],
    )


#: Fields that evosax fills with NaN at first.
UNKNOWN = ("best_solution", "best_solution_shaped", "population_best", "grad")
# Tags under the key of a search.
_START, _FIRST, _INIT = range(3)
#: Most numbers of a solution whose square a strategy may keep: 400 MB in float32.
MAX_SQUARED = 10_000


class SearchState(struct.PyTreeNode):
    """The state of a search; arrays only.

    Attributes:
        strategy: The state of evosax's strategy.
        start: The mean of the first generation, for strategies that keep a population
            instead of a mean; () for others.
        best: The best members so far.
        generation: Generations told. int32.
    """

    strategy: Any
    start: PyTree
    best: Archive
    generation: Int32[Array, ""]


@dataclasses.dataclass(frozen=True)
class Search:
    """A strategy over solutions, any pytree of floats; a larger fitness is better.

    Attributes:
        options: The options of the search.
    """

    options: ESOptions = dataclasses.field(default_factory=ESOptions)

    def __post_init__(self) -> None:
        strategies.check(self.options)
        algorithms.check_population(self.options)

    def __hash__(self) -> int:
        fields = dataclasses.fields(self.options)
        values = (getattr(self.options, f.name) for f in fields if f.name != "options")
        return hash((*values, *sorted(self.options.options.items())))

    @property
    def strategy(self) -> strategies.Strategy:
        """The strategy of evosax."""
        return strategies.find(self.options.strategy)

    def check(self, solution: PyTree[jax.ShapeDtypeStruct | jax.Array]) -> None:
        """Raises ValueError if the strategy cannot search solutions of these shapes.

        Args:
            solution: A pytree of arrays, or of their shapes.
        """
        num_dims = sum(leaf.size for leaf in jax.tree.leaves(solution))
        if num_dims == 0:
            raise ValueError("there is nothing to search: a solution has no numbers")
        if num_dims <= MAX_SQUARED:
            return
        state = jax.eval_shape(self.begin, jax.random.key(0), solution).strategy
        if any(x.shape.count(num_dims) > 1 for x in jax.tree.leaves(state)):
            raise ValueError(
                f"{self.strategy.name} keeps {num_dims:_} x {num_dims:_} numbers for a "
                "solution: take Sep_CMA_ES, SNES, Open_ES or PGPE, or smaller networks"
            )

    def begin(self, key: Key[Array, ""], solution: Solution) -> SearchState:
        """Returns the state before the first generation.

        Args:
            key: Only folded.
            solution: Parameters of the agent's initialiser; if the search starts
                elsewhere, only their shapes matter.
        """
        made, params = self._built(solution)
        start = self._start(jax.random.fold_in(key, _START), solution)
        init_key = jax.random.fold_in(key, _INIT)
        if self.strategy.population_based:
            members = _copies(start, self.options.population_size)
            cost = jnp.zeros(self.options.population_size)
            state = made.init(init_key, members, cost, params)
        else:
            mean = start
            if self.strategy.several:
                mean = _copies(start, made.num_populations)
            state = made.init(init_key, mean, params)
        return SearchState(
            strategy=_strong(_without_unknown(state)),
            start=start if self.strategy.population_based else (),
            best=empty_archive(solution, self.options.num_kept),
            generation=jnp.zeros((), jnp.int32),
        )

    def ask(
        self, key: Key[Array, ""], state: SearchState, solution: Solution
    ) -> tuple[Members, SearchState]:
        """Returns (members, leaves `[population, ...]`, state).

        Args:
            key: Consumed.
            state: The state before.
            solution: Only its shapes matter.
        """
        made, params = self._built(solution)
        members, asked = made.ask(key, state.strategy, params)
        if self.strategy.population_based:
            first = self._first(jax.random.fold_in(key, _FIRST), state.start)
            members = where(state.generation == 0, first, members)
        if self.options.clip_min is not None or self.options.clip_max is not None:
            bounds = self.options.clip_min, self.options.clip_max
            members = jax.tree.map(lambda x: jnp.clip(x, *bounds), members)
        asked = _like(_without_unknown(asked), state.strategy)
        return members, state.replace(strategy=asked)

    def tell(
        self,
        key: Key[Array, ""],
        state: SearchState,
        members: Members,
        fitness: Fitness,
    ) -> tuple[SearchState, Stats]:
        """Returns (state, statistics) after a generation.

        A member whose fitness is not finite counts as the worst of the others; if no
        fitness is finite, the search learns nothing from the generation.

        Args:
            key: Consumed by strategies that draw here.
            state: The state after `ask`.
            members: The members that `ask` returned.
            fitness: `[population]`, larger is better.
        """
        solution = jax.tree.map(lambda x: x[0], members)
        made, params = self._built(solution)
        known = jnp.isfinite(fitness)
        cost = self.cost(members, fitness, known)
        told = members
        if self.strategy.several:
            told = jax.tree.map(
                lambda x: x.reshape(made.num_populations, -1, *x.shape[1:]), members
            )
        after = made.tell(key, told, cost, state.strategy, params)[0]
        after = _like(after, state.strategy)
        if self.strategy.population_based:
            opened = made.init(key, members, cost, params)
            opened = _like(_without_unknown(opened), after)
            after = where(state.generation == 0, opened, after)
        after = where(jnp.any(known), after, state.strategy)
        best = with_members(state.best, members, fitness, state.generation)
        new = state.replace(strategy=after, best=best, generation=state.generation + 1)
        return new, self._report(new, fitness, known, solution)

    def mean(self, state: SearchState, solution: Solution) -> Solution:
        """Returns the mean of a search, or its best member.

        That is the mean of its distribution, or the mean of the means of several
        sub-populations; for strategies that keep a population, its best member.
        """
        made, _ = self._built(solution)
        if self.strategy.population_based:
            now = made.get_best_solution(state.strategy)
            return where(state.generation == 0, state.start, now)
        mean = made.get_mean(state.strategy)
        if self.strategy.several:
            return jax.tree.map(lambda x: jnp.mean(x, axis=0), mean)
        return mean

    def _built(self, solution: Solution) -> tuple[Any, Any]:
        leaves, tree = jax.tree.flatten(solution)
        return _build(self, tree, tuple(leaf.shape for leaf in leaves))

    def _start(self, key: jax.Array, solution: Solution) -> Solution:
        options = self.options
        if options.init_min is not None:
            leaves, tree = jax.tree.flatten(solution)
            bounds = {"minval": options.init_min, "maxval": options.init_max}
            return tree.unflatten(
                jax.random.uniform(
                    jax.random.fold_in(key, i), x.shape, x.dtype, **bounds
                )
                for i, x in enumerate(leaves)
            )
        if options.init == "zero":
            return jax.tree.map(jnp.zeros_like, solution)
        return solution

    def _first(self, key: jax.Array, start: Solution) -> Members:
        """Returns the first population of a strategy that keeps one."""
        size = self.options.population_size
        sigma = algorithms.first_spread(self.options)
        leaves, tree = jax.tree.flatten(start)
        return tree.unflatten(
            x + sigma * jax.random.normal(jax.random.fold_in(key, i), (size, *x.shape))
            for i, x in enumerate(leaves)
        )

    def cost(
        self, members: Members, fitness: Fitness, known: Bool[Array, " population"]
    ) -> Float[Array, " population"]:
        """Returns the cost that evosax minimises, `[population]`.

        Args:
            members: Leaves `[population, ...]`.
            fitness: `[population]`.
            known: Whether it is finite.
        """
        options = self.options
        worst = jnp.min(jnp.where(known, fitness, jnp.inf))
        worst = jnp.where(jnp.any(known), worst, 0.0)
        fitness = jnp.where(known, fitness, worst)
        if options.w_decay:
            fitness = fitness - options.w_decay * _mean_square(members)
        if options.mean_reduce:
            fitness = fitness - jnp.mean(fitness)
        return -fitness

    def _report(
        self,
        state: SearchState,
        fitness: jax.Array,
        known: jax.Array,
        solution: Solution,
    ) -> Stats:
        values = jnp.where(known, fitness, jnp.nan)
        best = state.best.fitness[0]
        mean = self.mean(state, solution)
        return {
            "fitness/mean": jnp.nanmean(values),
            "fitness/std": jnp.nanstd(values),
            "fitness/best": jnp.nanmax(values),
            "fitness/worst": jnp.nanmin(values),
            "fitness/best_so_far": jnp.where(jnp.isfinite(best), best, jnp.nan),
            "nan_members": jnp.sum(~known),
            "sigma": algorithms.sigma_of(state.strategy),
            "mean_norm": jnp.sqrt(sum(jnp.sum(x * x) for x in jax.tree.leaves(mean))),
        }


@functools.cache
def _build(
    search: Search, tree: Any, shapes: tuple[tuple[int, ...], ...]
) -> tuple[Any, Any]:
    # Some strategies compute constants in their constructor, also during a trace.
    with jax.ensure_compile_time_eval():
        solution = tree.unflatten(jnp.zeros(shape) for shape in shapes)
        return algorithms.build(search.options, solution)


def _mean_square(members: Members) -> Float[Array, " population"]:
    """Returns the mean square of each member's parameters, `[members]`."""
    leaves = [x.reshape(x.shape[0], -1) for x in jax.tree.leaves(members)]
    return jnp.mean(jnp.square(jnp.concatenate(leaves, axis=1)), axis=1)


def _copies(tree: Solution, n: int) -> Members:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (n, *x.shape)), tree)


def _strong(tree: Any) -> Any:
    """Returns arrays for Python numbers, so that a loop can carry the state."""
    return jax.tree.map(
        lambda x: jax.lax.convert_element_type(x, jnp.result_type(x)), tree
    )


def _without_unknown(state: Any) -> Any:
    """Returns a strategy's state with 0 for NaN in the fields of `UNKNOWN`.

    A mean that is NaN stays NaN, since the search itself has failed.
    """

    def known(path: Any, x: jax.Array) -> jax.Array:
        unknown = getattr(path[-1], "name", None) in UNKNOWN
        return jnp.where(jnp.isnan(x), 0.0, x) if unknown else x

    return jax.tree.map_with_path(known, state)


def _like(new: Any, old: Any) -> Any:
    """Returns a state with the dtypes and shapes that its loop carries."""

    def like(x: Any, reference: jax.Array) -> jax.Array:
        x = jax.lax.convert_element_type(x, reference.dtype)
        return jnp.broadcast_to(x, reference.shape)

    return jax.tree.map(like, new, old)
