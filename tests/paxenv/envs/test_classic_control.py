"""Classic control is Gymnasium's, step by step, with a clock and params of our own."""

import functools
import math
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv import keys
from paxenv.adapters.gymnasium_env import GymnasiumEnv
from paxenv.environment import EnvState
from paxenv.testing import check_env

GAMES = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1")
#: Where each coordinate of the state that is an angle without bounds stands.
ANGLES = {"Acrobot-v1": [0, 1], "Pendulum-v1": [0]}
TOLERANCE = 1e-5

step_of = jax.jit(lambda env, *args: env.step(*args), static_argnums=0)


def skilled(game, state):
    """Returns an action that balances, swings up or drives up, at least at times."""
    if game == "CartPole-v1":
        return int(state[2] + 0.5 * state[3] + 0.1 * state[0] + 0.1 * state[1] > 0)
    if game == "Acrobot-v1":
        return 2 if state[2] < 0 else 0
    if game == "MountainCar-v0":
        return 2 if state[1] >= 0 else 0
    return np.array([1.9 * np.sign(state[1])], np.float32)


@functools.cache
def trajectory(game, seed, policy):
    """Returns (states before, actions, states, obs, rewards, ends) of their episode."""
    theirs: Any = gymnasium.make(game, disable_env_checker=True)
    theirs.action_space.seed(seed)
    theirs.reset(seed=seed)
    rows, ended = [], False
    while not ended:
        before = np.array(theirs.unwrapped.state, np.float64)
        action = theirs.action_space.sample()
        if policy == "skilled":
            action = skilled(game, before)
        obs, reward, terminated, truncated, _ = theirs.step(action)
        after = np.array(theirs.unwrapped.state, np.float64)
        rows.append((before, action, after, obs, reward, (terminated, truncated)))
        ended = terminated or truncated
    return tuple(np.array(column) for column in zip(*rows, strict=True))


EPISODES = [(seed, policy) for policy in ("random", "skilled") for seed in range(3)]


def wrapped(angles):
    return (angles + math.pi) % (2 * math.pi) - math.pi


def assert_close(game, ours, theirs, atol):
    """Asserts that states agree, angles up to whole turns."""
    gap = np.asarray(ours, np.float64) - theirs
    angles = ANGLES.get(game, [])
    gap[..., angles] = wrapped(gap[..., angles])
    np.testing.assert_allclose(gap, 0.0, rtol=0, atol=atol)


def as_ours(game, states):
    states = np.array(states)
    angles = ANGLES.get(game, [])
    states[..., angles] = wrapped(states[..., angles])
    return jnp.asarray(states, jnp.float32)


def margin(game, states):
    """Returns how far states are from the threshold of the game's own end."""
    if game == "CartPole-v1":
        gaps = np.abs(states[:, [0, 2]]) - [2.4, 12 * math.pi / 180]
        return np.abs(gaps).min(axis=1)
    if game == "Acrobot-v1":
        height = -np.cos(states[:, 0]) - np.cos(states[:, 0] + states[:, 1])
        return np.abs(height - 1.0)
    if game == "MountainCar-v0":
        return np.abs(states[:, 0] - 0.5)
    return np.full(len(states), np.inf)


@functools.cache
def one_step_from_each(game, seed, policy):
    """Returns our (states, obs, rewards, info), each step taken from their state."""
    env, params = paxenv.make(game)
    before, actions, *_ = trajectory(game, seed, policy)
    limit = env.num_inner_steps
    padding = [(0, limit - len(before))]
    before = np.pad(before, [*padding, (0, 0)])
    actions = np.pad(actions, padding + [(0, 0)] * (actions.ndim - 1))
    clock = jnp.arange(limit, dtype=jnp.int32)
    states = EnvState(clock, jnp.zeros_like(clock), clock, as_ours(game, before))
    batched = jax.vmap(env.step, in_axes=(None, 0, 0, None))
    obs, after, rewards, _, info = jax.jit(batched)(
        jax.random.key(0), states, actions, params
    )
    n = len(trajectory(game, seed, policy)[0])
    return jax.tree.map(lambda x: np.asarray(x)[:n], (after.game, obs, rewards, info))


@pytest.mark.parametrize(("seed", "policy"), EPISODES)
@pytest.mark.parametrize("game", GAMES)
def test_one_step_from_each_of_gymnasiums_states_is_gymnasiums(game, seed, policy):
    _, _, states, observations, _, _ = trajectory(game, seed, policy)
    ours, obs, _, _ = one_step_from_each(game, seed, policy)
    assert_close(game, ours, states, TOLERANCE)
    np.testing.assert_allclose(obs, observations, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("seed", "policy"), EPISODES)
