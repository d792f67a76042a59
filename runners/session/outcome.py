"""Outcomes of runs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from runners.engine.rows import FINITE
from runners.engine.statistics import (
    Estimate,
    curves_as_dict,
    estimate,
    estimates,
    robust,
)
from runners.planning.plan import Plan
from runners.search.best import BestMember
from runners.storage.run_dir import RunDir

#: The best evaluation on the way, of runs that have any.
BEST_SCORE = "best_score"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        plan: The plan of the run.
        evaluation: The game's metrics of the final policies over seeds, by name; empty
            after an interruption.
        num_iterations: Iterations that were run.
        seconds: Wall-clock seconds of the loop, without compilation.
        compile_seconds: Seconds of tracing and compiling.
        interrupted: Whether the user stopped it.
        first_non_finite: The first iteration, from 1, after which a loss or a
            parameter was NaN or infinite; None is none.
        best_score: The highest mean return of player 1 in an evaluation during
            training, whose checkpoint is kept; None if there was none.
        best_members: After an evolution, the best member of each search.
        curves: Rewards per step by inner episode of the final evaluation, `[seeds,
            opponents, inner episodes, players]`; None for trials of one.
        run_dir: The directory of the run.
    """

    plan: Plan
    evaluation: dict[str, Estimate]
    num_iterations: int
    seconds: float
    compile_seconds: float
    interrupted: bool
    first_non_finite: int | None = None
    best_score: float | None = None
    best_members: tuple[BestMember, ...] = ()
    curves: np.ndarray | None = None
    run_dir: RunDir | None = None

    @property
    def mode(self) -> str:
        """How the evaluated agents chose actions: `"sampled"` or `"greedy"`."""
        return self.plan.mode

    @property
    def wall_seconds(self) -> float:
        """Wall-clock seconds, with compilation."""
        return self.seconds + self.compile_seconds

    @property
    def measured(self) -> dict[str, Estimate]:
        """All final measurements over seeds, by metric."""
        if self.best_score is None:
            return self.evaluation
        return {**self.evaluation, BEST_SCORE: estimate([self.best_score])}

    @property
    def total_steps(self) -> int:
        """Environment steps of all seeds."""
        per_seed = self.num_iterations * self.plan.steps_per_iteration
        return per_seed * self.plan.config.num_seeds

    @property
    def better_members(self) -> tuple[int, ...]:
        """Players whose best member got more reward than the mean, on new keys.

        Their recommended weights are those of the best member.
        """
        better = []
        for best in self.best_members:
            name = f"episode/reward_per_step/player_{best.player}"
            member, mean = best.metrics[name], self.evaluation[name]
            if member.count and not member.mean <= mean.mean:
                better.append(best.player)
        return tuple(better)

    @property
    def failed_seeds(self) -> tuple[int, ...]:
        """Seeds, from 0, whose agents were not finite when they were evaluated."""
        finite = self.evaluation.get(FINITE)
        values = () if finite is None else finite.values
        return tuple(seed for seed, value in enumerate(values) if not value >= 1)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for `results.json`."""
        config = self.plan.config
        better = self.better_members
        return {
            "experiment": config.name,
            "game": self.plan.game.id,
            "agents": list(self.plan.names),
            "runner": config.runner,
            "seed": config.seed,
            "num_seeds": config.num_seeds,
            "num_envs": config.num_envs,
            "iterations": self.num_iterations,
            "env_steps_per_seed": self.num_iterations * self.plan.steps_per_iteration,
            "env_steps": self.total_steps,
            "seconds": round(self.seconds, 3),
            "compile_seconds": round(self.compile_seconds, 3),
            "interrupted": self.interrupted,
            "first_non_finite": self.first_non_finite,
            "best_score": self.best_score,
            "mode": self.mode,
            "best_members": {
                f"player_{best.player}": best.as_dict() for best in self.best_members
            },
            "recommended": {
                f"player_{best.player}": "best member"
                if best.player in better
                else "mean"
                for best in self.best_members
            },
            "inner_episodes": (
                None if self.curves is None else curves_as_dict(self.curves)
            ),
            "metrics": {
                f"eval/{self.mode}/{name}": _plain(value, self.failed_seeds)
                for name, value in self.evaluation.items()
            },
        }


def _plain(value: Estimate, failed: Sequence[int]) -> dict[str, Any]:
    """Returns an estimate as plain data, with what is less moved by odd seeds.

    A seed without a value has not failed where it only never met a state.
    """
    found = robust(value)
    if found is None:
        return value.as_dict()
    return {**value.as_dict(), **found.as_dict(), "failed_seeds": list(failed)}


@dataclasses.dataclass(frozen=True)
class OuterOutcome:
    """The outcome of an outer loop.

    Attributes:
        plan: The plan of the run.
        train: Its training results.
        evaluation: Its evaluation results.
        seconds: Wall-clock seconds, with compilation.
        interrupted: Whether the user stopped it.
        run_dir: The directory of the run.
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
        """All results of evaluations, by name: `retrained/mean_eval_reward` and so on.

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


#: What a run of any runner came to.
Ended = Outcome | OuterOutcome
