"""Deep Q-learning: its targets, its gradient, and how it acts."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_fakes import Seat, make_learner

from paxenv_agents.learners import replay
from paxenv_agents.learners.dqn import DQN
from paxenv_agents.learners.replay import Minibatch, Transition
from paxenv_agents.types import Sample

BOX = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
GAMMA = 0.9


def make(seat=None, **options):
    plain = {"hidden_sizes": (8,), "batch_size": 8, "buffer_size": 64}
    seat = Seat(observation=BOX) if seat is None else seat
    return DQN.from_env(seat, **{"warmup_steps": 0, **plain, **options})


def windows(num_windows, length):
    """Random windows, of which half hold an end and half of these a termination."""
    draw = np.random.default_rng(0)
    shape = (num_windows, length)
    ends = draw.random(shape) < 0.3
    return Transition(
        observations=draw.normal(size=(*shape, 3)).astype(np.float32),
        actions=draw.integers(2, size=shape).astype(np.int32),
        rewards=draw.normal(size=shape).astype(np.float32),
        dones=ends & (draw.random(shape) < 0.5),
        ends=ends,
        next_observations=draw.normal(size=(*shape, 3)).astype(np.float32),
        valid=np.ones(shape, bool),
    )


def plain_target(values, params, window, i, double):
    """The target of one window, step by step."""
    total, decay = 0.0, 1.0
    for t in range(window.rewards.shape[1]):
        total += decay * window.rewards[i, t]
        decay *= GAMMA
        if window.dones[i, t]:
            return total
        if window.ends[i, t]:
            break
    ahead = window.next_observations[i, t]
    target = values(params["target"], ahead)
    chooser = values(params["online"], ahead) if double else target
    return total + decay * target[np.argmax(chooser)]


# Targets.


@pytest.mark.slow
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("length", [1, 3])
def test_targets_are_those_of_a_plain_loop(double, length):
    """Termination, cuts by time, windows of several steps, either chooser."""
    agent = make(double=double, n_step=length)
    params = agent.init_params(jax.random.key(0))
    params["target"] = agent.init_params(jax.random.key(1))["online"]
    # Heads start near 0: as they are, the two networks would hardly disagree.
    params = jax.tree.map(lambda x: 30 * x, params)
    window = windows(40, length)

    def values(network, obs):
        return np.asarray(agent.action_values(network, jnp.asarray(obs)))

    got = agent.targets(params, replay.windowed(window, GAMMA))

    expected = [plain_target(values, params, window, i, double) for i in range(40)]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    online, target = (
        values(params[name], window.next_observations[:, -1]).argmax(-1)
        for name in ("online", "target")
    )
    assert (online != target).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("terminated", "expected"), [(False, 2.0), (True, 1.0)], ids=["cut", "ended"]
)
def test_a_cut_by_time_is_worth_what_it_led_to(terminated, expected):
    """Reward 1 a step, discount 1/2: r / (1 - gamma) = 2; after an end only r."""
    seat = Seat(observation=gymnasium.spaces.Discrete(2, dtype=np.int32))
    agent = make(seat, gamma=0.5, learning_rate=0.05, tau=1.0, hidden_sizes=())
    state, memory = make_learner(agent, 1)
    here, yes = jnp.arange(8, dtype=jnp.int32)[:, None] % 2, jnp.ones((8, 1), bool)
    sample = Sample(
        observations=here,
        # Both actions are tried in both states.
        actions=jnp.arange(8, dtype=jnp.int32)[:, None] // 2 % 2,
        rewards=jnp.ones((8, 1)),
        behavior_log_probs=jnp.zeros((8, 1)),
        behavior_values=jnp.zeros((8, 1)),
        dones=yes & terminated,
        hiddens=jnp.zeros((8, 1, 0)),
        truncations=yes & (not terminated),
        final_obs=1 - here,
    )

    @jax.jit
    def learn(state):
        def once(_, state):
            return agent.update(sample, sample.final_obs[-1], state, memory)[0]

        return jax.lax.fori_loop(0, 100, once, state)

    values = agent.action_values(learn(state).params["online"], jnp.arange(2))

    np.testing.assert_allclose(values, np.full((2, 2), expected), atol=0.02)


# The gradient step.


@pytest.mark.parametrize(
    ("huber_delta", "losses", "slopes"),
    [
        (None, [4.5, 0.5, 0.125, 0, 0.125, 0.5, 4.5], [-3, -1, -0.5, 0, 0.5, 1, 3]),
        (1.0, [2.5, 0.5, 0.125, 0, 0.125, 0.5, 2.5], [-1, -1, -0.5, 0, 0.5, 1, 1]),
        (2.0, [4.0, 0.5, 0.125, 0, 0.125, 0.5, 4.0], [-2, -1, -0.5, 0, 0.5, 1, 2]),
    ],
)
def test_the_loss_is_square_and_may_be_straight_beyond_an_error(
    huber_delta, losses, slopes
):
    penalty = make(Seat(), huber_delta=huber_delta).penalty
    error = jnp.array([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0])

    np.testing.assert_allclose(penalty(error), losses, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(penalty))(error), slopes, atol=1e-6)


def test_a_gradient_step_moves_only_what_was_done_towards_its_target():
    """A table of 2 states and 2 actions, all 0: error -0.5 in one entry of three."""
    seat = Seat(observation=gymnasium.spaces.Discrete(2, dtype=np.int32))
    agent = make(seat, hidden_sizes=(), learning_rate=0.1)
    state, _ = make_learner(agent, 1)
    zero = jax.tree.map(jnp.zeros_like, state.params)
    state = state.replace(params=zero)
    batch = Minibatch(
        observations=jnp.array([0, 1, 1]),
        actions=jnp.array([1, 0, 0]),
        rewards=jnp.array([0.5, 0.0, 9.0]),
        discounts=jnp.zeros(3),
        next_observations=jnp.array([0, 0, 0]),
        weights=jnp.array([1.0, 1.0, 0.0]),  # the last was not played
    )

    after, stats = agent.learn(jax.random.key(0), state, batch)

    # (0.5 * 0.5^2 + 0) / 2, and half of the derivative -0.5.
    assert float(stats["loss/q"]) == pytest.approx(0.0625, abs=1e-6)
    assert float(stats["grad_norm"]) == pytest.approx(0.25, abs=1e-6)
    # Adam's first step is the rate, whatever the size of the gradient.
    table = agent.action_values(after.params["online"], jnp.arange(2))
    np.testing.assert_allclose(table, [[0.0, 0.1], [0.0, 0.0]], atol=1e-5)
    target = agent.action_values(after.params["target"], jnp.arange(2))
    np.testing.assert_array_equal(target, np.zeros((2, 2)))


def test_the_target_moves_by_its_share():
    agent = make()
    state, _ = make_learner(agent, 1)
    away = jax.tree.map(lambda x: x + 4, state.params["online"])
    state = state.replace(params={**state.params, "target": away})

    quarter = agent.with_targets(state, jnp.float32(0.25)).params
    whole = agent.with_targets(state, jnp.float32(1)).params

    for old, new in zip(
        jax.tree.leaves(state.params["online"]),
        jax.tree.leaves(quarter["target"]),
        strict=True,
    ):
        np.testing.assert_allclose(new - old, 3.0, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, whole["target"], state.params["online"])


# Acting.


def acts(agent, timesteps, num_games=4096, params=None):
    """Returns (actions, log-probabilities) of games that all see the same."""
    state, memory = make_learner(agent, num_games)
    state = state.replace(timesteps=jnp.int32(timesteps))
    state = state if params is None else state.replace(params=params(state.params))
    obs = jnp.full((num_games, 3), 0.5)
    actions, _, moved = jax.jit(agent.batch_policy)(state, obs, memory)
    return np.asarray(actions), np.asarray(moved.extras["log_probs"])


FIVE = Seat(observation=BOX, action=gymnasium.spaces.Discrete(5, start=2))


def test_the_warm_up_covers_the_whole_action_space():
    agent = make(FIVE, warmup_steps=10, epsilon_start=0.0, epsilon_end=0.0)

    actions, log_probs = acts(agent, 9)
    after, _ = acts(agent, 10)

    counts = np.bincount(actions - 2, minlength=5)
    # 819 each; five standard deviations of a binomial are 128.
    np.testing.assert_allclose(counts, 4096 / 5, atol=128)
    np.testing.assert_allclose(log_probs, np.log(0.2), atol=1e-6)
    assert len(set(after)) == 1


def test_a_greedy_agent_never_acts_at_random():
    agent = dataclasses.replace(make(FIVE, warmup_steps=10), greedy=True)

    actions, log_probs = acts(agent, 0)

    assert len(set(actions)) == 1
    np.testing.assert_array_equal(log_probs, 0.0)


def test_epsilon_is_a_line_from_the_end_of_the_warm_up():
    agent = make(warmup_steps=10, epsilon_start=0.9, epsilon_end=0.1, epsilon_steps=80)
    state, _ = make_learner(agent, 1)

    got = [
        float(agent.epsilon(state.replace(timesteps=jnp.int32(t))))
        for t in (0, 9, 10, 50, 90, 1000)
    ]

    np.testing.assert_allclose(got, [1.0, 1.0, 0.9, 0.5, 0.1, 0.1], atol=1e-6)


def test_log_probabilities_are_those_of_the_shares():
    """Epsilon 0.4 over 5 actions: the best has 0.6 + 0.08, each other 0.08."""
    agent = make(FIVE, epsilon_start=0.4)

    actions, log_probs = acts(agent, 0)

    best = np.bincount(actions).argmax()
    # Five standard deviations of a binomial are 0.037.
    assert (actions == best).mean() == pytest.approx(0.68, abs=0.037)
    expected = np.where(actions == best, np.log(0.68), np.log(0.08))
    np.testing.assert_allclose(log_probs, expected, atol=1e-5)


@pytest.mark.parametrize("greedy", [False, True])
def test_a_network_of_nan_is_never_reported_as_an_action(greedy):
    agent = dataclasses.replace(make(FIVE), greedy=greedy)

    def broken(params):
        return jax.tree.map(lambda x: x * jnp.nan, params)

    _, log_probs = acts(agent, 0, num_games=8, params=broken)

    assert np.isnan(log_probs).all()


def test_the_value_is_that_of_the_best_action():
    agent = make(FIVE)
    state, memory = make_learner(agent, 1)
    obs = jnp.array([[0.1, -0.2, 0.3]])

    value = agent.batch_value(state, obs, memory)

    expected = agent.action_values(state.params["online"], obs).max(-1)
    np.testing.assert_allclose(value, expected, atol=1e-6)


def test_search_sees_only_the_network_that_acts():
    agent = make()
    state, _ = make_learner(agent, 1)

    assert agent.policy_params(state.params) is state.params["online"]
