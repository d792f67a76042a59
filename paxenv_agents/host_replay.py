"""Experience replay on the host: the ring of `paxenv_agents.replay` in NumPy arrays.

For games that live on the host, and for more experience than a device has memory.
"""

from typing import Any

import jax
import numpy as np

from paxenv.wording import counted
from paxenv_agents.replay import Minibatch, Transition


class HostReplay:
    """A ring of time steps with a random generator of its own."""

    def __init__(self, capacity: int, seed: int) -> None:
        """Makes an empty ring.

        Args:
            capacity: Rows, each a time step of all games.
            seed: Of the generator that draws minibatches.
        """
        if capacity < 1:
            raise ValueError(f"capacity must be >= 1, got {capacity}")
        self.capacity = capacity
        self.head = self.filled = 0
        self._rows: Transition | None = None
        self._generator = np.random.default_rng(seed)

    def add(self, new: Transition) -> None:
        """Adds rows `[T, E, ...]`; of too many, the last ones."""
        new = jax.tree.map(lambda x: np.asarray(x)[-self.capacity :], new)
        if self._rows is None:
            self._rows = jax.tree.map(
                lambda x: np.zeros((self.capacity, *x.shape[1:]), x.dtype), new
            )
        num_rows = new.rewards.shape[0]
        index = (self.head + np.arange(num_rows)) % self.capacity
        for ring, x in zip(
            jax.tree.leaves(self._rows), jax.tree.leaves(new), strict=True
        ):
            ring[index] = x
        self.head = (self.head + num_rows) % self.capacity
        self.filled = min(self.filled + num_rows, self.capacity)

    def sample(self, batch_size: int, gamma: float, n_step: int = 1) -> Minibatch:
        """Returns transitions drawn uniformly; see `replay.sample`.

        Raises:
            ValueError: If fewer than `n_step` rows are filled.
        """
        if self._rows is None or self.filled < n_step:
            raise ValueError(
                f"a window of {counted(n_step, 'step')} needs as many rows, got "
                f"{self.filled}"
            )
        draw = self._generator.integers
        start = draw(self.filled - n_step + 1, size=batch_size)
        game = draw(self._rows.rewards.shape[1], size=batch_size)
        oldest = self.head - self.filled
        rows = (oldest + start[:, None] + np.arange(n_step)) % self.capacity
        window = jax.tree.map(lambda x: x[rows, game[:, None]], self._rows)
        return _windowed(window, gamma)

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that decides what comes next, as arrays and numbers."""
        rows = [] if self._rows is None else jax.tree.leaves(self._rows)
        return {
            "rows": {str(i): x.copy() for i, x in enumerate(rows)},
            "head": self.head,
            "filled": self.filled,
            "generator": self._generator.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any], row: Transition) -> None:
        """Goes on from `state_dict`.

        Args:
            state: What `state_dict` gave.
            row: Anything of the rows' structure.
        """
        leaves = [state["rows"][str(i)].copy() for i in range(len(state["rows"]))]
        if leaves:
            self._rows = jax.tree.unflatten(jax.tree.structure(row), leaves)
        self.head, self.filled = int(state["head"]), int(state["filled"])
        self._generator.bit_generator.state = state["generator"]


def _windowed(window: Transition, gamma: float) -> Minibatch:
    """`replay.windowed` in NumPy, so that a minibatch costs no call of the device."""
    ends = window.ends.astype(np.int32)
    counts = ((np.cumsum(ends, axis=1) - ends) == 0) & window.valid
    decays = np.float32(gamma) ** np.arange(ends.shape[1] + 1, dtype=np.float32)
    powers = decays[np.cumsum(counts, axis=1) - counts]
    batch, steps = np.arange(ends.shape[0]), np.arange(ends.shape[1])
    last = np.max(np.where(counts, steps, 0), axis=1)
    first = jax.tree.map(lambda x: x[:, 0], window)
    return Minibatch(
        observations=first.observations,
        actions=first.actions,
        rewards=np.sum(window.rewards * powers * counts, axis=1, dtype=np.float32),
        discounts=np.where(
            window.dones[batch, last], np.float32(0), decays[counts.sum(axis=1)]
        ),
        next_observations=jax.tree.map(
            lambda x: x[batch, last], window.next_observations
        ),
        weights=first.valid.astype(np.float32),
    )
