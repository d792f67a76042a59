"""The strategies of evosax by name, built from options; evosax minimises."""

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from runners.search import families
from runners.search.families import GRADIENT, POPULATION
from runners.search.options import AUTO, ESOptions, option_types, suggestion

_SHAPINGS = {
    "centered_rank": "centered_rank_fitness_shaping_fn",
    "z_score": "standardize_fitness_shaping_fn",
    "normalize": "normalize_fitness_shaping_fn",
    "none": "identity_fitness_shaping_fn",
    "weights": "weights_fitness_shaping_fn",
}
_SCHEDULES = ("sigma_init", "sigma_decay", "sigma_limit")
_ADAM = (
    *("learning_rate", "learning_rate_decay", "learning_rate_limit"),
    *("beta_1", "beta_2", "eps"),
)
_DEFAULTS = {
    "sigma_init": 0.04,
    "sigma_decay": 1.0,
    "sigma_limit": 0.0,
    "learning_rate": 0.1,
    "learning_rate_decay": 1.0,
    "learning_rate_limit": 0.0,
    "beta_1": 0.99,
    "beta_2": 0.999,
    "eps": 1e-8,
}
#: Arguments of constructors that are given here, or are no plain numbers.
_TAKEN = {
    *("population_size", "solution", "optimizer", "std_schedule", "metrics_fn"),
    *("fitness_shaping_fn", "sampling_fn", "num_generations"),
}
_SIGMA_PARAMS = ("std_init", "std_m")
#: Methods of evosax's classes that factorise a matrix.
_FACTORISING = {
    "ASEBO": ("_ask",),
    "CMA_ES": ("_ask",),
    "GuidedES": ("_ask",),
    "iAMaLGaM_Full": ("_ask", "_tell"),
}
#: Sub-populations of a strategy that has several.
NUM_POPULATIONS = 2


class PopulationError(ValueError):
    """A population of a size that a strategy cannot have."""


@dataclasses.dataclass(frozen=True)
class Strategy:
    """A strategy of evosax.

    Attributes:
        name: Its name there.
        make: Its class.
    """

    name: str
    make: Any

    @property
    def population_based(self) -> bool:
        """Whether it keeps a population instead of a distribution."""
        return self.family == POPULATION

    @functools.cached_property
    def arguments(self) -> Mapping[str, Any]:
        """Its constructor's arguments, with their defaults."""
        parameters = inspect.signature(self.make.__init__).parameters
        return {name: p.default for name, p in parameters.items() if name != "self"}

    @property
    def family(self) -> str:
        """What it does with the fitness: one of the families."""
        return families.family(self.name)

    @property
    def summary(self) -> str:
        """What evosax calls it."""
        return (self.make.__doc__ or "").strip().split("\n")[0].rstrip(".")

    @property
    def several(self) -> bool:
        """Whether it has several sub-populations, each with a mean."""
        return "num_populations" in self.arguments

    @functools.cached_property
    def numbers(self) -> dict[str, Any]:
        """Its own options that are plain numbers, by the names of evosax."""
        plain = {
            name: default
            for name, default in self.arguments.items()
            if name not in _TAKEN and isinstance(default, bool | int | float)
        }
        if self.several:
            plain["num_populations"] = NUM_POPULATIONS
        params = _bare(self).default_params
        plain |= {
            field.name: value
            for field in dataclasses.fields(params)
            if isinstance(value := getattr(params, field.name), bool | int | float)
            and field.name not in _SIGMA_PARAMS
        }
        return plain

    @functools.cached_property
    def sigma(self) -> str | None:
        """How its spread is set: by a `"schedule"`, at its `"start"`, or not at all."""
        if "std_schedule" in self.arguments:
            return "schedule"
        if self.population_based or "sampling_fn" in self.arguments:
            return "start"
        return "start" if _sigma_param(_bare(self).default_params) else None

    @functools.cached_property
    def elites(self) -> bool:
        """Whether it recombines a share of the members."""
        return _bare(self).elite_ratio != 1.0


