"""A ring gives back what was put in, and never joins what does not belong together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.learners import replay
from paxenv_agents.learners.replay import Transition
from paxenv_agents.types import Sample
from runners.session.host_replay import HostReplay


def numbered(first, num_rows, num_games=1, ends=()):
    """Rows whose observation is their number, and that lead to the next number."""
    number = np.arange(first, first + num_rows, dtype=np.float32)
    number = np.repeat(number[:, None], num_games, axis=1)
    ended = np.isin(number, ends)
    return Transition(
        observations=number,
        actions=number.astype(np.int32),
        rewards=number,
        dones=ended,
        ends=ended,
        next_observations=number + 1,
        valid=np.ones_like(ended),
    )


class OnDevice:
    """The ring of the device by the interface of the one of the host."""

    def __init__(self, capacity, seed):
        self.capacity, self.key, self.ring = capacity, jax.random.key(seed), None

    def add(self, rows):
        if self.ring is None:
            row = jax.tree.map(lambda x: jnp.asarray(x[0]), rows)
            self.ring = replay.empty(row, self.capacity)
        self.ring = jax.jit(replay.add)(self.ring, jax.tree.map(jnp.asarray, rows))

    def sample(self, batch_size, gamma, n_step=1):
        self.key = jax.random.fold_in(self.key, 1)
        draw = jax.jit(replay.sample, static_argnums=(2, 4))
        return draw(self.ring, self.key, batch_size, gamma, n_step)


BOTH = pytest.mark.parametrize("make", [OnDevice, HostReplay])


@BOTH
@pytest.mark.parametrize("num_rows", range(1, 13))
def test_only_rows_that_are_there_are_drawn_and_no_pair_crosses_the_head(
    make, num_rows
):
    """Capacity 5, 1 to 12 numbered rows, 1,000 draws each."""
    ring = make(5, seed=num_rows)
    for row in range(num_rows):
        ring.add(numbered(row, 1))
    there = set(range(max(0, num_rows - 5), num_rows))
    batch = ring.sample(1000, 0.5)
    assert set(np.asarray(batch.observations).astype(int)) == there
    np.testing.assert_array_equal(batch.next_observations, batch.observations + 1)
    if num_rows < 2:
        return
    pairs = ring.sample(1000, 0.5, 2)
    assert set(np.asarray(pairs.observations).astype(int)) == there - {num_rows - 1}
    # r + 0.5 (r + 1): the row after it is really the next one.
    expected = 1.5 * np.asarray(pairs.observations) + 0.5
    np.testing.assert_allclose(pairs.rewards, expected)
    np.testing.assert_array_equal(pairs.next_observations, pairs.observations + 2)


@BOTH
def test_many_rows_at_once_are_the_same_rows_one_by_one(make):
    at_once, one_by_one = make(5, seed=0), make(5, seed=0)
    at_once.add(numbered(0, 8))
    for row in range(8):
        one_by_one.add(numbered(row, 1))
    a, b = (set(np.asarray(r.sample(500, 1.0).actions)) for r in (at_once, one_by_one))
    assert a == b == {3, 4, 5, 6, 7}


@BOTH
def test_a_window_ends_with_its_episode(make):
    ring = make(8, seed=1)
    ring.add(numbered(1, 6, ends=(3,)))
    batch = ring.sample(500, 0.5, 3)
    by_start = {
        int(o): (float(r), float(d), float(n))
        for o, r, d, n in zip(
            np.asarray(batch.observations),
            np.asarray(batch.rewards),
            np.asarray(batch.discounts),
            np.asarray(batch.next_observations),
            strict=True,
        )
    }
    assert by_start == {
        1: (1 + 0.5 * 2 + 0.25 * 3, 0.0, 4.0),
        2: (2 + 0.5 * 3, 0.0, 4.0),
        3: (3.0, 0.0, 4.0),
        4: (4 + 0.5 * 5 + 0.25 * 6, 0.125, 7.0),
    }


@BOTH
def test_an_end_by_time_still_counts_what_it_led_to(make):
    rows = numbered(1, 3)
    rows = rows._replace(ends=rows.observations == 2)  # cut, not terminated
    ring = make(4, seed=2)
    ring.add(rows)
    batch = ring.sample(200, 0.5, 2)
    at_two = np.asarray(batch.observations) == 2
    assert set(np.asarray(batch.discounts)[at_two]) == {0.5}
    assert set(np.asarray(batch.next_observations)[at_two]) == {3.0}


@BOTH
def test_games_are_drawn_alike_and_never_mixed(make):
    rows = numbered(0, 4, num_games=3)
    shift = 100 * np.arange(3, dtype=np.float32)
    rows = rows._replace(
        observations=rows.observations + shift,
        next_observations=rows.next_observations + shift,
    )
    ring = make(4, seed=3)
    ring.add(rows)
    batch = ring.sample(3000, 1.0, 2)
    np.testing.assert_array_equal(batch.next_observations, batch.observations + 2)
    games, counts = np.unique(np.asarray(batch.observations) // 100, return_counts=True)
    assert games.tolist() == [0, 1, 2]
    # 1,000 each; six standard deviations of a binomial are 155.
    assert np.abs(counts - 1000).max() < 155


def test_a_step_that_was_not_played_has_no_weight():
    rows = numbered(0, 2)
    rows = rows._replace(valid=rows.observations == 1)
    ring = OnDevice(2, seed=4)
    ring.add(rows)
    batch = ring.sample(100, 1.0)
    np.testing.assert_array_equal(batch.weights, batch.observations)


@BOTH
def test_a_window_passes_over_steps_that_were_not_played(make):
    rows = numbered(1, 3)
    played = rows.observations != 2
    rows = rows._replace(valid=played, rewards=rows.rewards * played)
    ring = make(3, seed=5)
    ring.add(rows)
    batch = ring.sample(10, 0.5, 3)
    # 1 + 0.5 * 3: two steps were played.
    np.testing.assert_allclose(batch.rewards, 2.5)
    np.testing.assert_allclose(batch.discounts, 0.25)
    np.testing.assert_array_equal(batch.next_observations, 4)


def test_over_an_inner_end_a_step_leads_to_where_it_is_acted_next():
    """Two inner episodes of one trial; the first one ends early, after two steps."""
    seen = jnp.array([10, 11, 0, 20, 21, 22])[:, None]
    flags = jnp.array([0, 1, 0, 0, 0, 1], bool)[:, None]
    last = jnp.arange(6)[:, None] == 5
    sample = Sample(
        observations=seen,
        actions=seen,
        rewards=jnp.zeros((6, 1)),
        behavior_log_probs=None,
        behavior_values=None,
        dones=flags & last,
        hiddens=None,
        valid=jnp.array([1, 1, 0, 1, 1, 1], bool)[:, None],
        inner_ends=flags,
        final_obs=jnp.array([11, 19, 0, 21, 22, 29])[:, None],
    )
    rows = replay.transitions(sample, jnp.array([99]))
    # Not 19, where nobody ever acts; and 29, not 99, after the end of the trial.
    assert rows.next_observations[:, 0].tolist() == [11, 20, 0, 21, 22, 29]
    cut = sample._replace(dones=flags & False)
    rows = replay.transitions(cut, jnp.array([99]))
    assert rows.next_observations[-1, 0] == 99


def test_a_ring_that_is_switched_off_stays_as_it_is():
    row = jax.tree.map(lambda x: jnp.asarray(x[0]), numbered(0, 1))
    ring = replay.add(replay.empty(row, 3), numbered(5, 1))
    kept = replay.add(ring, numbered(9, 2), jnp.asarray(False))
    jax.tree.map(np.testing.assert_array_equal, ring, kept)


def test_the_memory_of_a_ring_is_known():
    row = jax.tree.map(lambda x: x[0], numbered(0, 1, num_games=2))
    # Two games of three float32 numbers, an int32 action and three bools.
    assert replay.num_bytes(row, 10) == 10 * 2 * (4 * 4 + 3)


def test_a_ring_on_the_host_goes_on_from_its_state():
    straight, first = HostReplay(5, seed=7), HostReplay(5, seed=7)
    for ring in (straight, first):
        ring.add(numbered(0, 7))
        ring.sample(10, 0.9)
    resumed = HostReplay(5, seed=0)
    resumed.load_state_dict(first.state_dict(), numbered(0, 1))
    for ring in (straight, resumed):
        ring.add(numbered(7, 1))
    jax.tree.map(
        np.testing.assert_array_equal,
        straight.sample(50, 0.9, 2),
        resumed.sample(50, 0.9, 2),
    )


def test_too_few_rows_are_refused_on_the_host():
    ring = HostReplay(5, seed=0)
    with pytest.raises(ValueError, match="window of 1 step needs as many rows, got 0"):
        ring.sample(4, 0.9)
    with pytest.raises(ValueError, match="capacity must be >= 1, got 0"):
        HostReplay(0, seed=0)
