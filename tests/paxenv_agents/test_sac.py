"""Soft actor-critic: its losses against plain NumPy, its law of actions, its ends."""

import dataclasses
import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_fakes import Seat, make_learner

from paxenv import keys
from paxenv_agents.learners.replay import Minibatch
from paxenv_agents.learners.sac import SAC
from paxenv_agents.ops import gaussian

BOX = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
#: Sides of different length, not symmetric about 0.
ACTIONS = gymnasium.spaces.Box(
    np.array([-2.0, 1.0], np.float32), np.array([2.0, 2.0], np.float32)
)
SEAT = Seat(observation=BOX, action=ACTIONS)
BATCH = 16


def make(**options):
    plain = {"hidden_sizes": (8,), "batch_size": 8, "buffer_size": 64}
    return SAC.from_env(SEAT, **{"warmup_steps": 0, **plain, **options})


def minibatch():
    draw = np.random.default_rng(0)
    return Minibatch(
        observations=draw.normal(size=(BATCH, 3)).astype(np.float32),
        actions=draw.uniform(ACTIONS.low, ACTIONS.high, (BATCH, 2)).astype(np.float32),
        rewards=draw.normal(size=BATCH).astype(np.float32),
        discounts=np.where(draw.random(BATCH) < 0.3, 0, 0.9).astype(np.float32),
        next_observations=draw.normal(size=(BATCH, 3)).astype(np.float32),
        weights=np.ones(BATCH, np.float32),
    )


def parts(**options):
    """An agent, and a state whose networks say something and whose targets differ."""
    agent = make(**options)
    state, _ = make_learner(agent, 1)
    other = agent.init_params(jax.random.key(5))
    params = {
        **state.params,
        "actor": jax.tree.map(lambda x: 20 * x, state.params["actor"]),
        "target_critics": other["critics"],
        "log_alpha": jnp.float32(-0.5),
    }
    if options.get("alpha") is not None:
        params["log_alpha"] = state.params["log_alpha"]
    return agent, state.replace(params=params)


def on_device(batch):
    return jax.tree.map(jnp.asarray, batch)


@functools.partial(jax.jit, static_argnums=0)
def compiled(agent, key, state, batch):
    return agent.learn(key, state, batch)


def learn(agent, key, state, batch):
    """One gradient step: (state, stats)."""
    return compiled(agent, key, state, on_device(batch))


# NumPy's own version of everything.


def dense(x, params):
    return x @ np.asarray(params["kernel"]) + np.asarray(params["bias"])


def network(params, x):
    hidden = np.maximum(dense(x, params["MLPTorso_0"]["Dense_0"]), 0)
    return dense(hidden, params["Dense_0"])


def critic_values(critics, obs, unit):
    both = np.concatenate([obs, unit], -1)
    return np.stack(
        [
            network(jax.tree.map(lambda x, i=i: x[i], critics)["MLPCritic_0"], both)
            for i in range(2)
        ]
    )[..., 0]


def law(actor, obs):
    """(mean, deviation); of raw 0 it is 0.5, of a fresh policy."""
    mean, raw = np.split(network(actor, obs), 2, -1)
    offset = np.log(np.expm1(0.5 - 1e-3))
    return mean, np.log1p(np.exp(raw + offset)) + 1e-3


def draw_from(actor, obs, noise):
    mean, scale = law(actor, obs)
    inner = mean + scale * noise
    density = -0.5 * noise**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    unit = np.tanh(inner)
    return unit, (density - np.log(1 - unit**2)).sum(-1)


def noise_of(key):
    words = keys.words(key, BATCH * 2).reshape(BATCH, 2)
    return np.asarray(gaussian.standard_normal(words), np.float64)


def unit_of(actions):
    return (actions - [0.0, 1.5]) / [2.0, 0.5]


def plain_losses(params, batch, key):
    critic_noise, actor_noise = (noise_of(jax.random.fold_in(key, i)) for i in range(2))
    alpha = np.exp(np.float64(params["log_alpha"]))
    ahead, density = draw_from(params["actor"], batch.next_observations, critic_noise)
    value = critic_values(params["target_critics"], batch.next_observations, ahead)
    targets = batch.rewards + batch.discounts * (value.min(0) - alpha * density)
    taken = critic_values(params["critics"], batch.observations, unit_of(batch.actions))
    return actor_noise, alpha, targets, np.square(taken - targets).sum(0).mean()


