"""Evaluation of a plan's agents, compiled once and played as often as asked."""

from typing import NamedTuple

import numpy as np

from runners.engine.inner_episodes import CURVES
from runners.engine.program import (
    CompiledProgram,
    evaluation_keys,
    initial_state,
    with_agents,
)
from runners.engine.rows import FINITE
from runners.planning.plan import Plan, evaluation
from runners.session.models import with_models


class Evaluated(NamedTuple):
    """What one evaluation measured.

    Attributes:
        metrics: `[seeds]` by name.
        curves: Rewards per step `[seeds, opponents, inner episodes, players]`; None
            where the program keeps none.
    """

    metrics: dict[str, np.ndarray]
    curves: np.ndarray | None


class Evaluation:
    """Plays the agents of a plan without learning, in games and keys of their own."""

    def __init__(self, plan: Plan) -> None:
        """Takes a plan of training; compiles nothing yet."""
        self.plan = evaluation(plan)
        self._program: CompiledProgram | None = None
        self._starts: tuple | None = None

    def play(self, agents: tuple, env_steps: int | None = None) -> Evaluated:
        """Plays the agents once and returns what was measured.

        A seed whose agents hold a NaN gets NaN for everything: their policies have no
        meaning.

        Args:
            agents: Training states in the order of the slots, leaves `[seeds, ...]`.
            env_steps: Steps after which it takes place, for keys of its own; None at
                the end of the run.
        """
        config = self.plan.config
        keys = evaluation_keys(config.seed, config.num_seeds, env_steps)
        state = initial_state(self.plan.experiment, keys, self.plan.params)
        if self._starts is None:
            self._starts = with_models(self.plan, state).starts
        slots = self.plan.experiment.slots
        # Who starts anew in each trial brings nothing from training.
        given = {i: a for i, a in enumerate(agents) if slots[i].reset_interval != 1}
        state = with_agents(state, given).replace(starts=self._starts)
        if self._program is None:
            self._program = CompiledProgram(self.plan.experiment, state)
        else:
            self._program.load(state)
        return play_once(self._program)


def play_once(program: CompiledProgram) -> Evaluated:
    """Runs one iteration; a seed whose agents are not finite has NaN everywhere."""
    rows = {name: values[:, 0] for name, values in program.run(1).items()}
    curves = rows.pop(CURVES, None)
    if curves is not None:
        broken = rows[FINITE] != 1
        curves = np.where(broken[:, None, None, None], np.nan, curves)
    return Evaluated(meaningful(rows), curves)


def meaningful(metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns metrics `[seeds]` with NaN for seeds whose agents are not finite."""
    broken = metrics[FINITE] != 1
    return {
        name: values if name == FINITE else np.where(broken, np.nan, values)
        for name, values in metrics.items()
    }
