"""The iterated matrix game: rules, clock, views, statistics."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from paxenv import payoffs
from paxenv.envs import iterated_matrix_game
from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame, make

KEY = jax.random.key(0)
CC, CD, DC, DD, START = range(5)
C, D = 0, 1
step_jit = jax.jit(lambda env, *args: env.step(*args), static_argnums=0)
reset_jit = jax.jit(lambda env, *args: env.reset(*args), static_argnums=0)


@functools.cache
def rollout(env):
    """Returns a jitted play of given joint actions: (obs, rewards, done, info)."""

    @jax.jit
    def play(params, actions):
        def step(state, joint_action):
            obs, state, rewards, done, info = env.step(KEY, state, joint_action, params)
            return state, (obs, rewards, done, info)

        _, state = env.reset(KEY, params)
        return jax.lax.scan(step, state, actions)[1]

    return play


def test_actions_and_states_are_named_and_shown_from_each_side():
    """Two actions each; five states; player 2 sees CD where player 1 sees DC."""
    env, params = make(observation="index")
    assert [env.action_space(p).n for p in range(2)] == [2, 2]
    assert env.observation_space(0) == Discrete(5, dtype=np.int32)
    assert env.state_names(0) == ("CC", "CD", "DC", "DD", "START")
    obs, state = env.reset(KEY, params)
    assert [int(o) for o in obs] == [START, START]
    obs, *_ = env.step(KEY, state, (C, D), params)
    assert [int(o) for o in obs] == [CD, DC]


@pytest.mark.parametrize(
    ("joint", "rewards", "states"),
    [
        ((C, C), (-1, -1), (CC, CC)),
        ((C, D), (-3, 0), (CD, DC)),
        ((D, C), (0, -3), (DC, CD)),
        ((D, D), (-2, -2), (DD, DD)),
    ],
)
def test_cells_pay_the_right_player(joint, rewards, states):
    """(C, D) pays (-3, 0) and (D, C) pays (0, -3)."""
    env, params = make()
    _, state = reset_jit(env, KEY, params)
    obs, _, paid, _, info = step_jit(env, KEY, state, joint, params)
    assert tuple(float(r) for r in paid) == rewards
    for player in range(2):
        np.testing.assert_array_equal(obs[player], np.eye(5)[states[player]])
    assert float(info["metrics"]["welfare"]) == sum(rewards)
    np.testing.assert_array_equal(info["metrics"]["cooperation"], 1.0 - np.array(joint))


def test_asymmetric_cells_keep_their_player():
    """Battle of the sexes keeps 3 for player 1 in the first cell only."""
    env, params = make([[3, 2], [0, 0], [0, 0], [2, 3]])
    _, state = reset_jit(env, KEY, params)
    paid = [
        tuple(float(r) for r in step_jit(env, KEY, state, joint, params)[2])
        for joint in ((C, C), (C, D), (D, C), (D, D))
    ]
    assert paid == [(3, 2), (0, 0), (0, 0), (2, 3)]


def test_a_non_square_game_steps_with_every_action():
    """Two row actions and three column actions; player 2 can play 2."""
    payoff = np.arange(12.0).reshape(2, 3, 2)
    env, params = make(payoff, num_inner_steps=100)
    assert [env.action_space(p).n for p in range(2)] == [2, 3]
    assert env.observation_space(1).shape == (7,)
    t = np.arange(100)
    actions = t % 2, t % 3
    obs, rewards, done, _ = rollout(env)(params, actions)
    for p in range(2):
        assert obs[p].shape == (100, 7)
        np.testing.assert_array_equal(rewards[p], payoff[t % 2, t % 3, p])
    np.testing.assert_array_equal(np.argmax(obs[0], -1), (t % 2) * 3 + t % 3)
    np.testing.assert_array_equal(np.argmax(obs[1], -1), (t % 3) * 2 + t % 2)
    assert env.state_names(1)[5] == "2,1"
    np.testing.assert_array_equal(np.flatnonzero(done), [99])


def test_rock_paper_scissors_sums_to_zero():
    env, params = make(game="RockPaperScissors", num_inner_steps=9)
    t = np.arange(9)
    _, rewards, _, info = rollout(env)(params, (t // 3, t % 3))
    np.testing.assert_array_equal(rewards[0], [0, -1, 1, 1, 0, -1, -1, 1, 0])
    np.testing.assert_array_equal(rewards[0] + rewards[1], np.zeros(9))
    assert set(info["metrics"]) == {"welfare"}


def test_a_big_table_gathers_the_same_cell():
    payoff = np.arange(50.0).reshape(5, 5, 2)
    env, params = make(payoff)
    _, state = env.reset(KEY, params)
    rewards = step_jit(env, KEY, state, (3, 4), params)[2]
    assert [float(r) for r in rewards] == [38.0, 39.0]


@pytest.mark.parametrize("value", [0, -5, 2.5, True, "10"])
@pytest.mark.parametrize("name", ["num_inner_steps", "num_outer_steps"])
def test_a_horizon_that_is_no_positive_whole_number_is_refused(name, value):
    """0, -5, 2.5 and True raise a ValueError that names the argument."""
    with pytest.raises(ValueError, match=name):
        make(**{name: value})


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), True])
def test_a_continuation_that_is_no_probability_is_refused(value):
    with pytest.raises(ValueError, match="continuation_prob"):
        make(random_ends=True, continuation_prob=value)


@pytest.mark.parametrize("n", [127, 128, 150, 255, 256, 257, 300, 1000])
def test_clocks_do_not_wrap(n):
    """START and done come when they should for horizons around int8's limits."""
    env, params = make(num_inner_steps=n, num_outer_steps=2, observation="index")
    zeros = np.zeros(2 * n + 3, np.int32)
    obs, rewards, done, info = rollout(env)(params, (zeros, zeros))
    np.testing.assert_array_equal(np.flatnonzero(done), [2 * n - 1])
    np.testing.assert_array_equal(
        np.flatnonzero(info["inner_done"]), [n - 1, 2 * n - 1]
    )
    np.testing.assert_array_equal(
        np.flatnonzero(np.asarray(obs[0])[: 2 * n] == START), [n - 1]
    )
    assert np.sum(rewards[0]) == -2.0 * n


