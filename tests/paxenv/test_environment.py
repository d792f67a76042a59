"""The clock, the flags and the two views of a trial."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from game_fakes import Counting, CountingParams, Dice

import paxenv
from paxenv import keys, threefry
from paxenv.environment import Environment
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.params import GameParams

START = 4
SLOW = pytest.mark.slow
#: Numbers under which a game has no end of its own.
ENDLESS = {"pax/CartPole-v1": {"x_threshold": np.inf, "theta_threshold": np.inf}}


@functools.partial(jax.jit, static_argnums=(0, 2))
def play(env, params, num_steps, actions, lane_key):
    """Steps `num_steps` times in the flat view, all with the same joint action."""
    episode = keys.episode(lane_key, 0)
    opening, state = env.reset(keys.reset(episode), params)

    def step(state, _):
        key = keys.step(episode, state.t)
        obs, after, rewards, done, info = env.step(key, state, actions, params)
        return after, (obs, after, rewards, done, info)

    return opening, jax.lax.scan(step, state, length=num_steps)[1]


def zeros(env):
    actions = tuple(
        jnp.zeros(env.action_space(p).shape, env.action_space(p).dtype)
        for p in range(env.num_players)
    )
    return actions[0] if env.num_players == 1 else actions


def at(*steps, length):
    """Returns bools that are True at the given steps, counted from 1."""
    return [t in steps for t in range(1, length + 1)]


@pytest.mark.parametrize("n", [1, 2, 5, 16])
@pytest.mark.parametrize("game", [IteratedMatrixGame, Counting, Dice])
def test_flag_is_raised_on_exactly_the_nth_step(game, n):
    """N steps, 3 episodes: the flag is up on the N-th step, every time."""
    env = game(n, 3)
    length = 3 * n + 4
    _, (_, states, _, done, info) = play(
        env, env.default_params, length, zeros(env), keys.lane(0)
    )
    assert info["inner_done"].tolist() == at(n, 2 * n, 3 * n, length=length)
    assert done.tolist() == at(3 * n, length=length)
    outer_t = [min(t // n, 3) for t in range(1, length + 1)]
    assert states.outer_t.tolist() == outer_t
    assert states.t.tolist() == [min(t, 3 * n) for t in range(1, length + 1)]


@pytest.mark.parametrize(
    "n", [1, pytest.param(2, marks=SLOW), 5, pytest.param(16, marks=SLOW)]
)
@pytest.mark.parametrize("id", list(paxenv.games()))
def test_registered_game_ends_on_exactly_the_nth_step(id, n):
    """Every shipped game, which all end by time alone under action 0."""
    steps = {"num_inner_steps": n, "num_outer_steps": 3}
    env, params = paxenv.make(id, **steps, **ENDLESS.get(id, {}))
    length = 3 * n + 2
    _, (_, _, _, done, info) = play(env, params, length, zeros(env), keys.lane(0))
    assert info["inner_done"].tolist() == at(n, 2 * n, 3 * n, length=length)
    assert done.tolist() == at(3 * n, length=length)


def test_done_is_true_exactly_once():
    """Steps beyond the end raise no flag again, whatever the counters say."""
    env = IteratedMatrixGame(2, 2)
    _, (_, _, rewards, done, info) = play(
        env, env.default_params, 12, zeros(env), keys.lane(0)
    )
    assert done.tolist() == at(4, length=12)
    assert info["valid"].tolist() == at(1, 2, 3, 4, length=12)
    assert rewards[0].tolist() == [-1.0] * 4 + [0.0] * 8


def test_state_stays_terminal_after_the_end():
    """Without autoreset, a finished game stays as it is until it is reset."""
    env = Counting(2)
    params = env.default_params
    _, state = env.reset(keys.lane(0), params)
    for _ in range(2):
        _, state, *_ = env.step(keys.lane(1), state, (1, 0), params)
    obs, after, rewards, done, info = env.step(keys.lane(2), state, (1, 1), params)
    jax.tree.map(np.testing.assert_array_equal, after, state)
    assert (float(rewards[0]), float(rewards[1])) == (0.0, 0.0)
    assert not any([done, info["terminated"], info["truncated"], info["valid"]])
    assert env.observation_space(0).contains(np.asarray(obs[0]))
    _, fresh = env.reset(keys.lane(3), params)
    assert int(fresh.t) == 0


def test_time_limit_truncates_and_rules_terminate():
    """The two ends have their own flags, and the last state stays reachable."""
    env = Counting(3, 3)
    slow = play(env, CountingParams(limit=99.0), 3, (1, 0), keys.lane(0))[1]
    fast = play(env, CountingParams(limit=2.0), 3, (1, 0), keys.lane(0))[1]
    assert slow[4]["truncated"].tolist() == [False, False, True]
    assert slow[4]["terminated"].tolist() == [False] * 3
    assert fast[4]["truncated"].tolist() == [False] * 3
    assert fast[4]["terminated"].tolist() == [False, True, False]


def test_rule_end_on_the_limit_is_termination():
    env = Counting(3)
    info = play(env, CountingParams(limit=3.0), 3, (1, 0), keys.lane(0))[1][4]
    assert info["terminated"].tolist() == [False, False, True]
    assert info["truncated"].tolist() == [False, False, False]


def test_final_obs_is_what_the_transition_led_to():
    """At a boundary obs opens the next episode and final_obs closes the last."""
    env = Counting(2, 2)
    _, (obs, _, _, _, info) = play(
        env, CountingParams(limit=99.0), 4, (1, 1), keys.lane(0)
    )
    assert obs[0][:, 0].tolist() == [2, 0, 2, 4]
    assert info["final_obs"][0][:, 0].tolist() == [2, 4, 2, 4]


def test_info_has_one_structure_at_every_step():
    """Info has equal structure and avals before, at and after the end."""
    env = Counting(2, 2)
    params = env.default_params
    _, state = env.reset(keys.lane(0), params)
    infos = []
    for _ in range(6):
        _, state, _, _, info = env.step(keys.lane(0), state, (0, 0), params)
        infos.append(jax.tree.map(jax.typeof, info))
    assert all(info == infos[0] for info in infos)
    assert set(infos[0]) == {
        "terminated", "truncated", "inner_done", "valid", "final_obs", "metrics",
    }  # fmt: skip


def test_last_reward_of_an_episode_is_kept():
    env = IteratedMatrixGame(2, 2)
    rewards = play(env, env.default_params, 4, (0, 1), keys.lane(0))[1][2]
    assert rewards[0].tolist() == [-3.0] * 4
    assert rewards[1].tolist() == [0.0] * 4


@pytest.mark.parametrize("env", [IteratedMatrixGame(2, 2), Counting(2, 2), Dice(3)])
def test_carry_has_identical_avals_including_weak_type(env):
    """Reset, step, step_inner and begin_episode agree, so a scan accepts them."""
    params, key = env.default_params, keys.lane(0)
    obs, state = env.reset(key, params)
    avals = jax.tree.map(jax.typeof, (obs, state))
    for step in (env.step, env.step_inner):
        obs, after, *_ = step(key, state, zeros(env), params)
        assert jax.tree.map(jax.typeof, (obs, after)) == avals
    assert jax.tree.map(jax.typeof, env.begin_episode(key, after, params)) == avals
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(avals))


def test_start_appears_exactly_at_inner_boundaries():
    """2 inner x 3 outer steps, TitForTat in both seats: 6 rewards of R."""
    env = IteratedMatrixGame(2, 3, observation="index")
    params = env.default_params
    obs, state = env.reset(keys.lane(0), params)
    seen, rewards, dones = [int(obs[0])], [], []
    for _ in range(6):
        actions = tuple(jnp.where(o == START, 0, o % 2) for o in obs)
        obs, state, reward, done, _ = env.step(keys.lane(0), state, actions, params)
        seen.append(int(obs[0]))
        rewards.append(tuple(map(float, reward)))
        dones.append(bool(done))
    assert seen == [START, 0, START, 0, START, 0, 0]
    assert rewards == [(-1.0, -1.0)] * 6
    assert dones == [False] * 5 + [True]


def test_horizon_may_terminate():
    env = IteratedMatrixGame(2, 2, horizon="terminate")
    info = play(env, env.default_params, 4, zeros(env), keys.lane(0))[1][4]
    assert info["terminated"].tolist() == [False, True, False, True]
    assert info["truncated"].tolist() == [False] * 4


def first_ends(env, continuation_prob, lanes=4096):
    """Returns (length, terminated, truncated) of the first inner episode of lanes."""
    params = env.default_params.replace(
        continuation_prob=jnp.float32(continuation_prob)
    )
    lane_keys = jax.vmap(jax.random.key)(jnp.arange(lanes))
    batched = jax.vmap(play, in_axes=(None, None, None, None, 0))
    info = batched(env, params, env.num_inner_steps, zeros(env), lane_keys)[1][4]
    end = jnp.argmax(info["inner_done"], axis=1)
    lane = jnp.arange(lanes)
    terminated, truncated = info["terminated"][lane, end], info["truncated"][lane, end]
    return np.asarray(end) + 1, np.asarray(terminated), np.asarray(truncated)


def test_random_ends_follow_the_geometric_law_up_to_the_cap():
    """Tolerances are four standard errors of 4096 lanes."""
    lengths, terminated, truncated = first_ends(
        IteratedMatrixGame(10, random_ends=True), 0.8
    )
    for n in range(1, 5):
        expected = 0.8 ** (n - 1) * 0.2
        error = 4 * np.sqrt(expected * (1 - expected) / 4096)
        assert np.mean(lengths == n) == pytest.approx(expected, abs=error)
    # 0.8^10 of the games reach the cap without a random end, and only they truncate.
    assert np.mean(truncated) == pytest.approx(0.8**10, abs=4 * 0.31 / 64)
    assert (lengths[truncated] == 10).all()
    assert (terminated ^ truncated).all()


def test_continuation_1_never_ends_at_random_and_0_always_does():
    env = IteratedMatrixGame(3, random_ends=True)
    lengths, terminated, _ = first_ends(env, 1.0, lanes=64)
    assert (lengths == 3).all()
    assert not terminated.any()
    lengths, terminated, _ = first_ends(env, 0.0, lanes=64)
    assert (lengths == 1).all()
    assert terminated.all()


def test_random_end_on_the_limit_is_termination():
    lengths, terminated, truncated = first_ends(
        IteratedMatrixGame(1, random_ends=True), 0.0, lanes=8
    )
    assert (lengths == 1).all()
    assert terminated.all()
    assert not truncated.any()


def test_clock_draws_nothing_unless_ends_are_random():
    def draws(env):
        state = env.reset(keys.lane(0), env.default_params)[1]
        jaxpr = jax.make_jaxpr(env.step)(
            keys.lane(0), state, (0, 0), env.default_params
        )
        return str(threefry.PARITY) in str(jaxpr)

    assert not draws(IteratedMatrixGame(3))
    assert draws(IteratedMatrixGame(3, random_ends=True))


def test_early_end_masks_the_rest_of_the_nested_scan():
    env = Counting(4, 2)
    params = CountingParams(limit=2.0)
    _, state = env.reset(keys.lane(0), params)
    valid, rewards, parked = [], [], []
    for _ in range(4):
        _, state, reward, _, info = env.step_inner(keys.lane(0), state, (1, 0), params)
        valid.append(bool(info["valid"]))
        rewards.append(float(reward[0]))
        parked.append(int(state.inner_t))
    assert valid == [True, True, False, False]
    assert rewards == [10.0, 10.0, 0.0, 0.0]
    assert parked == [1, 4, 4, 4]
    assert (int(state.outer_t), int(state.t)) == (1, 2)


def test_flat_and_nested_views_agree_on_valid_steps():
    env = Dice(5, 3, random_ends=True)
    params = GameParams(continuation_prob=0.6)
    episode = keys.episode(keys.lane(7), 0)
    _, (_, _, rewards, _, info) = play(env, params, 15, jnp.int32(1), keys.lane(7))
    flat = [
        (int(o), float(r), bool(e))
        for o, r, e, v in zip(
            info["final_obs"], rewards, info["inner_done"], info["valid"], strict=True
        )
        if v
    ]
    nested, (_, state) = [], env.reset(keys.reset(episode), params)
    step, begin = jax.jit(env.step_inner), jax.jit(env.begin_episode)
    for _ in range(3):
        for _ in range(5):
            key = keys.step(episode, state.t)
            obs, state, reward, _, now = step(key, state, jnp.int32(1), params)
            if now["valid"]:
                nested.append((int(obs), float(reward), bool(now["inner_done"])))
        _, state = begin(keys.begin(episode, state.t), state, params)
    assert flat == nested
    assert sum(end for _, _, end in flat) == 3


def test_begin_episode_leaves_a_finished_trial_alone():
    env = Counting(1, 1)
    _, state = env.reset(keys.lane(0), env.default_params)
    _, state, *_ = env.step(keys.lane(0), state, (1, 1), env.default_params)
    _, after = env.begin_episode(keys.lane(0), state, env.default_params)
    jax.tree.map(np.testing.assert_array_equal, after, state)


def test_batched_recipe_maps_keys_and_actions_only():
    """The state of a matrix game is its clock alone, so a batch may share it."""
    env = IteratedMatrixGame(2)
    params = env.default_params
    _, state = env.reset(keys.lane(0), params)
    step = jax.vmap(env.step, in_axes=(0, None, 0, None), out_axes=(0, None, 0, 0, 0))
    batch_keys = jax.random.split(keys.lane(0), 3)
    actions = (jnp.array([0, 0, 1]), jnp.array([0, 1, 1]))
    obs, state, rewards, done, _ = step(batch_keys, state, actions, params)
    assert rewards[0].tolist() == [-1.0, -3.0, -2.0]
    assert obs[0].shape == (3, 5)
    assert state.t.shape == ()
    assert done.tolist() == [False] * 3


def test_assigning_a_batched_step_shows_the_recipe():
    env = IteratedMatrixGame(2)
    with pytest.raises(dataclasses.FrozenInstanceError) as caught:
        env.step = jax.vmap(env.step, in_axes=(0, None, 0, None))
    recipe = (
        "step = jax.vmap(env.step, in_axes=(0, None, 0, None), "
        "out_axes=(0, None, 0, 0, 0))"
    )
    assert recipe in str(caught.value)
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"dataclasses\.replace"):
        env.num_inner_steps = 5


def test_raw_keys_are_accepted():
    env = Dice(3)
    params = env.default_params
    raw, typed = jax.random.PRNGKey(4), jax.random.key(4)
    jax.tree.map(
        np.testing.assert_array_equal, env.reset(raw, params), env.reset(typed, params)
    )
    _, state = env.reset(raw, params)
    assert env.step(raw, state, 0, params)[0] == env.step(typed, state, 0, params)[0]


@pytest.mark.parametrize("field", ["num_inner_steps", "num_outer_steps"])
@pytest.mark.parametrize("value", [0, -5, 2.5, True])
def test_impossible_horizon_is_refused(field, value):
    """Zero, negative, fractional and boolean horizons name the argument."""
    with pytest.raises(ValueError, match=rf"{field} must be a whole number.*{value}"):
        IteratedMatrixGame(**{"num_inner_steps": 3, field: value})


@pytest.mark.parametrize("options", [{"horizon": "never"}, {"random_ends": 1}])
def test_impossible_end_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        IteratedMatrixGame(3, **options)


@pytest.mark.parametrize("actions", [(0,), (0, 0, 0), 0, jnp.zeros((2,), int)])
def test_wrong_number_of_actions_is_refused(actions):
    env = IteratedMatrixGame(3)
    _, state = env.reset(keys.lane(0), env.default_params)
    with pytest.raises(ValueError, match="tuple of 2 actions in player order"):
        env.step(keys.lane(0), state, actions, env.default_params)


def test_batched_action_in_one_game_is_refused():
    env = IteratedMatrixGame(3)
    _, state = env.reset(keys.lane(0), env.default_params)
    with pytest.raises(ValueError, match=r"player 1's action must have shape \(\)"):
        env.step(keys.lane(0), state, (0, jnp.zeros(4, int)), env.default_params)


def test_fractional_action_pays_nan_and_a_whole_float_is_its_integer():
    env = IteratedMatrixGame(3)
    params = env.default_params
    _, state = env.reset(keys.lane(0), params)
    _, _, rewards, *_ = env.step(keys.lane(0), state, (0.0, 1.0), params)
    assert tuple(map(float, rewards)) == (-3.0, 0.0)
    _, _, rewards, *_ = env.step(keys.lane(0), state, (0.5, 1.0), params)
    assert np.isnan(rewards[0])
    assert np.isnan(rewards[1])


def test_spaces_are_made_once():
    env = Counting(3)
    assert env.observation_space(1) is env.observation_space(1)
    assert env.action_space(0) is env.action_space(0)


@pytest.mark.parametrize("player", [-1, 2])
def test_seat_that_does_not_exist_is_refused(player):
    with pytest.raises(ValueError, match=r"player must be in \[0, 2\)"):
        Counting(3).observation_space(player)


def test_equal_games_share_one_compile():
    traces = []

    @functools.partial(jax.jit, static_argnums=0)
    def opening(env, key):
        traces.append(env)
        return env.reset(key, env.default_params)

    opening(Counting(3, 2), keys.lane(0))
    opening(Counting(3, 2), keys.lane(1))
    assert len(traces) == 1


def test_params_axes_name_what_is_batched():
    axes = IteratedMatrixGame(3).params_axes(payoff_matrix=0)
    assert (axes.payoff_matrix, axes.continuation_prob) == (0, None)
    with pytest.raises(ValueError, match=r"unknown params.*payof"):
        IteratedMatrixGame(3).params_axes(payof=0)


def test_params_become_arrays_of_the_default_float():
    params = CountingParams(limit=3, continuation_prob=0.5)
    assert params.continuation_prob.dtype == jnp.float32
    assert params.limit == 3


def test_game_without_pictures_says_so():
    with pytest.raises(NotImplementedError, match="Counting has no text picture"):
        Counting(2).render_ansi(None)
    with pytest.raises(NotImplementedError, match="Counting has no picture"):
        Counting(2).render_rgb(None)


def test_environment_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Environment(3)
