"""The numbers of a game in one trial: the run's own, or drawn for it."""

from typing import Any

import jax
import jax.numpy as jnp

from runners.tags import SAMPLERS

#: In place of a seat in the keys of samplers: the game's numbers.
PARAMS_SEAT = 2**16


def trial_params(experiment: Any, state: Any) -> tuple[Any, int | None]:
    """Returns (the game's numbers in the next trial, their axis of opponents).

    The draw depends on the run, the trial and the opponent, on nothing else.
    """
    sampler = experiment.params_sampler
    if sampler is None:
        return state.params, None
    fold = jax.random.fold_in

    def drawn(opponent: jax.Array) -> Any:
        # The folds of a fresh agent, for a seat that no game has.
        own = fold(fold(fold(state.key, SAMPLERS), state.iteration), opponent)
        return sampler(fold(own, PARAMS_SEAT), state.params)

    if experiment.params_per_opponent:
        return jax.vmap(drawn)(jnp.arange(experiment.num_opponents)), 0
    return drawn(jnp.zeros((), jnp.int32)), None
