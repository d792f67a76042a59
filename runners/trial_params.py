"""The numbers of a game in one trial: the run's own, or drawn for it."""

from typing import Any

import jax
import jax.numpy as jnp

from runners.tags import SAMPLERS

#: In place of a seat in the keys of samplers: the game's numbers.
PARAMS_SEAT = 2**16


def trial_params(experiment: Any, state: Any) -> tuple[Any, int | None]:
    """Returns (the game's numbers in the next trial, their axis of opponents).

    The draw depends on the run, the trial and the opponent, on nothing else: members
    of a population play the same games.
    """
    if experiment.params_sampler is None:
        return state.params, None
    key = jax.random.fold_in(jax.random.fold_in(state.key, SAMPLERS), state.iteration)

    def drawn(opponent: jax.Array) -> Any:
        own = jax.random.fold_in(jax.random.fold_in(key, opponent), PARAMS_SEAT)
        return experiment.params_sampler(own, state.params)

    if experiment.params_per_opponent:
        return jax.vmap(drawn)(jnp.arange(experiment.num_opponents)), 0
    return drawn(jnp.zeros((), jnp.int32)), None
