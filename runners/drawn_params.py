"""The game's numbers, drawn anew for a trial."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

#: In place of a seat in the keys of samplers: the game's numbers.
PARAMS_SEAT = 2**16


def drawn_params(
    sampler: Callable[[jax.Array, Any], Any],
    key: jax.Array,
    params: Any,
    num_opponents: int | None,
) -> tuple[Any, int | None]:
    """Returns (the numbers of a trial, their axis of opponents).

    The draw depends on the run, the trial and the opponent, on nothing else: members
    of a population play the same games.

    Args:
        sampler: `sampler(key, params) -> params`.
        key: The key of the samplers in this trial; only folded.
        params: The numbers to start from.
        num_opponents: How many draws are made; None: one that all opponents share.
    """

    def drawn(opponent: jax.Array) -> Any:
        own = jax.random.fold_in(jax.random.fold_in(key, opponent), PARAMS_SEAT)
        return sampler(own, params)

    if num_opponents is None:
        return drawn(jnp.zeros((), jnp.int32)), None
    return jax.vmap(drawn)(jnp.arange(num_opponents)), 0
