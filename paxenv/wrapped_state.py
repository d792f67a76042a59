"""The clock of a game, read through the state of a wrapper around it."""

import numpy as np
from flax import struct
from jaxtyping import Array, Int

from paxenv.environment import EnvState


class WrappedState(struct.PyTreeNode):
    """State of a wrapper whose clock is that of the game inside.

    Attributes:
        env: The game's state.
    """

    env: EnvState

    @property
    def inner_t(self) -> Int[Array | np.ndarray, "*games"]:
        """Steps taken in this inner episode."""
        return self.env.inner_t

    @property
    def outer_t(self) -> Int[Array | np.ndarray, "*games"]:
        """Inner episodes that have ended."""
        return self.env.outer_t

    @property
    def t(self) -> Int[Array | np.ndarray, "*games"]:
        """Valid steps of the trial."""
        return self.env.t
