"""The algorithms of evosax, built from options; evosax minimises."""

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from runners.search.options import AUTO, ESOptions
from runners.search.strategies import (
    ADAM,
    GRADIENT,
    SCHEDULE,
    SPREAD,
    STRATEGIES,
    Strategy,
    find,
)

_SHAPINGS = {
    "centered_rank": "centered_rank_fitness_shaping_fn",
    "z_score": "standardize_fitness_shaping_fn",
    "normalize": "normalize_fitness_shaping_fn",
    "none": "identity_fitness_shaping_fn",
    "weights": "weights_fitness_shaping_fn",
}
#: The number of dimensions of the solutions on which a strategy is tried.
_DIMENSIONS = 8


class PopulationError(ValueError):
    """A population size that a strategy does not support."""


def check_population(options: ESOptions) -> None:
    """Raises ValueError for a population size of no use; names the nearest possible."""
    size = options.population_size
    try:
        build(options, _solution(options))
    except PopulationError as error:
        below = (n for n in range(size - 1, 1, -1) if _can_have(options, n))
        above = (n for n in range(size + 1, 2 * size + 8) if _can_have(options, n))
        near = [str(n) for n in (next(below, None), next(above, None)) if n is not None]
        hint = f" Try {' or '.join(near)}." if near else ""
        raise ValueError(f"{error}{hint}") from error


def _can_have(options: ESOptions, size: int) -> bool:
    changed = dataclasses.replace(options, population_size=size, top_k=None)
    try:
        build(changed, _solution(options))
    except PopulationError:
        return False
    return True


def _solution(options: ESOptions) -> jax.Array:
    """Returns a solution that fits the options, on which a strategy is tried."""
    whole = [value for value in options.options.values() if isinstance(value, int)]
    return jnp.zeros(max([_DIMENSIONS, *whole]))


def build(options: ESOptions, solution: PyTree[Float[Array, "..."]]) -> tuple[Any, Any]:
    """Returns evosax's (algorithm, params) for solutions of the given shapes.

    Raises:
        PopulationError: If the strategy does not support the population size.
    """
    strategy = find(options.strategy)
    size, arguments = _arguments(strategy, options, solution)
    # Its import makes arrays, and with the first array JAX fixes its devices.
    algorithms = importlib.import_module("evosax.algorithms").algorithms
    make = _one_by_one(algorithms[strategy.name])
    try:
        made = make(population_size=size, solution=solution, **arguments)
    except AssertionError as error:
        where = f"{strategy.name} with population_size={options.population_size}"
        raise PopulationError(f"{where}: {str(error).rstrip('.')}.") from error
    if options.elite_ratio is not None:
        made.elite_ratio = options.elite_ratio
    params = made.default_params
    changed = {k: v for k, v in options.options.items() if k in strategy.params}
    spread = strategy.spread
    if spread is not None and hasattr(params, spread):
        changed[spread] = _like(getattr(params, spread), first_spread(options))
    return made, params.replace(**changed)


def _arguments(
    strategy: Strategy, options: ESOptions, solution: Any
) -> tuple[int, dict[str, Any]]:
    """Returns (members of a sub-population, the other arguments of a constructor).

    Raises:
        PopulationError: If the population does not split into equal sub-populations.
    """
    number = functools.partial(_number, options)
    given = options.options
    arguments: dict[str, Any] = {
        k: v for k, v in given.items() if k in strategy.arguments
    }
    size = _part(strategy, options, arguments)
    if strategy.spread == SCHEDULE:
        arguments[SCHEDULE] = _schedule(*map(number, SPREAD))
    if strategy.family == GRADIENT:
        rate, decay, limit, *moments = map(number, ADAM)
        arguments["optimizer"] = optax.adam(_schedule(rate, decay, limit), *moments)
    if strategy.planned:
        arguments["num_generations"] = (options.num_generations or 128) + 1
    if strategy.spread == "sampling_fn":
        bounds = options.init_min, options.init_max
        arguments["sampling_fn"] = _sampler(solution, first_spread(options), bounds)
    if options.fitness_shaping != AUTO:
        shapings = importlib.import_module("evosax.core.fitness_shaping")
        shaping = getattr(shapings, _SHAPINGS[options.fitness_shaping])
        arguments["fitness_shaping_fn"] = shaping
    return size, arguments


