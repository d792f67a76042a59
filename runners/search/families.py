"""The strategies of evosax by name, and what each may be told; starts no JAX."""

from runners.search.options import AUTO, SHAPINGS, shaping_of, suggestion

#: Families, by what a strategy does with the fitness.
GRADIENT, RANKS, OWN, POPULATION = "gradient", "recombination", "own", "population"
STRATEGIES = {
    GRADIENT: (
        *("ARS", "ASEBO", "ESMC", "GuidedES", "NoiseReuseES", "Open_ES", "PGPE"),
        *("PersistentES", "SV_Open_ES"),
    ),
    RANKS: (
        *("CMA_ES", "CR_FM_NES", "DES", "LM_MA_ES", "MA_ES", "Rm_ES", "SNES"),
        *("SV_CMA_ES", "Sep_CMA_ES", "SimpleES", "xNES"),
    ),
    OWN: (
        *("CMAAnchoredLES", "EvoTF_ES", "GradientlessDescent", "HillClimbing", "LES"),
        *("RandomSearch", "SimulatedAnnealing", "iAMaLGaM_Full"),
        "iAMaLGaM_Univariate",
    ),
    POPULATION: (
        *("DifferentialEvolution", "DiffusionEvolution", "GESMR_GA", "LGA"),
        *("MR15_GA", "PSO", "SAMR_GA", "SimpleGA"),
    ),
}
#: Names that users know, of papers and of earlier versions.
ALIASES = {
    "OpenES": "Open_ES",
    "OpenAI_ES": "Open_ES",
    "CMA-ES": "CMA_ES",
    "SimAnneal": "SimulatedAnnealing",
    "DE": "DifferentialEvolution",
    "GLD": "GradientlessDescent",
    "LearnedES": "LES",
    "LearnedGA": "LGA",
    "DiscoveredES": "DES",
    "iAMaLGaM_Univ": "iAMaLGaM_Univariate",
    "PersistentEvolutionStrategy": "PersistentES",
}
#: What the families take but `"auto"`, and why nothing else.
_TAKES = {
    GRADIENT: tuple(s for s in SHAPINGS if s not in (AUTO, "weights")),
    RANKS: ("weights",),
    OWN: ("none",),
    POPULATION: ("none",),
}
_COMPARES = "compares fitness over generations and must be told it as it is"
_REASONS = {
    GRADIENT: "follows a gradient and has no weights",
    RANKS: (
        "weighs members by their rank itself and diverges if it is told anything else"
    ),
    OWN: _COMPARES,
    POPULATION: _COMPARES,
}


def names() -> tuple[str, ...]:
    """Returns evosax's names of all strategies."""
    every = (name for family in STRATEGIES.values() for name in family)
    return tuple(sorted(every, key=str.lower))


def find(name: str) -> str:
    """Returns evosax's name of a strategy; case, `_` and `-` do not matter.

    Raises:
        ValueError: If there is none; names the nearest.
    """
    every = names()
    folded = {_folded(known): known for known in (*every, *ALIASES)}
    known = folded.get(_folded(str(name)))
    if known is None:
        raise ValueError(
            f"there is no evolution strategy {name!r}"
            f"{suggestion(str(name), [*every, *ALIASES])} `paxrun list es` shows all"
        )
    return ALIASES.get(known, known)


def family(name: str) -> str:
    """Returns the family of a strategy."""
    own = find(name)
    return next(family for family, every in STRATEGIES.items() if own in every)


def check_shaping(name: str, asked: str, option: str) -> None:
    """Raises ValueError if a strategy is not made for a shaping of fitness.

    Args:
        name: The strategy.
        asked: The shaping, `"auto"` for the strategy's own.
        option: What the user calls it, for the message.
    """
    own = find(name)
    takes = _TAKES[family(own)]
    if shaping_of(asked, option) in (AUTO, *takes):
        return
    raise ValueError(
        f"{option}={asked!r} does not fit {own}, which {_REASONS[family(own)]}: it "
        f"takes {' or '.join(map(repr, takes))}, and {AUTO!r} is its own"
    )


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