# Losses.


@pytest.mark.slow
def test_targets_and_the_critics_loss_are_those_of_numpy():
    agent, state = parts()
    batch, key = minibatch(), jax.random.key(3)

    targets = agent.targets(jax.random.fold_in(key, 0), state.params, on_device(batch))
    _, stats = learn(agent, key, state, batch)

    _, _, expected, loss = plain_losses(state.params, batch, key)
    np.testing.assert_allclose(targets, expected, rtol=1e-4, atol=1e-4)
    assert float(stats["loss/critic"]) == pytest.approx(loss, rel=1e-4)
    ended = batch.discounts == 0
    np.testing.assert_allclose(targets[ended], batch.rewards[ended], atol=1e-6)
    assert ended.any()


@pytest.mark.slow
def test_the_actors_loss_is_that_of_numpy_against_the_new_critics():
    agent, state = parts()
    batch, key = minibatch(), jax.random.key(3)

    after, stats = learn(agent, key, state, batch)

    noise, alpha, _, _ = plain_losses(state.params, batch, key)
    unit, density = draw_from(state.params["actor"], batch.observations, noise)
    value = critic_values(after.params["critics"], batch.observations, unit).min(0)
    loss = (alpha * density - value).mean()
    assert float(stats["loss/actor"]) == pytest.approx(loss, rel=1e-4, abs=1e-4)
    assert float(stats["entropy"]) == pytest.approx(-density.mean(), rel=1e-4)
    assert float(stats["alpha"]) == pytest.approx(np.exp(-0.5), rel=1e-5)


def test_the_actors_gradient_is_the_slope_of_its_loss():
    """Finite differences of NumPy's loss in the means' biases."""
    agent, state = parts(learning_rate=1e-3)
    batch, key = minibatch(), jax.random.key(3)
    after, _ = learn(agent, key, state, batch)
    noise, alpha, _, _ = plain_losses(state.params, batch, key)

    def loss(bias):
        actor = jax.tree.map(np.asarray, state.params["actor"])
        actor = {**actor, "Dense_0": {**actor["Dense_0"], "bias": bias}}
        unit, density = draw_from(actor, batch.observations, noise)
        value = critic_values(after.params["critics"], batch.observations, unit)
        return (alpha * density - value.min(0)).mean()

    bias = np.asarray(state.params["actor"]["Dense_0"]["bias"], np.float64)
    steps = 1e-4 * np.eye(4)
    slope = [(loss(bias + s) - loss(bias - s)) / 2e-4 for s in steps]

    # Adam's first step is the rate against the sign of the slope.
    moved = after.params["actor"]["Dense_0"]["bias"] - bias
    np.testing.assert_allclose(moved, -1e-3 * np.sign(slope), rtol=1e-2)


@pytest.mark.parametrize(("target", "direction"), [(-20.0, -1), (20.0, 1)])
def test_the_temperature_falls_where_there_is_entropy_enough(target, direction):
    agent, state = parts(target_entropy=target, learning_rate=0.01)

    after, stats = learn(agent, jax.random.key(3), state, minibatch())

    moved = float(after.params["log_alpha"]) - -0.5
    assert moved == pytest.approx(direction * 0.01, rel=1e-3)
    surplus = float(stats["entropy"]) - target
    assert float(stats["loss/alpha"]) == pytest.approx(-0.5 * surplus, rel=1e-4)


def test_a_set_temperature_stays():
    agent, state = parts(alpha=0.3)

    after, stats = learn(agent, jax.random.key(3), state, minibatch())

    assert float(stats["alpha"]) == pytest.approx(0.3, rel=1e-6)
    assert float(after.params["log_alpha"]) == float(state.params["log_alpha"])


def test_the_entropy_aimed_at_is_minus_the_number_of_coordinates():
    agent, state = parts()

    _, stats = learn(agent, jax.random.key(3), state, minibatch())

    expected = -0.5 * (float(stats["entropy"]) + 2)
    assert float(stats["loss/alpha"]) == pytest.approx(expected, rel=1e-4)


def test_only_the_targets_move_when_the_targets_move():
    agent, state = parts()

    after = agent.with_targets(state, jnp.float32(0.25)).params

    expected = jax.tree.map(
        lambda p, t: 0.25 * p + 0.75 * t,
        state.params["critics"],
        state.params["target_critics"],
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6),
        after["target_critics"],
        expected,
    )
    for name in ("actor", "critics", "log_alpha"):
        jax.tree.map(np.testing.assert_array_equal, after[name], state.params[name])


