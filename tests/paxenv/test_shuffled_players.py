"""Seats that are drawn anew for every trial."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from game_fakes import Counting

import paxenv
from paxenv import keys
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.shuffled_players import ShuffledPlayers, by_role, by_seat
from paxenv.testing import check_env


def trial(env, lane_key, e):
    """Everybody plays 0 but role 0: (observations, rewards, seats) of every step."""
    params = env.default_params.replace(limit=jnp.float32(100))
    episode_key = keys.episode(lane_key, e)
    obs, state = env.reset(keys.reset(episode_key), params)
    seen, paid = [obs], []
    actions = tuple(jnp.int32(p == 0) for p in range(env.num_players))
    for t in range(4):
        key = keys.step(episode_key, t)
        obs, state, rewards, _, info = env.step(key, state, actions, params)
        seen.append(obs)
        paid.append(rewards)
    return np.array(seen), np.array(paid), np.asarray(info["seats"])


def test_a_role_sees_and_is_paid_for_one_seat_from_the_first_observation_on():
    """The seat that an observation names never changes within a trial."""
    env = ShuffledPlayers(Counting(2, 2, players=3))
    orders = set()
    for e in range(6):
        seen, paid, seats = trial(env, jax.random.key(0), e)
        np.testing.assert_array_equal(seen[:, :, 1], np.tile(seats, (5, 1)))
        # 10 for the action 1, which is role 0's, and the seat.
        np.testing.assert_array_equal(
            paid, np.tile(seats + np.array([10, 0, 0]), (4, 1))
        )
        orders.add(tuple(seats.tolist()))
    assert len(orders) > 2


def test_every_order_of_seats_is_as_likely_as_any_other():
    """6,000 trials of three roles; the standard deviation of a count is 29."""
    env = ShuffledPlayers(Counting(2, players=3))
    lane_keys = jax.vmap(jax.random.key)(jnp.arange(6_000))
    states = jax.vmap(env.reset, (0, None))(lane_keys, env.default_params)[1]
    _, counts = np.unique(np.asarray(states.seats), axis=0, return_counts=True)
    assert len(counts) == 6
    assert (np.abs(counts - 1000) < 120).all()


def test_roles_and_seats_are_inverse_orders():
    seats = jnp.array([2, 0, 1])
    values = (jnp.int32(10), jnp.int32(11), jnp.int32(12))
    assert [int(x) for x in by_role(seats, values)] == [12, 10, 11]
    assert by_seat(seats, by_role(seats, values)) == values


def test_statistics_are_those_of_the_seats():
    env = ShuffledPlayers(IteratedMatrixGame(1))
    params = env.default_params
    _, state = env.reset(jax.random.key(0), params)
    state = state.replace(seats=jnp.array([1, 0]))
    actions = (jnp.int32(0), jnp.int32(1))  # role 0, who sits second, cooperates
    obs = (jnp.eye(5)[4], jnp.eye(5)[4])
    _, _, rewards, _, info = env.step(jax.random.key(1), state, actions, params)
    acc = env.metrics_update(env.metrics_init(), obs, actions, info)
    named = env.metrics_final(acc)
    assert [float(r) for r in rewards] == [-3.0, 0.0]
    assert float(named["cooperation_probability/player_1/START"]) == 0.0
    assert float(named["cooperation_probability/player_2/START"]) == 1.0


@pytest.mark.slow
def test_a_shuffled_game_keeps_the_promises_of_a_game():
    env, params = paxenv.make("IPD-v0", num_inner_steps=4, num_outer_steps=2)
    check_env(ShuffledPlayers(env), params)


def test_players_with_different_actions_are_not_shuffled():
    game = IteratedMatrixGame(2, num_actions=(2, 3))
    with pytest.raises(ValueError, match=r"player 2 has Discrete\(3"):
        ShuffledPlayers(game)
