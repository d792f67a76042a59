"""Trajectory identity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from game_fakes import Counting, CountingParams, Dice

import paxenv
from paxenv import keys
from paxenv.auto_reset import AutoResetWrapper

ENV = Dice(4, 2, random_ends=True)
PARAMS = ENV.default_params.replace(continuation_prob=jnp.float32(0.7))
ACTIONS = jnp.array([0, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0])


def by_hand(lane_key, episode=0):
    """Returns (final obs, reward, done) of each step, trial after trial, in Python."""
    step = jax.jit(ENV.step)
    rows, done, state = [], True, None
    e = episode - 1
    for action in ACTIONS:
        if done:
            e += 1
            _, state = ENV.reset(keys.reset(keys.episode(lane_key, e)), PARAMS)
        key = keys.step(keys.episode(lane_key, e), state.t)
        obs, state, reward, done, _ = step(key, state, action, PARAMS)
        rows.append((int(obs), float(reward), bool(done)))
    return rows


def rows(replayed):
    return list(
        zip(
            replayed.obs.tolist(),
            replayed.rewards.tolist(),
            replayed.done.tolist(),
            strict=True,
        )
    )


def test_replay_equals_stepping_by_hand():
    played = rows(paxenv.replay(ENV, PARAMS, 11, 2, ACTIONS))
    assert played == by_hand(keys.lane(13))
    assert sum(done for _, _, done in played) >= 2


def test_replay_equals_the_stream():
    wrapper = AutoResetWrapper(ENV)
    replayed = paxenv.replay(ENV, PARAMS, 11, 2, ACTIONS)
    opening, state = wrapper.reset(keys.lane(13), PARAMS)

    def step(state, action):
        obs, state, reward, done, info = wrapper.step(None, state, action, PARAMS)
        return state, (obs, reward, done, info["final_obs"])

    obs, rewards, done, final = jax.lax.scan(step, state, ACTIONS)[1]
    np.testing.assert_array_equal(rewards, replayed.rewards)
    np.testing.assert_array_equal(done, replayed.done)
    np.testing.assert_array_equal(final, replayed.info["final_obs"])
    np.testing.assert_array_equal([opening, *obs[:-1]], replayed.obs_before)


def test_replay_takes_a_lane_key_and_a_first_episode():
    replayed = paxenv.replay(
        ENV, PARAMS, lane_key=keys.lane(13), actions=ACTIONS, episode=5
    )
    assert rows(replayed) == by_hand(keys.lane(13), episode=5)


def test_trials_of_a_lane_differ():
    first = paxenv.replay(ENV, PARAMS, 0, actions=ACTIONS)
    second = paxenv.replay(ENV, PARAMS, 0, actions=ACTIONS, episode=1)
    assert rows(first) != rows(second)


def test_last_observation_of_a_trial_is_kept_and_the_next_step_opens_anew():
    actions = (jnp.ones(4, int), jnp.zeros(4, int))
    played = paxenv.replay(Counting(2), CountingParams(limit=9.0), 0, actions=actions)
    assert played.obs[0][:, 0].tolist() == [1, 2, 1, 2]
    assert played.obs_before[0][:, 0].tolist() == [0, 1, 0, 1]


def test_replay_needs_a_lane_and_actions():
    with pytest.raises(ValueError, match="a seed or a lane_key"):
        paxenv.replay(ENV, PARAMS, actions=ACTIONS)
    with pytest.raises(ValueError, match="joint actions"):
        paxenv.replay(ENV, PARAMS, 0)
