"""Experience replay as a value: a ring of time steps, part of a training state.

A row holds one time step of all games. In logical order row 0 is the oldest; a window
of several steps never reaches over the newest one, so no window joins rows across the
place where the ring is written.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Key, PyTree

from paxenv import keys
from paxenv_agents.types import Sample


class Transition(NamedTuple):
    """Experience of single steps, time-major: leaves are `[T, E, ...]`.

    Attributes:
        observations: What the agent saw.
        actions: What it did.
        rewards: What it was paid, float32.
        dones: Whether the step terminated the episode.
        ends: Whether the episode ended here, also by time.
        next_observations: The observations to which the step led.
        valid: Whether the step was played.
    """

    observations: Any
    actions: Any
    rewards: Any
    dones: Any
    ends: Any
    next_observations: Any
    valid: Any


class Minibatch(NamedTuple):
    """Transitions over one or several steps, leaves `[batch, ...]`.

    Attributes:
        observations: What the agent saw.
        actions: What it did.
        rewards: The discounted sum of rewards of the window.
        discounts: Weight of the value of `next_observations`: gamma to the power of the
            number of steps, 0 after an end that was not by time.
        next_observations: The observations to which the window led.
        weights: 1, and 0 for steps that were not played.
    """

    observations: Any
    actions: Any
    rewards: Any
    discounts: Any
    next_observations: Any
    weights: Any


class Replay(struct.PyTreeNode):
    """The ring.

    Its memory is capacity times the bytes of two observations, an action and a reward.

    Attributes:
        rows: A `Transition` with leaves `[capacity, E, ...]`.
        head: Index of the next row to be written. int32 scalar.
        filled: Number of rows that have been written. int32 scalar.
    """

    rows: Transition
    head: jax.Array
    filled: jax.Array

    @property
    def capacity(self) -> int:
        """The number of rows."""
        return self.rows.rewards.shape[0]


def transitions(sample: Sample, last_obs: PyTree) -> Transition:
    """Returns what replay keeps of a sample `[T, E, ...]`.

    If an inner episode ends that is no end on the learner's clock, its last step leads
    to the opening of the next one, where the learner acts again.

    Args:
        sample: The experience.
        last_obs: The observations after it, `[E, ...]`.

    Raises:
        ValueError: If the sample lacks the observations to which steps led.
    """
    if sample.final_obs is None:
        raise ValueError("replay needs Sample.final_obs: what each step led to")
    sample = sample.with_flags()
    ends = sample.dones | sample.truncations
    return Transition(
        observations=sample.observations,
        actions=sample.actions,
        rewards=sample.rewards.astype(jnp.float32),
        dones=sample.dones,
        ends=ends,
        next_observations=_select(
            sample.inner_ends & ~ends,
            _acted_on_next(sample.observations, last_obs, sample.valid),
            sample.final_obs,
        ),
        valid=sample.valid,
    )


def empty(row: Transition, capacity: int) -> Replay:
    """Returns an empty ring for rows like `row`, whose leaves are `[E, ...]`."""
    zero = jnp.zeros((), jnp.int32)
    rows = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), row)
    return Replay(rows=rows, head=zero, filled=zero)


def add(
    replay: Replay, new: Transition, enabled: Bool[Array, ""] | bool = True
) -> Replay:
    """Returns the ring with rows `[T, E, ...]` added; of too many, the last ones.

    Where it is not `enabled` nothing is written and nothing copied.
    """
    capacity = replay.capacity
    new = jax.tree.map(lambda x: x[-capacity:], new)
    num_rows = new.rewards.shape[0]
    index = (replay.head + jnp.arange(num_rows)) % capacity
    index = jnp.where(enabled, index, capacity)  # beyond the end: dropped
    rows = jax.tree.map(
        lambda old, x: old.at[index].set(x.astype(old.dtype), mode="drop"),
        replay.rows,
        new,
    )
    added = jnp.where(enabled, num_rows, 0)
    return Replay(
        rows=rows,
        head=(replay.head + added) % capacity,
        filled=jnp.minimum(replay.filled + added, capacity),
    )


def sample(
    replay: Replay,
    key: Key[Array, ""],
    batch_size: int,
    gamma: Float[Array, ""] | float,
    n_step: int = 1,
) -> Minibatch:
    """Returns transitions drawn uniformly, with replacement.

    A window of `n_step` steps ends early where its episode ends, and passes over steps
    that were not played. Meaningless while fewer than `n_step` rows are filled.

    Args:
        replay: The ring.
        key: Consumed.
        batch_size: How many.
        gamma: Discount of a step.
        n_step: Steps of a window.
    """
    words = keys.words(key, 2 * batch_size)
    num_starts = jnp.maximum(replay.filled - n_step + 1, 1)
    start = _below(words[:batch_size], num_starts)
    game = _below(words[batch_size:], replay.rows.rewards.shape[1])
    oldest = replay.head - replay.filled
    steps = jnp.arange(n_step)
    # [batch, n_step]
    rows = (oldest + start[:, None] + steps) % replay.capacity
    window = jax.tree.map(lambda x: x[rows, game[:, None]], replay.rows)
    return windowed(window, gamma)


def windowed(window: Transition, gamma: Float[Array, ""] | float) -> Minibatch:
    """Returns windows `[batch, n, ...]` as single transitions over several steps."""
    ends = window.ends.astype(jnp.int32)
    # Before the first end, and the step of the end itself.
    counts = ((jnp.cumsum(ends, axis=1) - ends) == 0) & window.valid
    powers = gamma ** (jnp.cumsum(counts, axis=1) - counts)
    batch, steps = jnp.arange(ends.shape[0]), jnp.arange(ends.shape[1])
    last = jnp.max(jnp.where(counts, steps, 0), axis=1)
    terminated = window.dones[batch, last]
    first = jax.tree.map(lambda x: x[:, 0], window)
    return Minibatch(
        observations=first.observations,
        actions=first.actions,
        rewards=jnp.sum(window.rewards * powers * counts, axis=1),
        discounts=jnp.where(terminated, 0.0, gamma ** counts.sum(axis=1)),
        next_observations=jax.tree.map(
            lambda x: x[batch, last], window.next_observations
        ),
        weights=first.valid.astype(jnp.float32),
    )


def num_bytes(row: Transition, capacity: int) -> int:
    """Returns the memory of a ring for rows like `row`, in bytes."""
    sizes = [int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(row)]
    return capacity * sum(sizes)


def _select(mask: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns `x` where the mask `[T, E]` holds, `y` elsewhere; both `[T, E, ...]`."""
    return jnp.where(mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim)), x, y)


def _acted_on_next(observations: PyTree, last_obs: PyTree, valid: jax.Array) -> Any:
    """Returns what was seen at the next step played, `last_obs` after the last."""
    num_steps, num_games = valid.shape
    step = jnp.where(valid, jnp.arange(num_steps)[:, None], num_steps)
    first = jax.lax.cummin(step, axis=0, reverse=True)
    following = jnp.concatenate([first[1:], jnp.full((1, num_games), num_steps)])
    seen = jnp.concatenate([observations, last_obs[None]])
    return seen[following, jnp.arange(num_games)]


def _below(word: jax.Array, n: Any) -> jax.Array:
    """Returns a number in [0, n) for each word, of bias below n / 2**24."""
    return jnp.minimum(keys.uniform(word) * n, n - 1).astype(jnp.int32)
