"""Spaces of games that show one of finitely many states."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest

from paxenv import spaces


def test_samples_of_a_one_hot_space_are_states():
    space = spaces.OneHot(5)
    space.seed(0)
    samples = np.stack([space.sample() for _ in range(200)])
    assert samples.dtype == np.int8
    assert (samples.sum(-1) == 1).all()
    assert set(samples.argmax(-1).tolist()) == {0, 1, 2, 3, 4}
    assert all(space.contains(sample) for sample in samples)


def test_a_one_hot_space_is_a_box_to_others_and_survives_copies():
    space = spaces.OneHot(3)
    assert space == gymnasium.spaces.Box(0, 1, (3,), np.int8)
    for twin in (copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert isinstance(twin, spaces.OneHot)
        assert twin == space
        assert spaces.num_states(twin) == 3
    batched = gymnasium.vector.utils.batch_space(space, 2)
    assert batched == gymnasium.spaces.Box(0, 1, (2, 3), np.int8)


def test_states_survive_their_encoding():
    for encoding in spaces.ENCODINGS:
        space = spaces.state_space(4, encoding)
        for state in range(4):
            obs = spaces.encode_state(state, 4, encoding)
            assert int(spaces.decode_state(obs, space)) == state
            mask = spaces.state_mask(obs, space)
            np.testing.assert_array_equal(mask, np.arange(4) == state)


def test_a_vector_of_features_is_no_state():
    with pytest.raises(ValueError, match="not one of finitely many states"):
        spaces.num_states(gymnasium.spaces.Box(0, 1, (36,), np.int8))
