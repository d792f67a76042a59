"""The strategies of evosax in one table: names, families, options; starts no JAX.

A test compares the table with evosax's own constructors.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from paxenv.suggestions import suggestion
from runners.search.options import (
    AUTO,
    SHAPINGS,
    ESOptions,
    option_types,
    shaping_of,
)

#: Families of strategies, by their use of the fitness.
GRADIENT, RANKS, OWN, POPULATION = "gradient", "recombination", "own", "population"
#: Options of a spread that follows a schedule; the first one is its initial value.
SPREAD = {"sigma_init": 0.04, "sigma_decay": 1.0, "sigma_limit": 0.0}
#: Options of Adam, by which strategies follow a gradient; the first three are those of
#: its learning rate.
ADAM = {
    "learning_rate": 0.1,
    "learning_rate_decay": 1.0,
    "learning_rate_limit": 0.0,
    "beta_1": 0.99,
    "beta_2": 0.999,
    "eps": 1e-8,
}
#: The argument by which evosax takes the spread: a schedule, or an initial number.
SCHEDULE, START = "std_schedule", "std_init"

Number = bool | int | float | None


@dataclasses.dataclass(frozen=True)
class Strategy:
    """A strategy of evosax: its family, its options and its fitness shaping.

    Attributes:
        name: Its name in evosax.
        family: Its use of the fitness, one of the families.
        summary: Its description in evosax.
        spread: evosax's name of the spread of its members: a schedule, an argument or
            a number of its params; None: it has none, or that of its first population.
        also: Other names, from papers and earlier versions.
        elites: Whether it recombines a share of the members.
        planned: Whether its constructor is told the number of generations.
        arguments: Its constructor's arguments that are plain numbers, with their
            defaults.
        params: The numbers of its params, with their defaults; None: a default that
            follows from the sizes of the population and the solutions.
        factorises: Methods of the class itself that factorise a matrix.
    """

    name: str
    family: str
    summary: str
    spread: str | None = START
    also: tuple[str, ...] = ()
    elites: bool = False
    planned: bool = False
    arguments: Mapping[str, Number] = dataclasses.field(default_factory=dict)
    params: Mapping[str, Number] = dataclasses.field(default_factory=dict)
    factorises: tuple[str, ...] = ()

    @property
    def population_based(self) -> bool:
        """Whether it keeps a population instead of a distribution."""
        return self.family == POPULATION

    @property
    def several(self) -> bool:
        """Whether it has several sub-populations, each with a mean."""
        return "num_populations" in self.arguments

    @property
    def numbers(self) -> dict[str, Number]:
        """Its own options, by the names of evosax."""
        return {**self.arguments, **self.params}

    @property
    def spread_options(self) -> tuple[str, ...]:
        """The options of its spread: a schedule's, the initial value alone, or none."""
        if self.spread == SCHEDULE:
            return tuple(SPREAD)
        return tuple(SPREAD)[: self.spread is not None or self.population_based]


_STDS = {"std_min": 0.0, "std_max": 1e8, "c_mean": 1.0}
_AMALGAM = {
    "eta_avs_inc": 1 / 0.9,
    "eta_avs_dec": 0.9,
    "nis_max_gens": 50,
    "delta_ams": 2.0,
    "theta_sdr": 1.0,
    "c_mult_init": 1.0,
}
_STEIN = {"kernel_std": 1.0, "alpha": 1.0}