def test_a_thousand_episodes_of_three_hundred_steps():
    """300 x 1000 steps show START 999 times and end once."""
    env, params = make(num_inner_steps=300, num_outer_steps=1000, observation="index")
    zeros = np.zeros(300_000, np.int32)
    obs, _, done, info = rollout(env)(params, (zeros, zeros))
    starts = np.flatnonzero(np.asarray(obs[0]) == START)
    np.testing.assert_array_equal(starts, 300 * np.arange(1, 1000) - 1)
    np.testing.assert_array_equal(np.flatnonzero(done), [299_999])
    assert np.sum(info["inner_done"]) == 1000


def test_tit_for_tat_pairs_see_start_at_inner_boundaries_only():
    """2 inner x 3 outer steps, tit for tat in both seats: six rewards of R."""
    env, params = make(num_inner_steps=2, num_outer_steps=3, observation="index")
    obs, state = reset_jit(env, KEY, params)
    seen, paid, dones = [int(obs[0])], [], []
    for _ in range(6):
        actions = tuple(int(o in (CD, DD)) for o in obs)
        obs, state, rewards, done, _ = step_jit(env, KEY, state, actions, params)
        seen.append(int(obs[0]))
        paid.append(float(rewards[0]))
        dones.append(bool(done))
    assert seen == [START, CC, START, CC, START, CC, CC]
    assert paid == [-1.0] * 6
    assert dones == [False] * 5 + [True]
    after = step_jit(env, KEY, state, (D, D), params)
    assert float(after[2][0]) == 0.0
    assert not bool(after[3])
    assert not bool(after[4]["valid"])