@pytest.mark.parametrize("game", GAMES)
def test_rewards_and_flags_are_gymnasiums(game, seed, policy):
    """Exactly, but for the pendulum's cost: there to the last bits of float32."""
    _, _, states, _, rewards, ends = trajectory(game, seed, policy)
    _, _, ours, info = one_step_from_each(game, seed, policy)
    clear = margin(game, states) > TOLERANCE
    terminated, truncated = ends.T
    np.testing.assert_array_equal(info["terminated"][clear], terminated[clear])
    np.testing.assert_array_equal(
        info["truncated"][clear], (truncated & ~terminated)[clear]
    )
    rtol = 1e-5 if game == "Pendulum-v1" else 0.0
    np.testing.assert_allclose(ours[clear], rewards[clear], rtol=rtol, atol=rtol)


@pytest.mark.parametrize("game", GAMES[:3])
def test_the_compared_episodes_hold_ends_by_the_rules(game):
    """So that the comparison of flags and last rewards is not empty."""
    ends = [trajectory(game, *episode)[-1][-1] for episode in EPISODES]
    assert any(terminated for terminated, _ in ends)


@pytest.mark.parametrize("policy", ["random", "skilled"])
@pytest.mark.parametrize("game", GAMES)
def test_fifty_steps_on_our_own_stay_with_gymnasium(game, policy):
    env, params = paxenv.make(game)
    before, actions, states, *_ = trajectory(game, 0, policy)
    zero = jnp.zeros((), jnp.int32)
    state = EnvState(zero, zero, zero, as_ours(game, before[0]))
    num_steps = min(50, len(actions))
    assert num_steps == 50 or (game, policy) == ("CartPole-v1", "random")
    for t in range(num_steps):
        _, state, *_ = step_of(env, jax.random.key(0), state, actions[t], params)
        assert_close(game, state.game, states[t], atol=1e-4)


@pytest.mark.parametrize("game", GAMES)
def test_spaces_are_gymnasiums(game):
    env, _ = paxenv.make(game)
    theirs: Any = gymnasium.make(game)
    assert env.observation_space(0) == theirs.observation_space
    action_space = theirs.action_space
    if isinstance(action_space, gymnasium.spaces.Discrete):
        action_space = gymnasium.spaces.Discrete(action_space.n, dtype=np.int32)
    assert env.action_space(0) == action_space
    assert env.num_inner_steps == theirs.spec.max_episode_steps


@pytest.mark.parametrize(
    ("game", "low", "high"),
    [
        ("CartPole-v1", [-0.05] * 4, [0.05] * 4),
        ("Acrobot-v1", [-0.1] * 4, [0.1] * 4),
        ("MountainCar-v0", [-0.6, 0.0], [-0.4, 0.0]),
        ("Pendulum-v1", [-math.pi, -1.0], [math.pi, 1.0]),
    ],
)
def test_openings_are_uniform_in_gymnasiums_bounds(game, low, high):
    """4000 lanes: the extremes are within 1 % of the bounds, means within 4 errors."""
    env, params = paxenv.make(game)
    lanes = keys.lanes(0, 4000)
    _, state = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))(lanes, params)
    states, low, high = np.asarray(state.game), np.array(low), np.array(high)
    width = high - low
    slack = 1e-7
    assert (states >= low - slack).all()
    assert (states <= high + slack).all()
    assert (states.min(axis=0) <= low + 0.01 * width + slack).all()
    assert (states.max(axis=0) >= high - 0.01 * width - slack).all()
    error = width / math.sqrt(12 * 4000)
    gap = np.abs(states.mean(axis=0) - (low + high) / 2)
    assert (gap <= 4 * error + slack).all()


@pytest.mark.parametrize("game", GAMES)
def test_many_gravities_share_one_compilation(game):
    env, params = paxenv.make(game)
    _, state = env.reset(jax.random.key(3), params)
    gravities = params.gravity * jnp.array([1.0, 0.5, 2.0])
    many = params.replace(gravity=gravities)
    action = jnp.zeros(env.action_space(0).shape, env.action_space(0).dtype)
    axes = (None, None, None, env.params_axes(gravity=0))
    step = jax.jit(jax.vmap(env.step, in_axes=axes))
    _, after, *_ = step(jax.random.key(0), state, action, many)
    for i, gravity in enumerate(gravities):
        alone = params.replace(gravity=gravity)
        _, expected, *_ = step_of(env, jax.random.key(0), state, action, alone)
        np.testing.assert_allclose(after.game[i], expected.game, rtol=1e-5, atol=1e-7)
    assert len({tuple(row) for row in after.game.tolist()}) == 3