def find(name: str) -> Strategy:
    """Returns a strategy by its name in evosax or by one that users know.

    Raises:
        ValueError: If there is none; names the nearest.
    """
    own = families.find(name)
    return Strategy(own, _algorithms()[own])


def check(options: ESOptions) -> None:
    """Raises ValueError if a strategy cannot do what the options ask."""
    fields = {name: getattr(options, name) for name in option_types()}
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in {**options.options, **given}.items():
        reason = refusal(options.strategy, name, value)
        if reason is not None:
            raise ValueError(reason)
    _check_population(options)


def refusal(strategy: str, name: str, value: Any) -> str | None:
    """Returns why a strategy has no use for an option, None if it has.

    Args:
        strategy: A strategy's name.
        name: The option.
        value: Its value.

    Raises:
        ValueError: If there is no such strategy.
    """
    found = find(strategy)
    where = f"es: {found.name}"
    allowed = {"schedule": _SCHEDULES, "start": _SCHEDULES[:1], None: ()}
    if name in _SCHEDULES and name not in allowed[found.sigma]:
        return f"{where} sets its own spread: leave {name} out"
    if name in _ADAM and found.family != GRADIENT:
        return f"{where} follows no gradient: leave {name} out"
    if name == "elite_ratio" and not found.elites:
        return f"{where} has no elites: leave elite_ratio out"
    if name == "fitness_shaping":
        try:
            families.check_shaping(found.name, value, "es.fitness_shaping")
        except ValueError as error:
            return str(error)
    if name in option_types():
        return None
    if name not in found.numbers:
        known = [*option_types(), *found.numbers]
        return (
            f"{where} has no option {name!r}{suggestion(name, known)} Its own: "
            f"{', '.join(found.numbers) or 'none'}"
        )
    if not isinstance(value, bool | int | float):
        return f"{where}.{name} must be a number, got {value!r}"
    return None


def _check_population(options: ESOptions) -> None:
    """Raises ValueError for a population that cannot be; names the nearest that can."""
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
    """Returns a solution on which a strategy is tried; it fits the options."""
    whole = [value for value in options.options.values() if isinstance(value, int)]
    return jnp.zeros(max([_DIMENSIONS, *whole]))


def build(options: ESOptions, solution: Any) -> tuple[Any, Any]:
    """Returns (algorithm, its params) for solutions like `solution`, a pytree.

    Raises:
        PopulationError: If the strategy cannot have such a population.
    """
    strategy = find(options.strategy)
    number = functools.partial(_number, options)
    arguments = {
        name: value
        for name, value in options.options.items()
        if name in strategy.arguments
    }
    size = _part(strategy, options, arguments)
    if "std_schedule" in strategy.arguments:
        arguments["std_schedule"] = _schedule(
            *(number(name) for name in _SCHEDULES),
        )
    if strategy.family == GRADIENT:
        arguments["optimizer"] = optax.adam(
            _schedule(*(number(name) for name in _ADAM[:3])),
            b1=number("beta_1"),
            b2=number("beta_2"),
            eps=number("eps"),
        )
    if "num_generations" in strategy.arguments:
        arguments["num_generations"] = (options.num_generations or 128) + 1
    if "sampling_fn" in strategy.arguments:
        bounds = options.init_min, options.init_max
        arguments["sampling_fn"] = _sampler(solution, number("sigma_init"), bounds)
    if options.fitness_shaping != AUTO:
        name = _SHAPINGS[options.fitness_shaping]
        arguments["fitness_shaping_fn"] = getattr(_shapings(), name)
    make = _one_by_one(strategy.make)
    try:
        made = make(population_size=size, solution=solution, **arguments)
    except AssertionError as error:
        where = f"{strategy.name} with population_size={options.population_size}"
        raise PopulationError(f"{where}: {str(error).rstrip('.')}.") from error
    if options.elite_ratio is not None:
        made.elite_ratio = options.elite_ratio
    params = made.default_params
    changed = {k: v for k, v in options.options.items() if k not in arguments}
    sigma = _sigma_param(params)
    if sigma is not None:
        changed[sigma] = _like(getattr(params, sigma), number("sigma_init"))
    return made, params.replace(**changed)


