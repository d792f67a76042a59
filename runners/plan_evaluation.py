"""Evaluation of a plan's agents, compiled once and played as often as asked."""

import jax
import jax.numpy as jnp
import numpy as np

from runners.curves import CURVES
from runners.models import with_models
from runners.plan import Plan, evaluation
from runners.program import Program, initial_state, run_keys, with_agents
from runners.rows import FINITE

#: Tag under the evaluation key: evaluations while training goes on.
PERIODIC = 5


class Evaluation:
    """Plays the agents of a plan without learning, in games and keys of their own."""

    def __init__(self, plan: Plan) -> None:
        """Takes a plan of training; compiles nothing yet."""
        self.plan = evaluation(plan)
        self._program: Program | None = None
        self._starts: tuple | None = None
        #: Rewards by inner episode of the last evaluation, as of `play_once`.
        self.curves: np.ndarray | None = None

    def play(
        self, agents: tuple, env_steps: int | None = None
    ) -> dict[str, np.ndarray]:
        """Returns metrics `[seeds]` by name.

        A seed whose agents hold a NaN gets NaN for everything: their policies have no
        meaning.

        Args:
            agents: Training states in the order of the slots, leaves `[seeds, ...]`.
            env_steps: Steps after which it takes place, for keys of its own; None at
                the end of the run.
        """
        config = self.plan.config
        keys = run_keys(config.seed, config.num_seeds, evaluation=True)
        if env_steps is not None:
            fold = jax.vmap(jax.random.fold_in, (0, None))
            keys = fold(fold(keys, PERIODIC), jnp.uint32(env_steps % 2**32))
        state = initial_state(self.plan.experiment, keys, self.plan.params)
        if self._starts is None:
            self._starts = with_models(self.plan, state).starts
        slots = self.plan.experiment.slots
        # Who starts anew in each trial brings nothing from training.
        given = {i: a for i, a in enumerate(agents) if slots[i].reset_interval != 1}
        state = with_agents(state, given).replace(starts=self._starts)
        if self._program is None:
            self._program = Program(self.plan.experiment, state)
        else:
            self._program.load(state)
        metrics, self.curves = play_once(self._program)
        return metrics


def play_once(
    program: Program,
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Runs one iteration and returns (metrics `[seeds]` by name, curves).

    Curves are rewards per step `[seeds, opponents, inner episodes, players]`; None
    where the program keeps none. A seed whose agents are not finite has NaN in both.
    """
    rows = {name: values[:, 0] for name, values in program.run(1).items()}
    curves = rows.pop(CURVES, None)
    if curves is not None:
        broken = rows[FINITE] != 1
        curves = np.where(broken[:, None, None, None], np.nan, curves)
    return meaningful(rows), curves


def meaningful(metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns metrics `[seeds]` with NaN for seeds whose agents are not finite."""
    broken = metrics[FINITE] != 1
    return {
        name: values if name == FINITE else np.where(broken, np.nan, values)
        for name, values in metrics.items()
    }
