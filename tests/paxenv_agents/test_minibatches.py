"""How a batch is split."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.learners import minibatches


def test_games_are_split_where_their_number_allows_it():
    assert minibatches.minibatch_axis(10, 8, 4) == minibatches.GAMES
    assert minibatches.minibatch_axis(10, 8, 4, recurrent=True) == minibatches.GAMES


def test_a_memoryless_learner_splits_time_instead():
    assert minibatches.minibatch_axis(12, 1, 4) == minibatches.TIME


def test_a_batch_that_does_not_split_is_an_error_with_all_numbers():
    """10 games of 15 steps in 4 minibatches."""
    with pytest.raises(
        ValueError, match=r"num_minibatches=4 .* 10 games nor the 15 st"
    ):
        minibatches.minibatch_axis(15, 10, 4)


def test_a_recurrent_learner_never_splits_time():
    with pytest.raises(
        ValueError, match=r"num_minibatches=4 does not divide the 2 gam"
    ):
        minibatches.minibatch_axis(16, 2, 4, recurrent=True)


def test_every_epoch_is_its_own_permutation():
    index = np.asarray(minibatches.indices(jax.random.key(0), 12, 3, 4))

    assert index.shape == (12, 3)
    epochs = index.reshape(3, 12)
    np.testing.assert_array_equal(np.sort(epochs), np.tile(np.arange(12), (3, 1)))
    assert (epochs[0] != epochs[1]).any()
    assert (epochs[1] != epochs[2]).any()


def test_taking_games_keeps_their_order_in_time():
    batch = {"x": jnp.arange(12).reshape(3, 4), "none": None}

    part = minibatches.take(batch, jnp.array([2, 0]), minibatches.GAMES)

    assert part["x"].tolist() == [[2, 0], [6, 4], [10, 8]]
    assert part["none"] is None


def test_a_single_minibatch_is_the_batch_itself():
    index = minibatches.indices(jax.random.key(0), 4, 2, 1)
    batch = jnp.arange(12).reshape(3, 4)

    assert index.tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert minibatches.take(batch, index[0], minibatches.GAMES) is batch
