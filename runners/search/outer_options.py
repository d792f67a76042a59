"""The options of outer loops; starts no JAX."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from paxenv import options
from paxenv.options import (
    Count,
    Natural,
    Positive,
    at_least,
    check,
    documented,
    one_of,
    option,
)
from paxenv.suggestions import suggestion
from runners.search import strategies
from runners.search.dims import PARAMETERS, Target, dims_of, target_of
from runners.search.options import AUTO


@documented
@dataclasses.dataclass(frozen=True)
class OuterConfig:
    """Options that every outer loop has."""

    num_steps: Count = option(
        100_000,
        "Environment steps to train for, over all games; rounded up to whole "
        "iterations of the inner loop.",
    )
    num_envs: Count = option(
        1, "Games that are played at once; the agent's own `num_envs` wins over 1."
    )
    eval_episodes: Count = option(32, "Episodes of an evaluation.")
    deterministic: bool = option(
        True, "Whether evaluated agents take the likeliest action."
    )
    log_interval: Natural = option(
        0, "Environment steps between two rows of the log; 0: none but the last."
    )
    seed: Natural = option(0, "Seed of everything random, at least 0.")

    def __post_init__(self) -> None:
        check(self)

    @property
    def inner_steps(self) -> int:
        """Environment steps of one inner loop, over which the agent's schedules run."""
        return self.num_steps


@documented
@dataclasses.dataclass(frozen=True)
class ESConfig(OuterConfig):
    """A search by evolution around an inner loop."""

    search_targets: tuple[Target, ...] = option(
        (PARAMETERS,),
        'What is searched: `"parameters"`, all numbers on which the policy\'s actions '
        "depend; names of hyperparameters; `SearchDim`s, also of numbers of the game,"
        " such as `env.gravity`. Together they form one solution.",
    )
    strategy: str = option(
        "CMA_ES",
        "A strategy of evosax, by its name there or a common one (`paxrun list es`).",
        aliases=("es",),
    )
    population_size: Annotated[int, at_least(2)] = option(
        16, "Individuals of a generation.", aliases=("popsize",)
    )
    iterations: Count = option(
        20, "Number of generations.", aliases=("num_generations",)
    )
    train_agent: bool = option(
        True, "Whether an individual trains before it is evaluated."
    )
    num_steps_per_iteration: Count = option(
        10_000, "Environment steps for which an individual trains."
    )
    repeats: Count = option(
        1,
        "How often an individual trains, each time from the parent and with keys of "
        "its own; its fitness is the mean.",
    )
    fit_shaper: str = option(
        AUTO,
        'How fitness is shaped before the strategy is told; `"auto"` is the shaping '
        "for which the strategy is made. Those with which it diverges are refused.",
        aliases=("fitness_shaping",),
    )
    learning_rate: Positive | None = option(
        None, "Adam's step size, of strategies that follow a gradient; None: 0.1."
    )
    sigma_parameters: Positive = option(
        0.1,
        "Standard deviation of the parameters at first, the unit of the search.",
    )
    sigma_hyper: Positive = option(
        1.0, "The same for all other targets; 1 covers about half of a range."
    )
    evaluate_in: Annotated[str, one_of("own", "given")] = option(
        "own",
        "With numbers of the game among the targets: whether an individual is "
        'evaluated in its `"own"` game or in the one that was `"given"`.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        targets = self.search_targets
        targets = (targets,) if isinstance(targets, str) else targets
        object.__setattr__(self, "search_targets", tuple(map(target_of, targets)))
        dims_of(self.search_targets)
        strategies.check_shaping(self.strategy, self.fit_shaper, "fit_shaper")

    @property
    def inner_steps(self) -> int:
        """Environment steps for which an individual trains."""
        return self.num_steps_per_iteration

    @property
    def searches_parameters(self) -> bool:
        """Whether the policy's numbers are searched."""
        return PARAMETERS in self.search_targets


#: Options of a search that an experiment's own settings decide.
_OF_EXPERIMENT = {field.name for field in dataclasses.fields(OuterConfig)}


def search_options() -> dict[str, Any]:
    """Returns the types of the options of a search, by name."""
    hints = options.hints(ESConfig)
    return {name: hint for name, hint in hints.items() if name not in _OF_EXPERIMENT}


def search_key(name: str) -> str:
    """Returns the option of a key of the section `search`.

    Raises:
        ValueError: If there is none; names the nearest.
    """
    known, aliases = search_options(), options.aliases(ESConfig)
    own = aliases.get(name, name)
    if own in known:
        return own
    hint = suggestion(name, [*known, *aliases])
    raise ValueError(
        f"search has no option {name!r}{hint} Its options: {', '.join(known)}"
    )


def es_config(search: Mapping[str, Any], **settings: Any) -> ESConfig:
    """Returns the config of a search from the section `search` of an experiment."""
    named = {search_key(name): value for name, value in search.items()}
    return ESConfig(**{**settings, **named})
