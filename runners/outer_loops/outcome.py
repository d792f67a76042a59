"""What an outer loop came to."""

import dataclasses
from typing import Any

import numpy as np

from runners.plan import Plan
from runners.run_dir import RunDir
from runners.summary import Estimate, estimates


@dataclasses.dataclass(frozen=True)
class OuterOutcome:
    """What an outer loop came to.

    Attributes:
        plan: What ran.
        train: Its training results.
        evaluation: Its evaluation results.
        seconds: Wall-clock seconds, with compilation.
        interrupted: Whether the user stopped it.
        run_dir: Where everything lies.
    """

    plan: Plan
    train: dict[str, Any]
    evaluation: dict[str, Any]
    seconds: float
    interrupted: bool
    run_dir: RunDir | None = None

    @property
    def num_iterations(self) -> int:
        """Iterations, or generations, that were run."""
        return self.train["step"]

    @property
    def wall_seconds(self) -> float:
        """Wall-clock seconds, with compilation."""
        return self.seconds

    @property
    def total_steps(self) -> int:
        """Environment steps that were trained."""
        return self.train["env_step"]

    @property
    def compile_seconds(self) -> None:
        """Compilation is not measured apart."""
        return None

    @property
    def measured(self) -> dict[str, Estimate]:
        """All that evaluations gave, by name: `retrained/mean_eval_reward` and so on.

        One value each: an outer loop has one seed.
        """
        values = {}
        for name, value in self.evaluation.items():
            several = value.items() if isinstance(value, dict) else ()
            values |= {f"{name}/{own}": each for own, each in several}
            if not isinstance(value, dict):
                values[name] = value
        return estimates({name: np.array([value]) for name, value in values.items()})

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for `results.json`."""
        config = self.plan.config
        return {
            "experiment": config.name,
            "game": self.plan.game.id,
            "agents": list(self.plan.names),
            "runner": config.runner,
            "seed": config.seed,
            "num_seeds": 1,
            "num_envs": config.num_envs,
            "env_steps_per_seed": self.train["env_step"],
            "env_steps": self.train["env_step"],
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
            "mode": self.plan.mode,
            "train": _finite(self.train),
            "eval": _finite(self.evaluation),
            "metrics": {name: e.as_dict() for name, e in self.measured.items()},
        }


def _finite(value: Any) -> Any:
    """Returns plain data with None for numbers that are not finite."""
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value