@functools.cache
def _one_by_one(make: Any) -> Any:
    """Returns a class of evosax that factorises one matrix after another.

    On CPUs a batch of LAPACK calls takes threads of the pool in which it waits for
    others: two of them in one program, as of two searches for several seeds, can wait
    for each other for ever. So the methods that factorise are a loop over seeds, and
    over sub-populations, where they would be a batch.
    """
    base = next((c for c in make.__mro__ if c.__name__ in _FACTORISING), None)
    if base is None:
        return make
    methods = {
        name: _sequential(getattr(base, name)) for name in _FACTORISING[base.__name__]
    }
    looped = type(base.__name__, (base,), methods)
    # Who calls the method for sub-populations comes before it, by `super()`.
    return looped if base is make else type(make.__name__, (make, looped), {})


def _sequential(method: Any) -> Any:
    """Returns a method whose `jax.vmap` is a loop."""

    def called(self: Any, *args: Any) -> Any:
        return jax.custom_batching.sequential_vmap(functools.partial(method, self))(
            *args
        )

    return called


def _part(strategy: Strategy, options: ESOptions, arguments: dict[str, Any]) -> int:
    """Returns the size of a sub-population; their number goes to the arguments.

    Raises:
        PopulationError: If there are none of such a size.
    """
    size, parts = options.population_size, 1
    if strategy.several:
        parts = int(arguments.setdefault("num_populations", NUM_POPULATIONS))
    paired = strategy.family == GRADIENT
    if size % (parts * (2 if paired else 1)) or size < 2 * parts:
        how = "draws members in pairs" if paired else "needs two members at least"
        how += f", in each of {parts} sub-populations alike" if strategy.several else ""
        raise PopulationError(f"{strategy.name} with population_size={size}: it {how}.")
    return size // parts


def first_spread(options: ESOptions) -> float:
    """Returns the spread of the members around the mean at first."""
    return _number(options, "sigma_init")


def sigma_of(state: Any) -> jax.Array:
    """Returns the mean spread of a strategy's state, NaN where it has none."""
    std = getattr(state, "std", None)
    return jnp.mean(std) if std is not None else jnp.full((), jnp.nan)


def _algorithms() -> dict[str, Any]:
    # It makes arrays when it is imported, and with the first one JAX counts devices.
    return importlib.import_module("evosax.algorithms").algorithms


def _shapings() -> Any:
    return importlib.import_module("evosax.core.fitness_shaping")


def _number(options: ESOptions, name: str) -> float:
    value = getattr(options, name)
    return _DEFAULTS[name] if value is None else value


def _schedule(start: float, decay: float, limit: float) -> Any:
    """Returns start * decay^generation, not below the limit."""
    if decay == 1.0:
        return optax.constant_schedule(start)
    return lambda step: jnp.maximum(start * jnp.power(decay, step), limit)


def _sampler(
    solution: Any, sigma: float, bounds: tuple[float | None, float | None]
) -> Any:
    """Returns a function of a key: numbers in the shape of a solution.

    They are uniform between the bounds, or normal around 0 where there are none.
    """
    leaves, tree = jax.tree.flatten(solution)

    def draw(key: jax.Array, shape: Any) -> jax.Array:
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


def _sigma_param(params: Any) -> str | None:
    return next((name for name in _SIGMA_PARAMS if hasattr(params, name)), None)


def _like(old: Any, value: float) -> Any:
    return value if isinstance(old, int | float) else jnp.full_like(old, value)


#: Parameters of the solutions with which a strategy is looked at.
_DIMENSIONS = 8


@functools.cache
def _bare(strategy: Strategy) -> Any:
    """Returns a strategy of its own defaults, to be looked at."""
    solution = jnp.zeros(_DIMENSIONS)
    arguments: dict[str, Any] = {}
    if strategy.several:
        arguments["num_populations"] = NUM_POPULATIONS
    if "sampling_fn" in strategy.arguments:
        arguments["sampling_fn"] = _sampler(solution, 1.0, (None, None))
    return strategy.make(population_size=8, solution=solution, **arguments)