def test_the_boundary_transition_keeps_its_reward_and_its_outcome():
    env, params = make(num_inner_steps=2, num_outer_steps=2, observation="index")
    actions = jnp.array([C, C, C, C]), jnp.array([C, D, C, D])
    obs, rewards, _, info = rollout(env)(params, actions)
    np.testing.assert_array_equal(rewards[0], [-1, -3, -1, -3])
    np.testing.assert_array_equal(obs[0], [CC, START, CC, CD])
    np.testing.assert_array_equal(info["final_obs"][0], [CC, CD, CC, CD])
    np.testing.assert_array_equal(info["truncated"], [False, True, False, True])


def test_integer_payoffs_pay_floats():
    """An integer payoff gives float32 rewards, and a float carry accepts them."""
    env = IteratedMatrixGame(num_inner_steps=10)
    for payoff in ([[3, 3], [0, 5], [5, 0], [1, 1]], jnp.eye(4, 2, dtype=jnp.int32)):
        params = EnvParams(payoff_matrix=payoff)

        def add(carry, joint_action, params=params):
            state, total = carry
            _, state, rewards, _, _ = env.step(KEY, state, joint_action, params)
            return (state, total + rewards[0]), rewards[0]

        zeros = np.zeros(10, np.int32)
        first = env.reset(KEY, params)[1], 0.0
        (_, total), rewards = jax.lax.scan(add, first, (zeros, zeros))
        assert rewards.dtype == jnp.float32
        assert float(total) == 10.0 * float(payoff[0][0])


@pytest.mark.parametrize("lanes", [5, 1])
def test_rewards_have_one_axis_per_lane(lanes):
    """Five lanes give rewards (5,), one lane (1,), never (n, 1)."""
    env, params = make()
    keys = jax.random.split(KEY, lanes)
    obs, state = jax.vmap(env.reset, in_axes=(0, None), out_axes=(0, None))(
        keys, params
    )
    step = jax.vmap(env.step, in_axes=(0, None, 0, None), out_axes=(0, None, 0, 0, 0))
    ones = jnp.ones(lanes, jnp.int32)
    obs, state, rewards, done, _ = step(keys, state, (ones, ones), params)
    assert rewards[0].shape == (lanes,)
    assert done.shape == (lanes,)
    assert obs[0].shape == (lanes, 5)
    assert state.inner_t.shape == ()


def test_actions_of_a_column_vector_are_rejected():
    """Actions of shape (n, 1) raise, vmapped or not."""
    env, params = make()
    state = env.reset(KEY, params)[1]
    column = jnp.zeros((5, 1), jnp.int32)
    step = jax.vmap(env.step, in_axes=(None, None, 0, None))
    with pytest.raises(ValueError, match="shape"):
        step(KEY, state, (column, column), params)
    with pytest.raises(ValueError, match=r"jax\.vmap"):
        env.step(KEY, state, (column, column), params)


@pytest.mark.parametrize(
    ("action", "paid"),
    [(1.0, 0.0), (0.0, -1.0), (0.6, None), (1.9, None), (-0.5, None)],
)
def test_whole_floats_act_and_fractions_pay_nan(action, paid):
    """1.0 is 1; 0.6 and 1.9 are never silently floored."""
    env, params = make()
    state = env.reset(KEY, params)[1]
    rewards = step_jit(env, KEY, state, (jnp.float32(action), 0), params)[2]
    if paid is None:
        assert np.isnan(rewards[0])
        assert np.isnan(rewards[1])
    else:
        assert float(rewards[0]) == paid


def test_an_action_out_of_range_is_clamped_and_shown_so():
    env, params = make(observation="index")
    state = env.reset(KEY, params)[1]
    obs, _, rewards, _, _ = step_jit(env, KEY, state, (7, -3), params)
    assert int(obs[0]) == DC
    assert float(rewards[0]) == 0.0


