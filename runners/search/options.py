"""The options of an evolution, as a user writes them; starts no JAX."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from paxenv import options as described
from paxenv.options import (
    Count,
    Positive,
    Share,
    Weight,
    at_least,
    check,
    documented,
    one_of,
    option,
)
from paxenv.suggestions import suggestion

#: Stands for the shaping for which a strategy is made.
AUTO = "auto"
SHAPINGS = (AUTO, "centered_rank", "z_score", "normalize", "none", "weights")
#: Other names of shapings, those of evosax.
SHAPING_ALIASES = {"standardize": "z_score", "identity": "none"}
#: The number of best members that are kept.
NUM_KEPT = 5

#: Replacements of names whose meaning is spread over several options.
HINTS = {
    "centered_rank": "fitness_shaping: centered_rank",
    "z_score": "fitness_shaping: z_score",
    "fit_shaper": "fitness_shaping",
    "maximise": "nothing: a larger fitness is always better",
    "maximize": "nothing: a larger fitness is always better",
    "opt": "nothing: strategies that follow a gradient use Adam",
}


@documented
@dataclasses.dataclass(frozen=True)
class ESOptions:
    """Options of a search. None leaves a number to the strategy."""

    strategy: str = option(
        "Open_ES",
        "A strategy of evosax, by its name there or a common one (`paxrun list es`).",
        aliases=("algo",),
    )
    population_size: Annotated[int, at_least(2)] = option(
        100,
        "Members of a generation, over all devices.",
        aliases=("popsize",),
        short=True,
    )
    num_generations: Count | None = option(
        None,
        "Number of generations; None: it follows from `total_timesteps`.",
        aliases=("num_gens", "iterations"),
        short=True,
    )
    sigma_init: Positive | None = option(
        None, "Standard deviation of the members around the mean at first; None: 0.04."
    )
    sigma_decay: Share | None = option(
        None, "Factor on the spread after each generation."
    )
    sigma_limit: float | None = option(None, "Spread at which its decay ends.")
    learning_rate: Positive | None = option(
        None,
        "Adam's step size, for strategies that follow a gradient; None: 0.1.",
        aliases=("lr", "lrate_init"),
    )
    learning_rate_decay: Share | None = option(
        None,
        "Factor on the step size after each generation.",
        aliases=("lrate_decay",),
    )
    learning_rate_limit: float | None = option(
        None, "Step size at which its decay ends.", aliases=("lrate_limit",)
    )
    beta_1: Share | None = option(None, "Adam's decay of the first moment; None: 0.99.")
    beta_2: Share | None = option(
        None, "Adam's decay of the second moment; None: 0.999."
    )
    eps: Positive | None = option(None, "Adam's epsilon; None: 1e-8.")
    elite_ratio: Share | None = option(
        None, "Share of the members that a strategy with elites recombines."
    )
    init: Annotated[str, one_of("agent", "zero")] = option(
        "agent",
        'Where the mean starts: at the `"agent"`\'s own fresh parameters, or at '
        '`"zero"`.',
    )
    init_min: float | None = option(
        None,
        "With `init_max`: the mean starts at numbers drawn uniformly between the two "
        "instead.",
    )
    init_max: float | None = option(None, "See `init_min`.")
    clip_min: float | None = option(None, "Lower bound of the members' parameters.")
    clip_max: float | None = option(None, "Upper bound of the members' parameters.")
    fitness_shaping: str = option(
        AUTO,
        'What the strategy is told: `"centered_rank"` in [-0.5, 0.5], `"z_score"`, '
        '`"normalize"` in [-1, 1], with `"none"` the fitness itself, `"weights"` of '
        'ranks, or with `"auto"` what suits the strategy.',
    )
    w_decay: Weight = option(
        0.0,
        "Weight of the mean square of a member's parameters, which is subtracted from "
        "its fitness before shaping.",
    )
    mean_reduce: bool = option(
        False, "Whether the population's mean fitness is subtracted from the fitness."
    )
    objective: Annotated[str, one_of("mean", "last")] = option(
        "mean",
        'Fitness is the mean reward per step over the whole trial, `"mean"`, or over '
        'its `"last"` inner episode.',
    )
    common_random_numbers: bool = option(
        True,
        "Whether all members meet the same games, opponents and action noise in a "
        "generation.",
    )
    opponent: Annotated[str, one_of("member", "mean")] = option(
        "member",
        'Whom a member meets where several agents are searched: the `"member"` of the'
        ' same number, or the `"mean"` of the other\'s search.',
    )
    top_k: Count | None = option(
        None,
        "Number of the best members so far that are kept; None: five, or all of a "
        "smaller population.",
        short=True,
    )
    options: Mapping[str, float | bool | int] = option(
        help="Options of the strategy, by the names that evosax gives them.",
        factory=dict,
    )

    def __post_init__(self) -> None:
        shaping = shaping_of(self.fitness_shaping, "es.fitness_shaping")
        object.__setattr__(self, "fitness_shaping", shaping)
        check(self, "es.")
        self._check_pair("init_min", "init_max", together=True)
        self._check_pair("clip_min", "clip_max", together=False)
        if self.num_kept > self.population_size:
            raise ValueError(
                f"es.top_k={self.top_k} is more than the population_size, "
                f"{self.population_size}"
            )

    @property
    def num_kept(self) -> int:
        """The number of best members that are kept."""
        return min(NUM_KEPT, self.population_size) if self.top_k is None else self.top_k

    def _check_pair(self, low: str, high: str, *, together: bool) -> None:
        a, b = getattr(self, low), getattr(self, high)
        if together and (a is None) != (b is None):
            raise ValueError(f"es.{low} and es.{high} are given together")
        if a is not None and b is not None and a > b:
            raise ValueError(f"es.{low}={a} is above es.{high}={b}")


#: Options of the whole evolution; the others belong to one search.
SHARED = (
    *("population_size", "num_generations", "objective", "common_random_numbers"),
    *("opponent", "top_k"),
)


def option_types() -> dict[str, Any]:
    """Returns the options by name, with their types."""
    hints = described.hints(ESOptions)
    return {name: hint for name, hint in hints.items() if name != "options"}


def renamed(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns options under their own names; refuses those of another meaning.

    Args:
        given: Options by any of their names.
        where: The place of the options, for messages.

    Raises:
        ValueError: If a name is one of `HINTS`, or an option is given twice.
    """
    for key in given:
        if key in HINTS:
            raise ValueError(f"{where}.{key}: write {HINTS[key]}")
    return described.own_names(ESOptions, given, where)


def shaping_of(asked: str, option: str) -> str:
    """Returns the shaping of fitness of a name.

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
