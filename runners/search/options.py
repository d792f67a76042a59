"""The options of an evolution, as a user writes them; starts no JAX."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Any

from paxenv import scalars
from paxenv.registry import closest

#: The shaping for which a strategy is made.
AUTO = "auto"
SHAPINGS = (AUTO, "centered_rank", "z_score", "normalize", "none", "weights")
#: Other names of shapings, those of evosax.
SHAPING_ALIASES = {"standardize": "z_score", "identity": "none"}
STARTS = ("agent", "zero")
OBJECTIVES = ("mean", "last")
OPPONENTS = ("member", "mean")
#: Best members that are kept.
NUM_KEPT = 5

#: Names that users of other packages know.
ALIASES = {
    "popsize": "population_size",
    "num_gens": "num_generations",
    "algo": "strategy",
    "lrate_init": "learning_rate",
    "lrate_decay": "learning_rate_decay",
    "lrate_limit": "learning_rate_limit",
    "lr": "learning_rate",
}
#: What to write instead of names whose meaning is spread over others.
HINTS = {
    "centered_rank": "fitness_shaping: centered_rank",
    "z_score": "fitness_shaping: z_score",
    "fit_shaper": "fitness_shaping",
    "maximise": "nothing: a larger fitness is always better",
    "maximize": "nothing: a larger fitness is always better",
    "opt": "nothing: strategies that follow a gradient use Adam",
}


@dataclasses.dataclass(frozen=True)
class ESOptions:
    """How parameters are searched. None leaves a number to the strategy.

    Attributes:
        strategy: A name of evosax, or one that users know (`paxrun list es`).
        population_size: Members of a generation, over all devices.
        num_generations: Generations; None follows from `total_timesteps`.
        sigma_init: Spread of the members around the mean at first; 0.04 if None.
        sigma_decay: Factor on it after each generation.
        sigma_limit: Where its decay ends.
        learning_rate: Adam's, for strategies that follow a gradient; 0.1 if None.
        learning_rate_decay: Factor on it after each generation.
        learning_rate_limit: Where its decay ends.
        beta_1: Adam's decay of the first moment; 0.99 if None.
        beta_2: Adam's decay of the second moment; 0.999 if None.
        eps: Adam's epsilon; 1e-8 if None.
        elite_ratio: Share of the members that a strategy with elites recombines.
        init: Where the mean starts: at the `"agent"`'s own fresh parameters, or at
            `"zero"`.
        init_min: With `init_max`: each number of the mean starts uniformly between
            them instead.
        init_max: See `init_min`.
        clip_min: Parameters of members are not below.
        clip_max: Parameters of members are not above.
        fitness_shaping: What a strategy is told: `"centered_rank"` in [-0.5, 0.5],
            `"z_score"`, `"normalize"` in [-1, 1], the fitness itself with `"none"`,
            `"weights"` of ranks, or its own with `"auto"`.
        w_decay: Weight of the mean square of a member's parameters, taken off its
            fitness before it is shaped.
        mean_reduce: Whether the mean over the population is taken off the fitness.
        objective: Fitness is the mean reward per step over the whole trial, `"mean"`,
            or over its `"last"` inner episode.
        common_random_numbers: Whether all members meet the same games, opponents and
            action noise in a generation.
        opponent: Whom a member meets where several agents are searched: the `"member"`
            of the same number, or the `"mean"` of the other's search.
        top_k: How many of the best members so far are kept; None: five, or all of a
            smaller population.
        options: Options of the strategy, by the names that evosax gives them.
    """

    strategy: str = "Open_ES"
    population_size: int = 100
    num_generations: int | None = None
    sigma_init: float | None = None
    sigma_decay: float | None = None
    sigma_limit: float | None = None
    learning_rate: float | None = None
    learning_rate_decay: float | None = None
    learning_rate_limit: float | None = None
    beta_1: float | None = None
    beta_2: float | None = None
    eps: float | None = None
    elite_ratio: float | None = None
    init: str = "agent"
    init_min: float | None = None
    init_max: float | None = None
    clip_min: float | None = None
    clip_max: float | None = None
    fitness_shaping: str = AUTO
    w_decay: float = 0.0
    mean_reduce: bool = False
    objective: str = "mean"
    common_random_numbers: bool = True
    opponent: str = "member"
    top_k: int | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        scalars.settle(self)
        shaping = shaping_of(self.fitness_shaping, "es.fitness_shaping")
        object.__setattr__(self, "fitness_shaping", shaping)
        for name, known in (
            ("init", STARTS),
            ("objective", OBJECTIVES),
            ("opponent", OPPONENTS),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(
                    f"es.{name} must be one of {', '.join(known)}, got {value!r}"
                )
        for name in ("population_size", "num_generations", "top_k"):
            value = getattr(self, name)
            least = 2 if name == "population_size" else 1
            if value is not None and value < least:
                raise ValueError(f"es.{name} must be >= {least}, got {value}")
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"es.{name} must be > 0, got {value}")
        for name in _SHARES:
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"es.{name} must be in [0, 1], got {value}")
        if self.w_decay < 0:
            raise ValueError(f"es.w_decay must be >= 0, got {self.w_decay}")
        self._check_pair("init_min", "init_max", together=True)
        self._check_pair("clip_min", "clip_max", together=False)
        if self.num_kept > self.population_size:
            raise ValueError(
                f"es.top_k={self.top_k} is more than the population_size, "
                f"{self.population_size}"
            )

    @property
    def num_kept(self) -> int:
        """How many of the best members are kept."""
        return min(NUM_KEPT, self.population_size) if self.top_k is None else self.top_k

    def _check_pair(self, low: str, high: str, *, together: bool) -> None:
        a, b = getattr(self, low), getattr(self, high)
        if together and (a is None) != (b is None):
            raise ValueError(f"es.{low} and es.{high} are given together")
        if a is not None and b is not None and a > b:
            raise ValueError(f"es.{low}={a} is above es.{high}={b}")


#: Options of one search; the others belong to the whole evolution.
SHARED = (
    *("population_size", "num_generations", "objective", "common_random_numbers"),
    *("opponent", "top_k"),
)
_POSITIVE = ("sigma_init", "learning_rate", "eps")
_SHARES = (*("sigma_decay", "learning_rate_decay", "beta_1", "beta_2", "elite_ratio"),)


def option_types() -> dict[str, Any]:
    """Returns the options by name, with their types."""
    hints = typing.get_type_hints(ESOptions)
    return {name: hint for name, hint in hints.items() if name != "options"}


def renamed(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns options under their own names; refuses those that mean something else.

    Args:
        given: Options by any name that users know.
        where: Their place, for messages.

    Raises:
        ValueError: If a name is one of `HINTS`, or an option is given twice.
    """
    named: dict[str, Any] = {}
    for key, value in given.items():
        if key in HINTS:
            raise ValueError(f"{where}.{key}: write {HINTS[key]}")
        name = ALIASES.get(key, key)
        if name in named:
            raise ValueError(f"{where}.{name} is given twice, once as {key}")
        named[name] = value
    return named


def shaping_of(asked: str, option: str) -> str:
    """Returns the shaping of fitness that a name means.

    Raises:
        ValueError: If there is none; names the option.
    """
    shaping = SHAPING_ALIASES.get(asked, asked)
    if shaping not in SHAPINGS:
        raise ValueError(
            f"{option} must be one of {', '.join(SHAPINGS)}, got {asked!r}"
            f"{suggestion(str(asked), (*SHAPINGS, *SHAPING_ALIASES))}"
        )
    return shaping


def suggestion(name: str, known: Any) -> str:
    """Returns the end of a sentence about an unknown name."""
    near = closest(name, list(known))
    return f"; did you mean {near[0]!r}?" if near else "."
