"""The numbers of a game in one trial: the run's own, or drawn for it."""

from typing import Any

import jax

from runners.drawn_params import drawn_params
from runners.tags import SAMPLERS


def trial_params(experiment: Any, state: Any) -> tuple[Any, int | None]:
    """Returns (the game's numbers in the next trial, their axis of opponents)."""
    if experiment.params_sampler is None:
        return state.params, None
    key = jax.random.fold_in(jax.random.fold_in(state.key, SAMPLERS), state.iteration)
    opponents = experiment.num_opponents if experiment.params_per_opponent else None
    return drawn_params(experiment.params_sampler, key, state.params, opponents)
