"""How outer loops run, as values; starts no JAX."""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from paxenv import scalars
from paxenv.registry import closest
from runners.engine.devices import count
from runners.search import strategies
from runners.search.dims import PARAMETERS, Target, dims_of, target_of
from runners.search.options import AUTO

GAMES = ("own", "given")
#: Other names of options.
ALIASES = {
    "popsize": "population_size",
    "es": "strategy",
    "num_generations": "iterations",
}


@dataclasses.dataclass(frozen=True)
class OuterConfig:
    """What every outer loop needs.

    Attributes:
        num_steps: Environment steps to train for, over all games; whole iterations of
            the inner loop, so maybe a few more.
        num_envs: Games side by side; the agent's own `num_envs` wins over 1.
        eval_episodes: Episodes of an evaluation.
        deterministic: Whether evaluated agents take the likeliest action.
        log_interval: Environment steps between two rows of the log; 0: none but the
            last.
        seed: Seed of everything random, at least 0.
    """

    num_steps: int = 100_000
    num_envs: int = 1
    eval_episodes: int = 32
    deterministic: bool = True
    log_interval: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        scalars.settle(self)
        for name in ("num_steps", "num_envs", "eval_episodes"):
            count(name, getattr(self, name))
        count("log_interval", self.log_interval, least=0)
        count("seed", self.seed, least=0)


@dataclasses.dataclass(frozen=True)
class ESConfig(OuterConfig):
    """A search by evolution around an inner loop.

    Attributes:
        search_targets: What is searched: `"parameters"`, all numbers on which the
            policy's actions depend; names of hyperparameters; `SearchDim`s, also of
            numbers of the game, `env.gravity`. All of them make one solution.
        strategy: A strategy of evosax, or a name that users know (`paxrun list es`).
        population_size: Individuals of a generation.
        iterations: Generations.
        train_agent: Whether an individual trains before it is evaluated.
        num_steps_per_iteration: Its budget, environment steps.
        repeats: How often an individual trains, each time from the parent and with
            keys of its own; its fitness is the mean.
        fit_shaper: How fitness is shaped before the strategy is told; `"auto"` is the
            one for which the strategy is made, others are refused where it would
            diverge.
        learning_rate: Adam's, of strategies that follow a gradient; None: 0.1.
        sigma_parameters: By how much parameters differ at first, and the unit of the
            search in them.
        sigma_hyper: The same of all other targets: 1 covers about half of a range.
        evaluate_in: With numbers of the game among the targets: whether an individual
            is evaluated in its `"own"` game or in the one that was `"given"`.
    """

    search_targets: tuple[Target, ...] = (PARAMETERS,)
    strategy: str = "CMA_ES"
    population_size: int = 16
    iterations: int = 20
    train_agent: bool = True
    num_steps_per_iteration: int = 10_000
    repeats: int = 1
    fit_shaper: str = AUTO
    learning_rate: float | None = None
    sigma_parameters: float = 0.1
    sigma_hyper: float = 1.0
    evaluate_in: str = "own"

    def __post_init__(self) -> None:
        super().__post_init__()
        targets = self.search_targets
        targets = (targets,) if isinstance(targets, str) else targets
        object.__setattr__(self, "search_targets", tuple(map(target_of, targets)))
        dims_of(self.search_targets)
        strategies.check_shaping(self.strategy, self.fit_shaper, "fit_shaper")
        count("population_size", self.population_size, least=2)
        for name in ("iterations", "num_steps_per_iteration", "repeats"):
            count(name, getattr(self, name))
        for name in ("sigma_parameters", "sigma_hyper", "learning_rate"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be > 0, got {value!r}")
        if self.evaluate_in not in GAMES:
            raise ValueError(
                f"evaluate_in must be one of {', '.join(GAMES)}, got "
                f"{self.evaluate_in!r}"
            )

    @property
    def searches_parameters(self) -> bool:
        """Whether the policy's numbers are searched."""
        return PARAMETERS in self.search_targets


#: Options of a search that an experiment's own settings decide.
_OF_EXPERIMENT = {field.name for field in dataclasses.fields(OuterConfig)}


def search_options() -> dict[str, Any]:
    """Returns the types of the options of a search, by name."""
    hints = typing.get_type_hints(ESConfig)
    return {name: hint for name, hint in hints.items() if name not in _OF_EXPERIMENT}


def search_key(name: str) -> str:
    """Returns the option that a key of the section `search` means.

    Raises:
        ValueError: If there is none; names the nearest.
    """
    known = search_options()
    own = ALIASES.get(name, name)
    if own in known:
        return own
    near = closest(name, [*known, *ALIASES])
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ValueError(
        f"search has no option {name!r}{hint} Its options: {', '.join(known)}"
    )


def es_config(search: Mapping[str, Any], **settings: Any) -> ESConfig:
    """Returns the config of a search from the section `search` of an experiment."""
    named = {search_key(name): value for name, value in search.items()}
    return ESConfig(**{**settings, **named})
