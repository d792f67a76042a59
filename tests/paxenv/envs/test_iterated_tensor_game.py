"""The N-player matrix game: counts, tensors, views, statistics."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv import payoffs
from paxenv.envs import iterated_matrix_game
from paxenv.envs.iterated_tensor_game import (
    EnvParams,
    IteratedTensorGame,
    count_rewards,
    make,
    rotated_state,
)

KEY = jax.random.key(0)
C, D = 0, 1
CANONICAL = [[4, 1000], [2, 5], [0, 3], [-1000, 1]]
step_jit = jax.jit(lambda env, *args: env.step(*args), static_argnums=0)


@functools.cache
def rollout(env):
    @jax.jit
    def play(params, actions):
        def step(state, joint_action):
            obs, state, rewards, done, info = env.step(KEY, state, joint_action, params)
            return state, (obs, rewards, done, info)

        return jax.lax.scan(step, env.reset(KEY, params)[1], actions)[1]

    return play


def all_joint_actions(num_players):
    """Returns every joint action, one array [2^N] for each player."""
    joint = np.array(list(itertools.product((0, 1), repeat=num_players)), np.int32)
    return tuple(joint.T)


@pytest.mark.parametrize(
    ("joint", "rewards"),
    [
        ((C, C, C), (4, 4, 4)),
        ((D, C, C), (5, 2, 2)),
        ((C, D, C), (2, 5, 2)),
        ((C, D, D), (0, 3, 3)),
        ((D, D, D), (1, 1, 1)),
    ],
)
def test_three_players_are_paid_by_the_number_of_defectors(joint, rewards):
    env, params = make(CANONICAL)
    state = env.reset(KEY, params)[1]
    paid = step_jit(env, KEY, state, joint, params)[2]
    assert tuple(float(r) for r in paid) == rewards


def test_the_default_of_three_players_is_the_canonical_table():
    env, params = make(num_inner_steps=8)
    actions = all_joint_actions(3)
    _, rewards, _, info = rollout(env)(params, actions)
    _, expected, _, _ = rollout(env)(EnvParams(payoff_table=CANONICAL), actions)
    np.testing.assert_array_equal(rewards, expected)
    np.testing.assert_array_equal(info["metrics"]["welfare"], np.sum(rewards, 0))


@pytest.mark.parametrize("observation", ["one_hot", "index"])
@pytest.mark.parametrize("num_players", range(2, 9))
def test_observations_and_rewards_fit_their_spaces(num_players, observation):
    """Shapes and dtypes hold for every agent at N = 2..8."""
    env, params = make(
        num_players=num_players, observation=observation, num_inner_steps=4
    )
    obs, state = env.reset(KEY, params)
    actions = tuple(p % 2 for p in range(num_players))
    for _ in range(2):
        for player in range(num_players):
            space = env.observation_space(player)
            assert obs[player].shape == space.shape
            assert obs[player].dtype == space.dtype
            assert space.contains(np.asarray(obs[player]).astype(space.dtype)[()])
        obs, state, rewards, _, _ = step_jit(env, KEY, state, actions, params)
        assert len(rewards) == num_players
        assert all(r.shape == () and r.dtype == jnp.float32 for r in rewards)
    assert env.num_states == 2**num_players + 1


@pytest.mark.parametrize("num_players", [2, 3, 5])
def test_players_see_themselves_first_and_the_rest_in_turn(num_players):
    env, params = make(num_players=num_players, observation="index")
    env_obs = rollout(env)(params, all_joint_actions(num_players))[0]
    for t, joint in enumerate(itertools.product("01", repeat=num_players)):
        for player in range(num_players):
            rotated = joint[player:] + joint[:player]
            assert int(env_obs[player][t]) == int("".join(rotated), base=2)


def test_start_is_the_last_state():
    env, params = make(num_players=4, observation="index")
    obs, _ = env.reset(KEY, params)
    assert [int(o) for o in obs] == [16] * 4


def test_digits_of_unequal_action_numbers_are_mixed():
    actions = tuple(map(jnp.int32, (1, 2, 3)))
    sizes = (2, 3, 4)
    assert int(rotated_state(actions, sizes, 0)) == 1 * 12 + 2 * 4 + 3
    assert int(rotated_state(actions, sizes, 1)) == 2 * 8 + 3 * 2 + 1
    assert int(rotated_state(actions, sizes, 2)) == 3 * 6 + 1 * 3 + 2


@pytest.mark.parametrize("junk", [1000.0, np.nan, np.inf])
def test_junk_in_unreachable_cells_reaches_no_reward_and_no_gradient(junk):
    """Cells (0 defectors, D) and (N defectors, C) are never read."""
    table = jnp.array([[4, junk], [2, 5], [0, 3], [-junk, 1]])
    actions = tuple(map(jnp.asarray, all_joint_actions(3)))

    def total(table):
        rewards = jax.vmap(count_rewards, in_axes=(None, 0))(table, actions)
        return sum(r.sum() for r in rewards)

    value, gradient = jax.value_and_grad(total)(table)
    assert float(value) == 60.0
    # How often each cell pays over the eight joint actions.
    np.testing.assert_array_equal(gradient, [[3, 0], [6, 3], [3, 6], [0, 3]])
    env, params = IteratedTensorGame(3, 10), EnvParams(payoff_table=table)
    rewards = rollout(env)(params, all_joint_actions(3))[1]
    assert np.all(np.isfinite(rewards))


def test_two_players_with_a_counts_table_are_a_matrix_game():
    table = [[-1, 1000], [-3, 0], [1000, -2]]
    env, params = make(table, num_players=2, num_inner_steps=2, num_outer_steps=2)
    other, other_params = iterated_matrix_game.make(
        "IPD", num_inner_steps=2, num_outer_steps=2
    )
    actions = all_joint_actions(2)
    got = rollout(env)(params, actions)
    expected = rollout(other)(other_params, actions)
    jax.tree.map(np.testing.assert_array_equal, got, expected)


def test_a_payoff_tensor_pays_its_cell():
    tensor = np.random.default_rng(0).normal(size=(2, 3, 2, 3)).astype(np.float32)
    env, params = make(tensor, num_actions=(2, 3, 2), num_inner_steps=12)
    joint = np.array(list(itertools.product(range(2), range(3), range(2))), np.int32)
    obs, rewards, _, info = rollout(env)(params, tuple(joint.T))
    for p in range(3):
        np.testing.assert_array_equal(rewards[p], tensor[..., p].reshape(12))
    assert obs[1].shape == (12, 13)
    assert set(info["metrics"]) == {"welfare"}
    assert env.metrics_final(env.metrics_init()) == {}


def test_counts_and_the_equal_tensor_pay_alike():
    env, params = make(CANONICAL, num_inner_steps=8)
    actions = all_joint_actions(3)
    rewards = rollout(env)(params, actions)[1]
    tensor = np.stack(rewards, -1).reshape(2, 2, 2, 3)
    _, tensor_params = make(tensor, num_inner_steps=8)
    np.testing.assert_array_equal(rollout(env)(tensor_params, actions)[1], rewards)


def test_rotating_players_rotates_rewards():
    env, params = make(num_players=5, num_inner_steps=32)
    actions = all_joint_actions(5)
    rewards = rollout(env)(params, actions)[1]
    rotated = rollout(env)(params, (*actions[1:], actions[0]))[1]
    np.testing.assert_array_equal(rotated, (*rewards[1:], rewards[0]))


def test_twelve_players_step_with_an_index():
    env, params = make(num_players=12, observation="index", num_inner_steps=5)
    rng = np.random.default_rng(1)
    actions = tuple(rng.integers(0, 2, (12, 5), dtype=np.int32))
    obs, rewards, done, _ = rollout(env)(params, actions)
    joint = np.stack(actions)
    others = joint.sum(0) - joint
    expected = 2.0 * (11 - others) + joint
    np.testing.assert_array_equal(rewards, expected)
    assert int(obs[11][0]) == int("".join(map(str, [joint[11, 0], *joint[:11, 0]])), 2)
    np.testing.assert_array_equal(done, [0, 0, 0, 0, 1])


def test_one_hot_observations_of_too_many_states_are_refused():
    assert make(num_players=12)[0].observation_space(0).shape == (4097,)
    with pytest.raises(ValueError, match="use 'index'"):
        make(num_players=17)
    assert make(num_players=30, observation="index")[0].num_states == 2**30 + 1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_players": 1}, "num_players"),
        ({"num_players": 31}, "num_players"),
        ({"num_players": 3.5}, "num_players"),
        ({"num_inner_steps": 0}, "num_inner_steps"),
        ({"num_actions": (2, 2)}, "num_actions"),
        ({"num_actions": (2, 0, 2)}, "num_actions"),
        ({"num_actions": (3, 3, 3)}, "no default payoff"),
        ({"observation": "pixels"}, "observation"),
        ({"payoff": [[1, 1], [2, 2]]}, "4 rows and 2 columns"),
        ({"payoff": np.zeros((2, 2, 3))}, "shape"),
    ],
)
def test_bad_options_are_refused_by_name(options, match):
    with pytest.raises(ValueError, match=match):
        make(**options)


def test_a_table_for_other_numbers_is_refused_at_trace_time():
    env = IteratedTensorGame(4, 10)
    params = EnvParams(payoff_table=CANONICAL)
    state = env.reset(KEY, params)[1]
    with pytest.raises(payoffs.PayoffError, match="4 players"):
        env.step(KEY, state, (0, 0, 0, 0), params)


def test_players_come_before_steps_in_the_constructor():
    env = IteratedTensorGame(3, 7, 2)
    assert (env.num_players, env.num_inner_steps, env.num_outer_steps) == (3, 7, 2)
    assert env == IteratedTensorGame(
        num_players=3, num_inner_steps=7, num_outer_steps=2
    )
    assert hash(env) != hash(IteratedTensorGame(4, 7, 2))


def test_the_trial_ends_once_and_opens_every_inner_episode():
    env, params = make(num_inner_steps=300, num_outer_steps=4, observation="index")
    zeros = np.zeros(1203, np.int32)
    obs, rewards, done, info = rollout(env)(params, (zeros,) * 3)
    np.testing.assert_array_equal(np.flatnonzero(done), [1199])
    starts = np.flatnonzero(np.asarray(obs[2])[:1200] == 8)
    np.testing.assert_array_equal(starts, [299, 599, 899])
    assert np.sum(rewards[0]) == 4.0 * 1200
    assert np.sum(info["inner_done"]) == 4


def test_statistics_group_states_by_defecting_others():
    env, params = make(num_inner_steps=4, num_players=3)
    assert env.group_names == ("C0D", "C1D", "C2D", "D0D", "D1D", "D2D", "START")
    plays = [(C, D, D), (D, C, D), (C, C, C), (D, D, D), (C, C, C)]
    acc = env.metrics_init()
    obs, state = env.reset(KEY, params)
    for joint in plays:
        before = obs
        obs, state, _, _, info = step_jit(env, KEY, state, joint, params)
        acc = env.metrics_update(acc, before, joint, info)
    visits = acc.totals["visits"]
    assert visits.dtype == jnp.int32
    # The fifth step comes after the end and does not count.
    np.testing.assert_array_equal(visits[0], [1, 0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(visits[1], [1, 0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(visits[2], [1, 0, 0, 0, 2, 0, 1])
    named = env.metrics_final(acc)
    assert named["cooperation_rate/player_1"] == 0.5
    assert named["cooperation_probability/player_1/START"] == 1.0
    assert named["cooperation_probability/player_1/C2D"] == 0.0
    assert named["cooperation_probability/player_3/D1D"] == 0.5
    assert np.isnan(named["cooperation_probability/player_3/C2D"])
    assert named["state_visitation/player_3/D1D"] == 0.5


def test_an_eight_player_group_counts_seven_defecting_others():
    """Counts of N >= 8 do not wrap."""
    env, params = make(num_inner_steps=2, num_players=8)
    obs, state = env.reset(KEY, params)
    joint = (C, *(D,) * 7)
    obs, state, *_ = step_jit(env, KEY, state, joint, params)
    info = step_jit(env, KEY, state, joint, params)[-1]
    acc = env.metrics_update(env.metrics_init(), obs, joint, info)
    seen = [env.group_names[int(np.argmax(v))] for v in acc.totals["visits"]]
    assert seen == ["C7D", *("D6D",) * 7]
