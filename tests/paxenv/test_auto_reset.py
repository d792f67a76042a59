"""Endless streams."""

import jax
import jax.numpy as jnp
import numpy as np
from game_fakes import Counting, CountingParams, Dice

from paxenv import keys
from paxenv.auto_reset import AutoResetWrapper

LANE = keys.lane(3)


def stream(env, params, num_steps, actions):
    """Returns (opening obs, stacked steps) of a stream that plays one joint action."""
    wrapper = AutoResetWrapper(env)
    opening, state = wrapper.reset(LANE, params)

    def step(state, _):
        obs, state, rewards, done, info = wrapper.step(None, state, actions, params)
        return state, (obs, state, rewards, done, info)

    return opening, jax.lax.scan(step, state, length=num_steps)[1]


def test_trial_ends_every_nth_step_for_ever():
    _, (_, state, rewards, done, info) = stream(
        Counting(2), CountingParams(limit=9.0), 6, (1, 0)
    )
    assert done.tolist() == [False, True] * 3
    assert state.e.tolist() == [0, 1, 1, 2, 2, 3]
    assert state.env.t.tolist() == [1, 0, 1, 0, 1, 0]
    assert info["valid"].tolist() == [True] * 6
    assert rewards[0].tolist() == [10.0] * 6


def test_last_observation_of_a_trial_is_in_final_obs():
    _, (obs, _, _, _, info) = stream(Counting(2), CountingParams(limit=9.0), 4, (1, 0))
    assert obs[0][:, 0].tolist() == [1, 0, 1, 0]
    assert info["final_obs"][0][:, 0].tolist() == [1, 2, 1, 2]


def test_each_trial_opens_with_its_own_key():
    _, (obs, *_) = stream(Dice(1), Dice(1).default_params, 20, jnp.int32(0))
    expected = [
        int(Dice(1).reset(keys.reset(keys.episode(LANE, e)), Dice(1).default_params)[0])
        for e in range(1, 21)
    ]
    assert obs.tolist() == expected
    assert len(set(expected)) > 1


def test_key_given_to_step_is_ignored():
    wrapper, params = AutoResetWrapper(Dice(3)), Dice(3).default_params
    _, state = wrapper.reset(LANE, params)
    with_none = wrapper.step(None, state, 0, params)
    with_key = wrapper.step(jax.random.key(99), state, 0, params)
    for a, b in zip(jax.tree.leaves(with_none), jax.tree.leaves(with_key), strict=True):
        assert _data(a) == _data(b)


def test_carry_has_identical_avals_including_weak_type():
    """A stream's state after a step is typed as the one before it."""
    wrapper, params = AutoResetWrapper(Counting(2, 2)), CountingParams()
    _, state = wrapper.reset(LANE, params)
    _, after, *_ = wrapper.step(None, state, (0, 0), params)
    assert jax.tree.map(jax.typeof, after) == jax.tree.map(jax.typeof, state)


def test_wrapper_is_hashable_and_shows_the_game():
    wrapper = AutoResetWrapper(Counting(2))
    assert hash(wrapper) == hash(AutoResetWrapper(Counting(2)))
    assert wrapper.num_players == 2
    assert wrapper.action_space(1) is wrapper.env.action_space(1)


def _data(x):
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x).tolist()