def test_the_two_critics_start_apart():
    _, state = parts()

    kernel = state.params["critics"]["MLPCritic_0"]["Dense_0"]["kernel"]

    assert kernel.shape[0] == 2
    assert not np.allclose(kernel[0], kernel[1])


# Acting.


def acts(agent, timesteps, num_games=4096, params=None):
    state, memory = make_learner(agent, num_games)
    state = state.replace(timesteps=jnp.int32(timesteps))
    state = state if params is None else state.replace(params=params)
    obs = jnp.full((num_games, 3), 0.5)
    actions, _, moved = jax.jit(agent.batch_policy)(state, obs, memory)
    return np.asarray(actions), moved.extras, state


def test_the_warm_up_covers_the_whole_box():
    actions, _, _ = acts(make(warmup_steps=1), 0)

    # Quarters of each side: 1,024 each; five standard deviations are 139.
    share = (actions - ACTIONS.low) / (ACTIONS.high - ACTIONS.low)
    for coordinate in share.T:
        counts = np.bincount((4 * coordinate).astype(int), minlength=4)
        np.testing.assert_allclose(counts, 1024, atol=139)
    assert abs(np.corrcoef(share.T)[0, 1]) < 0.08


def test_actions_are_those_of_the_squashed_law_in_the_box():
    agent, state = parts()

    actions, extras, _ = acts(agent, 0, params=state.params)

    obs = np.full((1, 3), 0.5, np.float32)
    mean, scale = law(state.params["actor"], obs)
    unit = unit_of(actions.astype(np.float64))
    inner = np.arctanh(np.clip(unit, -1 + 1e-6, 1 - 1e-6))
    assert (np.abs(unit) <= 1).all()
    # Medians, since a few actions are cut off at the bounds: 4 standard errors.
    np.testing.assert_allclose(np.median(inner, 0), mean[0], atol=4 * 1.26 / 64)
    middle = np.abs(unit).max(-1) < 0.99
    noise = (inner - mean) / scale
    density = -0.5 * noise**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    # The sides of the Box are 4 and 1 long, so units count 2 and 1/2.
    expected = (density - np.log(1 - np.tanh(inner) ** 2)).sum(-1) - np.log(2 * 0.5)
    np.testing.assert_allclose(
        np.asarray(extras["log_probs"])[middle], expected[middle], rtol=1e-2, atol=2e-2
    )


def test_a_greedy_agent_acts_on_the_mean_also_in_the_warm_up():
    agent, state = parts()
    agent = dataclasses.replace(make(warmup_steps=5), greedy=True)

    actions, extras, _ = acts(agent, 0, num_games=4, params=state.params)

    obs = np.full((1, 3), 0.5, np.float32)
    unit = np.tanh(law(state.params["actor"], obs)[0])
    expected = np.repeat(unit * [2.0, 0.5] + [0.0, 1.5], 4, axis=0)
    np.testing.assert_allclose(actions, expected, rtol=1e-4)
    value = critic_values(state.params["critics"], obs, unit).min(0)
    np.testing.assert_allclose(extras["values"], np.repeat(value, 4), rtol=1e-3)


def test_a_network_of_nan_is_never_reported_as_an_action():
    agent, state = parts()
    broken = jax.tree.map(lambda x: x * jnp.nan, state.params)

    _, extras, _ = acts(agent, 0, num_games=4, params=broken)

    assert np.isnan(extras["log_probs"]).all()


def test_search_sees_only_the_actor():
    agent, state = parts()

    assert agent.policy_params(state.params) is state.params["actor"]


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_actions_have_the_shape_and_dtype_of_their_box(shape):
    space = gymnasium.spaces.Box(-1.0, 3.0, shape, np.float32)
    agent = SAC.from_env(Seat(BOX, space), hidden_sizes=(4,), buffer_size=8)
    state, memory = make_learner(agent, 1)

    actions, _, _ = jax.jit(agent.batch_policy)(state, jnp.zeros((1, 3)), memory)

    assert (actions.shape, actions.dtype) == ((1, *shape), jnp.float32)
    assert state.replay.rows.actions.shape == (8, 1, *shape)