_TABLE = (
    Strategy("ARS", GRADIENT, "Augmented Random Search (ARS)", SCHEDULE, elites=True),
    Strategy(
        *("ASEBO", GRADIENT),
        "Adaptive ES-Active Subspaces for Blackbox Optimization (ASEBO)",
        SCHEDULE,
        arguments={"subspace_dims": 1},
        params={"grad_decay": 0.99},
        factorises=("_ask",),
    ),
    Strategy(
        *("CMA_ES", RANKS),
        "Covariance Matrix Adaptation Evolution Strategy (CMA-ES)",
        also=("CMA-ES",),
        elites=True,
        params=_STDS,
        factorises=("_ask",),
    ),
    Strategy(
        *("CMAAnchoredLES", OWN),
        "Separable CMA-ES with bounded residuals and bundled meta-trained weights",
    ),
    Strategy(
        *("CR_FM_NES", RANKS),
        "Cost-Reduced Fast-Moving Natural Evolution Strategy (CR-FM-NES)",
        elites=True,
        params={"h_inv": None, "lr_mean": 1.0, "lr_move_std": 1.0},
    ),
    Strategy(
        *("DES", RANKS, "Discovered Evolution Strategy (DES)"),
        also=("DiscoveredES",),
        params={"lr_std": 0.1},
    ),
    Strategy(
        *("DifferentialEvolution", POPULATION, "Differential Evolution (DE)", None),
        also=("DE",),
        arguments={"num_diff": 1},
        params={
            "elitism": True,
            "crossover_rate": 0.9,
            "differential_weight": 0.8,
            "differential_weight_min": 0.8,
            "differential_weight_max": 0.8,
        },
    ),
    Strategy(
        *("DiffusionEvolution", POPULATION, "Diffusion Evolution", "std_m"),
        planned=True,
        params={"scale_factor": 1.0},
    ),
    Strategy(
        *("ESMC", GRADIENT),
        "Evolution Strategy with Meta-loss Clipping (ESMC)",
        SCHEDULE,
    ),
    Strategy(
        *("EvoTF_ES", OWN, "Evolution Transformer (EvoTF)"),
        arguments={"max_context_len": 100, "use_antithetic_sampling": False},
        params={"lr_mean": 1.0, "lr_std": 1.0},
    ),
    Strategy(
        *("GESMR_GA", POPULATION),
        "Group Elite Selection of Mutation Rates (GESMR)",
        elites=True,
        arguments={"num_groups": 1},
        params={"std_min": 0.0, "std_max": 10.0, "std_meta": 2.0},
    ),
    Strategy(
        *("GradientlessDescent", OWN, "GradientLess Descent (GLD)", None),
        also=("GLD",),
        params={"radius_min": 0.001, "radius_max": 0.2, "radius_decay": 5.0},
    ),
    Strategy(
        *("GuidedES", GRADIENT, "Guided Evolution Strategy (GuidedES)", SCHEDULE),
        arguments={"subspace_dims": 1},
        params={"alpha": 0.5, "beta": 1.0},
        factorises=("_ask",),
    ),
    Strategy("HillClimbing", OWN, "Gaussian Hill Climbing algorithm", SCHEDULE),
    Strategy(
        *("iAMaLGaM_Full", OWN),
        "Incremental Adapted Maximum-Likelihood Gaussian Model - Iterated "
        "Density-Estimation Evolutionary Algorithm (iAMaLGaM) with full covariance "
        "matrix",
        SCHEDULE,
        elites=True,
        params=_AMALGAM,
        factorises=("_ask", "_tell"),
    ),
    Strategy(
        *("iAMaLGaM_Univariate", OWN),
        "Incremental Adapted Maximum-Likelihood Gaussian Model - Iterated "
        "Density-Estimation Evolutionary Algorithm (iAMaLGaM) with diagonal covariance "
        "matrix",
        SCHEDULE,
        also=("iAMaLGaM_Univ",),
        elites=True,
        params=_AMALGAM,
    ),
    Strategy("LES", OWN, "Learned Evolution Strategy (LES)", also=("LearnedES",)),
    Strategy(
        *("LGA", POPULATION, "Learned Genetic Algorithm (LGA)"),
        also=("LearnedGA",),
        params={"crossover_rate": 0.0},
    ),
    Strategy(
        *("LM_MA_ES", RANKS),
        "Limited Memory Matrix Adaptation Evolution Strategy (LM-MA-ES)",
        elites=True,
        params=_STDS,
    ),
    Strategy(
        *("MA_ES", RANKS, "Matrix Adaptation Evolution Strategy (MA-ES)"),
        elites=True,
        params=_STDS,
    ),
    Strategy(
        *("MR15_GA", POPULATION, "1/5 Mutation Rate Genetic Algorithm (MR15-GA)"),
        elites=True,
        params={"std_min": 0.0, "std_max": math.inf, "std_ratio": 0.2},
    ),
    Strategy(
        *("NoiseReuseES", GRADIENT, "Noise-Reuse Evolution Strategy (NRES)", SCHEDULE),
        params={"T": 100, "K": 10},
    ),
    Strategy(
        *("Open_ES", GRADIENT, "OpenAI Evolution Strategy (OpenAI-ES)", SCHEDULE),
        also=("OpenES", "OpenAI_ES"),
        arguments={"use_antithetic_sampling": True},
    ),
    Strategy(
        *("PersistentES", GRADIENT, "Persistent Evolution Strategy (PES)", SCHEDULE),
        also=("PersistentEvolutionStrategy",),
        params={"T": 100, "K": 10},
    ),
    Strategy(
        *("PGPE", GRADIENT),
        "Policy Gradients with Parameter-Based Exploration (PGPE)",
        params={"std_lr": 0.1, "std_max_change": 0.2},
    ),
    Strategy(
        *("PSO", POPULATION, "Particle Swarm Optimization (PSO)", None),
        params={"inertia_coeff": 0.75, "cognitive_coeff": 1.5, "social_coeff": 2.0},
    ),
    Strategy("RandomSearch", OWN, "Random Search", "sampling_fn"),
    Strategy(
        *("Rm_ES", RANKS, "Rank-m Evolution Strategy (Rm-ES)"),
        elites=True,
        arguments={"m": 1},
        params={**_STDS, "std_min": 0.001, "c_c": None, "T": 20, "q_star": 0.3},
    ),
    Strategy(
        *("SAMR_GA", POPULATION),
        "Self-Adaptation Mutation Rate Genetic Algorithm (SAMR-GA)",
        elites=True,
        params={
            **{"std_min": 0.0, "std_max": 10.0, "std_meta": 2.0},
            "std_best_limit": 0.0001,
        },
    ),
    Strategy(
        *("Sep_CMA_ES", RANKS, "Separable CMA-ES (Sep-CMA-ES)"),
        elites=True,
        params=_STDS,
    ),
    Strategy(
        *("SimpleES", RANKS, "Simple Evolution Strategy (Simple ES)"),
        elites=True,
        params={"c_std": 0.1},
    ),
    Strategy(
        *("SimpleGA", POPULATION, "Simple Genetic Algorithm (Simple GA)", SCHEDULE),
        elites=True,
        params={"crossover_rate": 0.0},
    ),
    Strategy(
        *("SimulatedAnnealing", OWN, "Simulated Annealing (SA)", SCHEDULE),
        also=("SimAnneal",),
        params={
            "temperature_init": 1.0,
            "temperature_limit": 0.1,
            "temperature_decay": 0.999,
            "boltzmann_constant": 5.0,
        },
    ),
    Strategy("SNES", RANKS, "Separable Natural Evolution Strategy (SNES)"),
    Strategy(
        *("SV_CMA_ES", RANKS, "Stein Variational CMA-ES (SV-CMA-ES)"),
        elites=True,
        arguments={"num_populations": 2},
        params={**_STDS, **_STEIN},
    ),
    Strategy(
        *("SV_Open_ES", GRADIENT),
        "Stein Variational OpenAI-ES (SV-OpenAI-ES)",
        SCHEDULE,
        arguments={"use_antithetic_sampling": True, "num_populations": 2},
        params=_STEIN,
    ),
    Strategy("xNES", RANKS, "Exponential Natural Evolution Strategy (xNES)"),
)
#: All strategies by evosax's names, in alphabetical order.
STRATEGIES = {strategy.name: strategy for strategy in _TABLE}

