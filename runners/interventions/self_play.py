"""Self-play that fades: a slot's `share`."""

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class FadingShare:
    """Plays everybody in trial 0, and in a straight line fewer of the others.

    Attributes:
        num_trials: From this trial on it plays nobody else.
    """

    num_trials: int

    def __call__(self, e: jax.Array) -> jax.Array:
        """Returns the probability with which it plays another player in trial `e`."""
        return jnp.clip(1.0 - e / self.num_trials, 0.0, 1.0)