@pytest.mark.parametrize("game", GAMES)
def test_the_time_limit_truncates(game):
    env, params = paxenv.make(game, num_inner_steps=2)
    _, state = env.reset(jax.random.key(0), params)
    action = jnp.zeros(env.action_space(0).shape, env.action_space(0).dtype)
    flags = []
    for _ in range(2):
        _, state, _, done, info = step_of(env, jax.random.key(0), state, action, params)
        flags.append((bool(info["terminated"]), bool(info["truncated"]), bool(done)))
    assert flags == [(False, False, False), (False, True, True)]


@pytest.mark.parametrize(
    ("game", "before", "action", "reward"),
    [
        ("CartPole-v1", [2.39, 1.0, 0.0, 0.0], 1, 1.0),
        ("CartPole-v1", [0.0, 0.0, -0.209, -1.0], 1, 1.0),
        ("Acrobot-v1", [math.pi - 0.1, 0.1, 0.0, 0.0], 1, 0.0),
        ("MountainCar-v0", [0.48, 0.05], 2, -1.0),
    ],
)
def test_an_end_by_the_rules_terminates_also_on_the_last_step(
    game, before, action, reward
):
    env, params = paxenv.make(game, num_inner_steps=1)
    zero = jnp.zeros((), jnp.int32)
    state = EnvState(zero, zero, zero, jnp.array(before, jnp.float32))
    _, _, paid, done, info = step_of(env, jax.random.key(0), state, action, params)
    flags = bool(info["terminated"]), bool(info["truncated"]), bool(done)
    assert flags == (True, False, True)
    assert float(paid) == reward


def test_the_mountain_cars_wall_stops_it():
    env, params = paxenv.make("MountainCar")
    zero = jnp.zeros((), jnp.int32)
    state = EnvState(zero, zero, zero, jnp.array([-1.19, -0.05], jnp.float32))
    obs, *_ = step_of(env, jax.random.key(0), state, 0, params)
    np.testing.assert_array_equal(obs, np.array([-1.2, 0.0], np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("num_outer_steps", [1, 2])
@pytest.mark.parametrize("game", GAMES)
def test_every_promise_of_a_game_is_kept(game, num_outer_steps):
    options = {"num_inner_steps": 40, "num_outer_steps": num_outer_steps}
    assert check_env(*paxenv.make(game, **options)) is None


def test_numbers_are_keywords_and_an_unknown_one_is_named():
    _, params = paxenv.make("CartPole", gravity=3, continuation_prob=0.5)
    assert float(params.gravity) == 3.0
    assert float(params.continuation_prob) == 0.5
    with pytest.raises(ValueError, match=r"'gravitiy'.*did you mean 'gravity'"):
        paxenv.make("CartPole", gravitiy=3)
    with pytest.raises(ValueError, match=r"continuation_prob must be .* got 1\.5"):
        paxenv.make("Pendulum", continuation_prob=1.5)


@pytest.mark.parametrize("option", [{"opponent": "Random"}, {"player": 1}])
def test_gymnasium_seats_no_opponent(option):
    env: Any = gymnasium.make("pax/CartPole-v1").unwrapped
    assert type(env.native[0]).__name__ == "CartPole"
    with pytest.raises(ValueError, match="has one player"):
        gymnasium.make("pax/CartPole-v1", **option)
    with pytest.raises(ValueError, match="has one player"):
        gymnasium.make_vec("pax/CartPole-v1", num_envs=2, **option)


@pytest.mark.parametrize("game", GAMES)
def test_pictures_follow_the_state(game):
    env: Any = GymnasiumEnv(game, render_mode="rgb_array")
    env.reset(seed=0)
    images = [env.render()]
    for _ in range(8):
        action = env.action_space.sample() * 0
        env.step(action)
        images.append(env.render())
    assert images[0].shape == (240, 240, 3)
    assert not np.array_equal(images[0], images[-1])
    text = GymnasiumEnv(game, render_mode="ansi")
    text.reset(seed=0)
    text.step(text.action_space.sample() * 0)
    limit = env.native[0].num_inner_steps
    assert text.render().splitlines()[0] == f"step 1/{limit}"