def test_twenty_payoffs_are_one_compile():
    """Params are traced, so another payoff is no other program."""
    env = IteratedMatrixGame(num_inner_steps=10)
    tables = np.arange(160.0).reshape(20, 4, 2)
    traces = []

    @jax.jit
    def play(params):
        traces.append(1)
        state = env.reset(KEY, params)[1]
        return env.step(KEY, state, (1, 0), params)[2]

    paid = [play(EnvParams(payoff_matrix=table)) for table in tables]
    np.testing.assert_array_equal([r[0] for r in paid], tables[:, 2, 0])
    assert len(traces) == 1
    axes = env.params_axes(payoff_matrix=0)
    batched = jax.vmap(play, in_axes=(axes,))(EnvParams(payoff_matrix=tables))
    np.testing.assert_array_equal(batched[0], tables[:, 2, 0])
    np.testing.assert_array_equal(batched[1], tables[:, 2, 1])


def test_the_program_does_not_grow_with_the_horizon():
    """10, 100 and 1,000 steps have jaxprs of one size."""

    def size(num_inner_steps):
        env, params = make(num_inner_steps=num_inner_steps)
        zeros = np.zeros(num_inner_steps, np.int32)
        jaxpr = jax.make_jaxpr(rollout(env))(params, (zeros, zeros))
        return len(str(jaxpr).split())

    assert size(10) == size(100) == size(1000)


def test_a_payoff_that_is_not_the_named_dilemma_warns_and_is_played_as_given():
    swapped = [[-2, -2], [0, -3], [-3, 0], [-1, -1]]
    with pytest.warns(payoffs.DilemmaWarning, match=r"reordered: \[\[-1,-1\]"):
        _, params = make(swapped, game="IPD")
    np.testing.assert_array_equal(params.payoff_matrix, swapped)


def test_a_right_or_an_unnamed_payoff_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("3,0,5,1", game="IPD")
        make("StagHunt")


def test_names_and_tables_of_the_predecessor_work():
    env = IteratedMatrixGame(num_inner_steps=3)
    params = EnvParams(payoff_matrix=[[2, 2], [0, 3], [3, 0], [1, 1]])
    zeros, ones = jnp.zeros(3), jnp.ones(3)
    _, rewards, _, _ = rollout(env)(params, (ones, zeros))
    np.testing.assert_array_equal(rewards[0], [3, 3, 3])
    np.testing.assert_array_equal(rewards[1], [0, 0, 0])


def test_payoff_matrix_is_another_name_for_payoff():
    _, params = make(payoff_matrix="Chicken")
    assert float(params.payoff_matrix[3, 0]) == -100.0


def test_a_payoff_of_another_size_is_refused_at_trace_time():
    env = IteratedMatrixGame(num_inner_steps=3)
    params = EnvParams(payoff_matrix=np.zeros((2, 3)))
    state = env.reset(KEY, params)[1]
    with pytest.raises(payoffs.PayoffError, match="row for each joint action"):
        env.step(KEY, state, (0, 0), params)


actions_of_eight = st.lists(st.integers(0, 1), min_size=8, max_size=8)
cells = st.lists(st.floats(-9, 9, width=32), min_size=4, max_size=4)


@settings(max_examples=30)
@given(cells, actions_of_eight, actions_of_eight)
def test_swapping_players_swaps_rewards_and_views_of_a_symmetric_game(rstp, one, two):
    env = IteratedMatrixGame(num_inner_steps=8)
    params = EnvParams(payoff_matrix=payoffs.parse_payoff(rstp).reshape(4, 2))
    one, two = jnp.array(one, jnp.int32), jnp.array(two, jnp.int32)
    obs, rewards, _, _ = rollout(env)(params, (one, two))
    swapped_obs, swapped_rewards, _, _ = rollout(env)(params, (two, one))
    for player in range(2):
        np.testing.assert_array_equal(rewards[player], swapped_rewards[1 - player])
        np.testing.assert_array_equal(obs[player], swapped_obs[1 - player])


