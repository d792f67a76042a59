"""Zero-determinant strategies, which fix a line on which both payoffs must lie."""

import dataclasses
import functools

from paxenv_agents.strategies.memory_one import MemoryOneRule

KINDS = ("extortion", "generous")
TOLERANCE = 1e-12


@dataclasses.dataclass(frozen=True)
class ZeroDeterminant(MemoryOneRule):
    """Enforces `own - K = chi (other - K)` against every opponent.

    `own` and `other` are mean payoffs: in the long run for `gamma=1` (Press and Dyson),
    else discounted and normalised, `(1 - gamma) sum_t gamma^t r_t`, exactly and for
    every opponent. The strategy is the solution p of

        gamma p + (1 - gamma) p0 = (1, 1, 0, 0) + phi [(S_own - K) - chi (S_other - K)].

    Attributes:
        chi: Slope of the line, >= 1: how many times the surplus of the other it takes.
        phi: How strongly it reacts; None for the middle of the feasible range.
        kind: `"extortion"` for K = P, which opens by defecting, or `"generous"` for
            K = R, which opens by cooperating.
        gamma: Discount of the payoffs, in (0, 1].
        payoff: Own payoffs (R, S, T, P) after CC, CD, DC and DD, in a symmetric game.

    Raises:
        ValueError: If no phi is feasible, or `phi` is not; names the feasible range.

    Source: Press & Dyson, Iterated Prisoner's Dilemma contains strategies that
    dominate any evolutionary opponent (2012); discounted: Hilbe, Traulsen & Sigmund,
    Partners or rivals? (2015); generous: Stewart & Plotkin (2013).
    """

    _: dataclasses.KW_ONLY
    chi: float = 3.0
    phi: float | None = None
    kind: str = "extortion"
    gamma: float = 1.0
    payoff: tuple[float, float, float, float] = (-1.0, -3.0, 0.0, -2.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "payoff", tuple(float(x) for x in self.payoff))
        if len(self.payoff) != 4:
            raise ValueError(f"payoff must be (R, S, T, P), got {self.payoff}")
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, got {self.kind!r}")
        if not 0.0 < self.gamma <= 1.0:
            raise ValueError(f"gamma must be in (0, 1], got {self.gamma}")
        if self.chi < 1.0:
            raise ValueError(f"chi must be >= 1, got {self.chi}")
        low, high = self.feasible_phi
        if low > high + TOLERANCE or high <= 0.0:
            raise ValueError(
                f"no phi is feasible for chi={self.chi}, gamma={self.gamma} and payoff "
                f"{self.payoff}: the bounds are {low:.6g} and {high:.6g}; raise chi or "
                "gamma"
            )
        phi = self.phi
        if phi is not None and not (
            phi > 0.0 and low - TOLERANCE <= phi <= high + TOLERANCE
        ):
            opening = "(0" if low <= 0.0 else f"[{low:.6g}"
            raise ValueError(
                f"phi={phi} is not feasible for chi={self.chi} and gamma={self.gamma}: "
                f"it must be in {opening}, {high:.6g}]"
            )
        super().__post_init__()

    @functools.cached_property
    def feasible_phi(self) -> tuple[float, float]:
        """The least and the greatest phi for which p is a vector of probabilities."""
        low, high = 0.0, float("inf")
        for base, slope in zip(self._base, self._slopes, strict=True):
            # 0 <= base + phi slope <= gamma
            if slope != 0.0:
                ends = sorted((-base / slope, (self.gamma - base) / slope))
                low, high = max(low, ends[0]), min(high, ends[1])
            elif not -TOLERANCE <= base <= self.gamma + TOLERANCE:
                low = float("inf")
        return low, high

    @property
    def vector(self) -> tuple[float, ...]:
        phi = sum(self.feasible_phi) / 2 if self.phi is None else self.phi
        scaled = [b + phi * s for b, s in zip(self._base, self._slopes, strict=True)]
        p = (min(max(x / self.gamma, 0.0), 1.0) for x in scaled)
        return (*p, self._p0)

    @property
    def _p0(self) -> float:
        return 0.0 if self.kind == "extortion" else 1.0

    @property
    def _base(self) -> tuple[float, ...]:
        opening = (1.0 - self.gamma) * self._p0
        return tuple(x - opening for x in (1.0, 1.0, 0.0, 0.0))

    @property
    def _slopes(self) -> tuple[float, ...]:
        reward, sucker, temptation, punishment = self.payoff
        origin = punishment if self.kind == "extortion" else reward
        others = (reward, temptation, sucker, punishment)
        return tuple(
            (own - origin) - self.chi * (other - origin)
            for own, other in zip(self.payoff, others, strict=True)
        )
