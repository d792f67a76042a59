"""Whether what a run came to lies where its experiment says."""

import dataclasses
import math

from paxenv.registry import closest
from runners.outcome import Ended
from runners.summary import Estimate


@dataclasses.dataclass(frozen=True)
class Finding:
    """One metric of one run beside the band in which it should lie.

    Attributes:
        metric: The metric's name, such as `episode/reward_per_step/player_1`.
        low: Lower end of the band, included.
        high: Upper end of the band, included.
        measured: What came out, over seeds; None if there is no such metric.
        near: Names like an unknown one.
    """

    metric: str
    low: float
    high: float
    measured: Estimate | None
    near: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the mean over seeds lies in the band; never for NaN."""
        return self.measured is not None and self.low <= self.measured.mean <= self.high

    @property
    def verdict(self) -> str:
        """`holds`, or what is wrong."""
        if self.measured is None:
            hint = f"; did you mean {' or '.join(self.near)}?" if self.near else ""
            return f"no such metric{hint}"
        if self.holds:
            return "holds"
        mean = self.measured.mean
        return "MISSED: no value" if math.isnan(mean) else "MISSED"


def findings(outcome: Ended) -> tuple[Finding, ...]:
    """Returns every band of a run's experiment beside what came out."""
    known = outcome.measured
    found = []
    for metric, (low, high) in outcome.plan.config.bands.items():
        near = () if metric in known else tuple(closest(metric, list(known)))
        found.append(Finding(metric, low, high, known.get(metric), near))
    return tuple(found)


def worth_recording(outcome: Ended) -> dict[str, Estimate]:
    """Returns the metrics of the bands, and every player's reward per step."""
    known = outcome.measured
    rewards = [
        f"episode/reward_per_step/player_{player}"
        for player in range(1, outcome.plan.env.num_players + 1)
    ]
    names = dict.fromkeys([*outcome.plan.config.bands, *rewards])
    return {name: known[name] for name in names if name in known}