def nested_play(env, params, actions):
    """Plays a trial in the nested view, the keys as the schedule has them."""
    step = jax.jit(env.step_inner)
    begin = jax.jit(env.begin_episode)
    obs, state = env.reset(jax.random.fold_in(KEY, 0), params)
    rewards, seen = [], []
    for _ in range(env.num_outer_steps):
        for _ in range(env.num_inner_steps):
            t = int(state.t)
            joint = tuple(a[t] for a in actions)
            key = jax.random.fold_in(KEY, 1 + t)
            seen_before = int(obs[0])
            obs, state, paid, _, info = step(key, state, joint, params)
            if info["valid"]:
                rewards.append(float(paid[0]))
                seen.append(seen_before)
        key = jax.random.fold_in(KEY, int(state.t))
        obs, state = begin(key, state, params)
    return seen, rewards


@pytest.mark.parametrize("random_ends", [False, True])
def test_flat_play_equals_nested_play(random_ends):
    env, params = make(
        num_inner_steps=6,
        num_outer_steps=3,
        observation="index",
        random_ends=random_ends,
        continuation_prob=0.7,
    )
    actions = jax.random.randint(jax.random.key(5), (2, 18), 0, 2)
    seen, rewards = nested_play(env, params, actions)
    obs, state = env.reset(jax.random.fold_in(KEY, 0), params)
    for t in range(len(rewards)):
        assert int(obs[0]) == seen[t]
        key = jax.random.fold_in(KEY, 1 + t)
        joint = tuple(a[t] for a in actions)
        obs, state, paid, done, _ = step_jit(env, key, state, joint, params)
        assert float(paid[0]) == rewards[t]
    assert bool(done)
    assert (len(rewards) < 18) == random_ends


def play_metrics(env, params, actions):
    acc = env.metrics_init()
    obs, state = env.reset(KEY, params)
    for joint in zip(*actions, strict=True):
        before = obs
        obs, state, _, _, info = step_jit(env, KEY, state, joint, params)
        acc = env.metrics_update(acc, before, joint, info)
    return acc, env.metrics_final(acc)


@pytest.mark.parametrize("observation", ["one_hot", "index"])
def test_a_defector_is_never_counted_as_cooperating(observation):
    """No phantom sample: AllD reports 0, and nothing after the trial counts."""
    env, params = make(num_inner_steps=3, observation=observation)
    acc, named = play_metrics(env, params, ([D] * 5, [C, D, C, C, C]))
    assert named["cooperation_rate/player_1"] == 0.0
    assert named["cooperation_rate/player_2"] == pytest.approx(2 / 3)
    assert named["cooperation_probability/player_1/START"] == 0.0
    assert named["cooperation_probability/player_2/START"] == 1.0
    assert named["cooperation_probability/player_2/CD"] == 0.0
    assert named["cooperation_probability/player_2/DD"] == 1.0
    assert np.isnan(named["cooperation_probability/player_1/CC"])
    assert acc.totals["visits"].sum() == 6
    assert acc.totals["visits"].dtype == jnp.int32
    visited = [named[f"state_visitation/player_1/{s}"] for s in env.state_names(0)]
    np.testing.assert_allclose(visited, [0, 0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)


def test_statistics_of_a_larger_game_count_visits_only():
    env, params = make(game="RPS", num_inner_steps=2)
    _, named = play_metrics(env, params, ([0, 2], [1, 1]))
    assert named["state_visitation/player_1/0,1"] == 0.5
    assert named["state_visitation/player_2/1,0"] == 0.5
    assert not any(name.startswith("cooperation") for name in named)


def test_default_params_of_an_unnamed_larger_game_are_refused():
    env = IteratedMatrixGame(num_inner_steps=3, num_actions=(3, 3))
    with pytest.raises(ValueError, match="payoff_matrix"):
        env.default_params  # noqa: B018
    with pytest.raises(ValueError, match="num_actions"):
        iterated_matrix_game.IteratedMatrixGame(num_inner_steps=3, num_actions=(2, 0))
