"""The families of evosax's strategies, and what each may be told; starts no JAX."""

from paxenv.registry import closest

#: Strategies that recombine members by weights of their rank.
WEIGHTS = (
    *("CMA_ES", "Sep_CMA_ES", "SV_CMA_ES", "SNES", "xNES", "MA_ES", "LM_MA_ES"),
    *("Rm_ES", "CR_FM_NES", "SimpleES", "DES"),
)
#: Strategies that follow a gradient estimated from centred ranks.
CENTRED_RANK = ("Open_ES", "PGPE", "SV_Open_ES")
#: Strategies that follow a gradient estimated from the cost itself.
COST_GRADIENT = (*("ARS", "ASEBO", "ESMC", "GuidedES", "NoiseReuseES", "PersistentES"),)
#: Strategies that keep a population instead of a distribution.
POPULATIONS = (
    *("DifferentialEvolution", "DiffusionEvolution", "GESMR_GA", "LGA", "MR15_GA"),
    *("PSO", "SAMR_GA", "SimpleGA"),
)
_OTHERS = (
    *("CMAAnchoredLES", "EvoTF_ES", "GradientlessDescent", "HillClimbing", "LES"),
    *("RandomSearch", "SimulatedAnnealing", "iAMaLGaM_Full", "iAMaLGaM_Univariate"),
)
#: Strategies with a covariance of all dimensions, whose memory is their square.
FULL_COVARIANCE = ("CMA_ES", "SV_CMA_ES", "MA_ES", "xNES", "iAMaLGaM_Full")
MAX_FULL = 4_000

#: What a strategy may be told, and the functions of evosax.
SHAPERS = ("centered_rank", "identity", "normalize", "standardize", "weights")
#: Of one generation: they keep the order of its members and nothing else is needed.
_WITHIN_A_GENERATION = ("centered_rank", "normalize", "standardize")


def names() -> tuple[str, ...]:
    """Returns the names of all strategies."""
    every = (*WEIGHTS, *CENTRED_RANK, *COST_GRADIENT, *POPULATIONS, *_OTHERS)
    return tuple(sorted(every, key=str.lower))


def find(name: str) -> str:
    """Returns evosax's name of a strategy; case and underscores do not matter.

    Raises:
        ValueError: If there is none; names the nearest.
    """
    known = {_bare(own): own for own in names()}
    if _bare(name) in known:
        return known[_bare(name)]
    near = closest(name, list(known.values()))
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    raise ValueError(
        f"there is no strategy {name!r}{hint} The strategies: {', '.join(names())}"
    )


def own_shaper(name: str) -> str:
    """Returns the shaping of fitness for which a strategy (evosax's name) is made."""
    if name in WEIGHTS:
        return "weights"
    return "centered_rank" if name in CENTRED_RANK else "identity"


def allowed_shapers(name: str) -> tuple[str, ...]:
    """Returns the shapings with which a strategy (evosax's name) improves.

    A strategy that recombines by weights reads anything else as weights and diverges;
    one that compares members of different generations cannot be told ranks within one.
    """
    own = own_shaper(name)
    if name in (*CENTRED_RANK, *COST_GRADIENT):
        return tuple(sorted({own, "identity", *_WITHIN_A_GENERATION}))
    return (own,)


def check_shaper(name: str, shaper: str) -> str:
    """Returns the shaping that `shaper` (or `"auto"`) means for a strategy.

    Raises:
        ValueError: If there is none of that name, or the strategy is not made for it.
    """
    name = find(name)
    if shaper == "auto":
        return own_shaper(name)
    allowed = allowed_shapers(name)
    if shaper in allowed:
        return shaper
    if shaper not in SHAPERS:
        known = ", ".join(("auto", *SHAPERS))
        raise ValueError(f"fit_shaper must be one of {known}, got {shaper!r}")
    raise ValueError(
        f"fit_shaper={shaper!r} does not fit {name}, which would diverge or stand "
        f"still: it takes {' or '.join(allowed)}. fit_shaper='auto' is "
        f"{own_shaper(name)}"
    )


def _bare(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