def _part(strategy: Strategy, options: ESOptions, arguments: dict[str, Any]) -> int:
    """Returns the size of a sub-population; adds their number to the arguments."""
    size, parts = options.population_size, 1
    if strategy.several:
        usual = strategy.arguments["num_populations"]
        parts = int(arguments.setdefault("num_populations", usual))
    paired = strategy.family == GRADIENT
    if size % (parts * (2 if paired else 1)) or size < 2 * parts:
        how = "draws members in pairs" if paired else "needs two members at least"
        how += f", in each of {parts} sub-populations alike" if strategy.several else ""
        raise PopulationError(f"{strategy.name} with population_size={size}: it {how}.")
    return size // parts


@functools.cache
def _one_by_one(make: Any) -> Any:
    """Returns a class of evosax that factorises one matrix after another.

    On CPUs a batch of LAPACK calls needs threads of the pool in which it waits itself:
    two batches in one program, as of two searches for several seeds, can wait for each
    other for ever. So the methods that factorise loop over seeds and sub-populations
    instead of batching them.
    """
    rows = ((each, STRATEGIES.get(each.__name__)) for each in make.__mro__)
    pairs = ((each, row.factorises) for each, row in rows if row and row.factorises)
    base, names = next(pairs, (make, ()))
    if not names:
        return make
    methods = {name: _sequential(getattr(base, name)) for name in names}
    looped = type(base.__name__, (base,), methods)
    # The class that calls the method by `super()`, for sub-populations, comes first.
    return looped if base is make else type(make.__name__, (make, looped), {})


def _sequential(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method whose `jax.vmap` is a loop."""

    def called(self: Any, *args: Any) -> Any:
        return jax.custom_batching.sequential_vmap(functools.partial(method, self))(
            *args
        )

    return called


def first_spread(options: ESOptions) -> float:
    """Returns the initial spread of the members around the mean."""
    return _number(options, "sigma_init")


def sigma_of(state: Any) -> Float[Array, ""]:
    """Returns the mean spread of a strategy's state, NaN where it has none."""
    std = getattr(state, "std", None)
    return jnp.mean(std) if std is not None else jnp.full((), jnp.nan)


def _number(options: ESOptions, name: str) -> float:
    value = getattr(options, name)
    return {**SPREAD, **ADAM}[name] if value is None else value


def _schedule(start: float, decay: float, limit: float) -> optax.Schedule:
    """Returns start * decay^generation, not below the limit."""
    if decay == 1.0:
        return optax.constant_schedule(start)
    return lambda step: jnp.maximum(start * jnp.power(decay, step), limit)


def _sampler(
    solution: Any, sigma: float, bounds: tuple[float | None, float | None]
) -> Callable[[jax.Array], Any]:
    """Returns a function from a key to random numbers in the shape of a solution.

    They are uniform between the bounds, or normal around 0 without bounds.
    """
    leaves, tree = jax.tree.flatten(solution)

    def draw(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        low, high = bounds
        if low is None or high is None:
            return sigma * jax.random.normal(key, shape)
        return jax.random.uniform(key, shape, minval=low, maxval=high)

    def sample(key: jax.Array) -> Any:
        return tree.unflatten(
            draw(jax.random.fold_in(key, i), leaf.shape)
            for i, leaf in enumerate(leaves)
        )

    return sample


def _like(old: Any, value: float) -> Any:
    return value if isinstance(old, int | float) else jnp.full_like(old, value)