#: The shapings of each family beside `"auto"`, and the reason why others are refused.
_TAKES = {
    GRADIENT: tuple(s for s in SHAPINGS if s not in (AUTO, "weights")),
    RANKS: ("weights",),
    OWN: ("none",),
    POPULATION: ("none",),
}
_COMPARES = "compares fitness over generations and must be told the fitness itself"
_REASONS = {
    GRADIENT: "follows a gradient and has no weights of ranks",
    RANKS: (
        "weighs members by their rank itself and diverges if it is told anything else"
    ),
    OWN: _COMPARES,
    POPULATION: _COMPARES,
}


def find(name: str) -> Strategy:
    """Returns a strategy by its name in evosax or by another one.

    Case, `_` and `-` do not matter.

    Raises:
        ValueError: If there is none; names the nearest.
    """
    known = {n: s for s in _TABLE for n in (s.name, *s.also)}
    folded = {_folded(each): strategy for each, strategy in known.items()}
    found = folded.get(_folded(str(name)))
    if found is None:
        raise ValueError(
            f"there is no evolution strategy {name!r}{suggestion(str(name), known)} "
            "`paxrun list es` shows all"
        )
    return found


def check(options: ESOptions) -> None:
    """Raises ValueError if a strategy cannot use one of its options."""
    fields = {name: getattr(options, name) for name in option_types()}
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in {**options.options, **given}.items():
        reason = refusal(options.strategy, name, value)
        if reason is not None:
            raise ValueError(reason)


def refusal(strategy: str, name: str, value: Any) -> str | None:
    """Returns the reason why a strategy cannot use an option, None if it can.

    Args:
        strategy: A strategy's name.
        name: The option.
        value: Its value.

    Raises:
        ValueError: If there is no such strategy.
    """
    found = find(strategy)
    where = f"es: {found.name}"
    if name in SPREAD and name not in found.spread_options:
        return f"{where} sets its own spread: leave {name} out"
    if name in ADAM and found.family != GRADIENT:
        return f"{where} follows no gradient: leave {name} out"
    if name == "elite_ratio" and not found.elites:
        return f"{where} has no elites: leave elite_ratio out"
    if name == "fitness_shaping":
        try:
            check_shaping(found.name, value, "es.fitness_shaping")
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


def check_shaping(name: str, asked: str, option: str) -> None:
    """Raises ValueError if a strategy is not made for a shaping of fitness.

    Args:
        name: The strategy.
        asked: The shaping, `"auto"` for the strategy's own.
        option: The user's name of the option, for the message.
    """
    own = find(name)
    takes = _TAKES[own.family]
    if shaping_of(asked, option) in (AUTO, *takes):
        return
    raise ValueError(
        f"{option}={asked!r} does not fit {own.name}, which {_REASONS[own.family]}: it "
        f"takes {' or '.join(map(repr, takes))}, and {AUTO!r} is its own"
    )


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
