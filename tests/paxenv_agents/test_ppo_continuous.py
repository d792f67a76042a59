"""PPO over a Box: where its actions lie, what they cost, and that it learns."""

import dataclasses
import functools
import itertools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_fakes import Seat, make_learner

import paxenv
from paxenv_agents import PairingError, check_agent, make_agent
from paxenv_agents.learners.naive import Naive
from paxenv_agents.learners.ppo import PPO
from paxenv_agents.networks.distributions import for_space
from paxenv_agents.types import Sample

SCALES, BOUNDS = ("state_independent", "softplus"), ("squashed", "scaled")
EVERY_KIND = list(itertools.product(SCALES, BOUNDS))
ONE_PASS = {"num_epochs": 1, "num_minibatches": 2}
#: Coordinates in [1, 5] and [-2, 0].
BOX = gymnasium.spaces.Box(np.array([1, -2], np.float32), np.array([5, 0], np.float32))


def seat(action=BOX):
    return Seat(gymnasium.spaces.Discrete(5, dtype=np.int32), action)


def played(agent, state, memory, observations):
    """Returns a sample of one step with what the agent did and said of it."""
    actions, _, after = agent.batch_policy(state, observations, memory)
    fields = dict.fromkeys(Sample._fields)
    return Sample(
        **{
            **fields,
            "observations": observations[None],
            "actions": actions[None],
            "rewards": actions[None].sum(-1),
            "behavior_log_probs": after.extras["log_probs"][None],
            "behavior_values": after.extras["values"][None],
            "dones": jnp.ones((1, len(observations)), bool),
            "hiddens": memory.hidden[None],
        }
    )


# Where actions lie.


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
@pytest.mark.parametrize(("scale", "bound"), EVERY_KIND)
def test_an_action_is_a_member_of_its_box(scale, bound, shape):
    space = gymnasium.spaces.Box(-3.0, 7.0, shape, np.float32)
    agent = PPO.from_env(seat(space), action_scale=scale, action_bound=bound)
    state, memory = make_learner(agent, 64)

    actions, _, _ = agent.batch_policy(state, jnp.zeros(64, jnp.int32), memory)

    assert actions.shape == (64, *shape)
    assert all(space.contains(np.asarray(action)) for action in actions)


@pytest.mark.parametrize(
    ("bound", "modes"),
    [
        # 3 + 2 tanh(0.5), -1 + tanh(-1); and at 2 beyond the bound, nearly.
        ("squashed", [[3.9242343, -1.7615942], [4.9280552, -1.0]]),
        ("scaled", [[4.0, -2.0], [5.0, -1.0]]),
    ],
)
def test_the_mode_is_the_mean_brought_into_the_box(bound, modes):
    law = for_space(BOX, "state_independent", bound)
    outputs = [[0.5, -1.0, 0.3, 0.3], [2.0, 0.0, -0.7, -0.7]]

    got = [law.mode(jnp.array(row)) for row in outputs]

    np.testing.assert_allclose(got, modes, atol=1e-5)


@pytest.mark.parametrize(("scale", "bound"), EVERY_KIND)
def test_a_fresh_policy_spreads_half_of_a_half_width(scale, bound):
    """8,192 draws before the bound: deviation 0.5 to within 4 standard errors."""
    law = for_space(BOX, scale, bound)
    keys = jax.random.split(jax.random.key(0), 8192)
    outputs = jnp.zeros(4)

    actions = jax.vmap(law.sample, (0, None))(keys, outputs)

    unit = np.asarray((actions - jnp.array([3.0, -1.0])) / jnp.array([2.0, 1.0]))
    if bound == "squashed":
        inner = np.arctanh(unit)
        assert inner.std(axis=0) == pytest.approx([0.5, 0.5], abs=0.016)
    else:
        # P(|x| > 1) of two deviations
        assert (np.abs(unit) == 1).mean() == pytest.approx(0.0455, abs=0.0065)
        assert np.median(np.abs(unit)) == pytest.approx(0.5 * 0.67449, abs=0.015)
    # The coordinates are independent: 4 / sqrt(8192).
    assert abs(np.corrcoef(unit.T)[0, 1]) < 0.045


def test_the_scale_is_a_learnt_vector_or_a_head():
    vector, head = (
        make_learner(PPO.from_env(seat(), action_scale=scale), 1)[0].params
        for scale in SCALES
    )

    assert vector["scales"].shape == (2,)
    assert vector["network"]["actor"]["Dense_0"]["kernel"].shape == (64, 2)
    assert head["actor"]["Dense_0"]["kernel"].shape == (64, 4)


def test_own_networks_and_tables_serve_a_box_too():
    from paxenv_agents.networks.feed_forward import MLPActor

    own = make_learner(PPO.from_env(seat(), None, MLPActor), 1)[0].params
    table = make_learner(PPO.from_env(seat(), tabular=True), 1)[0].params

    assert own["network"]["actor"]["Dense_0"]["kernel"].shape == (64, 2)
    assert table["network"]["logits"].shape == (5, 2)


# What actions cost.


def test_log_likelihoods_in_literal_numbers():
    """The first coordinate alone, at its mean; densities in the Box's own unit."""
    space = gymnasium.spaces.Box(1.0, 5.0, (1,), np.float32)
    outputs = jnp.array([0.0, 0.0])
    squashed, clipped = (for_space(space, "state_independent", b) for b in BOUNDS)

    # -log(sqrt(2 pi) 0.5 2): the slope of tanh at 0 is 1.
    for law in (squashed, clipped):
        assert float(law.log_prob(outputs, jnp.array([3.0]))) == pytest.approx(
            -0.9189385, abs=1e-5
        )
    # 4 = 3 + 2 tanh(u): u = 0.5493061, -u^2 / (2 0.25) - 0.9189385 - log(1 - 0.25)
    assert float(squashed.log_prob(outputs, jnp.array([4.0]))) == pytest.approx(
        -1.2347307, abs=1e-5
    )
    # log P(x >= 5) of two deviations
    assert float(clipped.log_prob(outputs, jnp.array([5.0]))) == pytest.approx(
        -3.7831843, abs=1e-4
    )


@pytest.mark.slow
def test_coordinates_add_up():
    for bound in BOUNDS:
        law = for_space(BOX, "softplus", bound)
        outputs = jnp.array([0.2, -0.4, 0.1, 0.6])
        action = law.sample(jax.random.key(1), outputs)
        parts = [
            (
                for_space(
                    gymnasium.spaces.Box(BOX.low[i], BOX.high[i], (), np.float32),
                    "softplus",
                    bound,
                ),
                outputs[jnp.array([i, i + 2])],
                action[i],
            )
            for i in range(2)
        ]

        together = law.log_prob(outputs, action), law.entropy(outputs)

        alone = [(p.log_prob(out, a), p.entropy(out)) for p, out, a in parts]
        np.testing.assert_allclose(together, np.sum(alone, axis=0), atol=1e-5)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("scale", SCALES)
def test_the_scale_has_a_gradient_from_the_start(scale, bound):
    """A scale that starts at a floor would never move."""
    law = for_space(BOX, scale, bound)
    action = law.sample(jax.random.key(3), jnp.zeros(4))

    log_prob, entropy = (
        jax.grad(f)(jnp.zeros(4))[2:]
        for f in (lambda out: law.log_prob(out, action), law.entropy)
    )

    assert (np.abs(log_prob) > 1e-2).all()
    assert (np.asarray(entropy) > 1e-1).all()


@pytest.mark.parametrize("scale", SCALES)
def test_a_squashed_action_at_the_bound_keeps_a_finite_likelihood(scale):
    law = for_space(BOX, scale, "squashed")
    outputs = jnp.array([50.0, -50.0, 0.0, 0.0])
    action = law.mode(outputs)

    value, gradient = jax.value_and_grad(law.log_prob)(outputs, action)

    assert action.tolist() == [5.0, -2.0]
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.slow
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_policy_of_nan_plays_nan_and_no_action_of_the_box(bound):
    agent = PPO.from_env(seat(), action_bound=bound, hidden_sizes=(4,))
    state, memory = make_learner(agent, 2)
    state = state.replace(params=jax.tree.map(lambda x: x * jnp.nan, state.params))

    actions, _, after = agent.batch_policy(state, jnp.zeros(2, jnp.int32), memory)

    assert np.isnan(actions).all()
    assert np.isnan(after.extras["log_probs"]).all()


@pytest.mark.slow
def test_actions_of_a_discrete_space_are_those_of_the_first_release():
    """Recorded before policies over a Box came: the same actions for the same keys."""
    agent = PPO.from_env(
        Seat(action=gymnasium.spaces.Discrete(3, start=5)), hidden_sizes=(8,)
    )
    state, memory = make_learner(agent, 24)

    actions, _, _ = agent.batch_policy(state, jnp.arange(24) % 5, memory)

    recorded = "767656776557676575556567"
    assert actions.tolist() == [int(digit) for digit in recorded]


# The seats it takes.


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (gymnasium.spaces.Box(-np.inf, 1.0, (2,), np.float32), r"finite .*low=\[-inf"),
        (gymnasium.spaces.Box(0.0, np.inf, (2,), np.float32), r"finite .*high=\[inf"),
        (
            gymnasium.spaces.Box(0, 9, (2,), np.int32),
            "Discrete actions or a Box of flo",
        ),
        (gymnasium.spaces.MultiDiscrete([2, 2]), "Discrete actions or a Box of flo"),
        (
            gymnasium.spaces.Box(
                np.array([0, 2], np.float32), np.array([1, 2], np.float32)
            ),
            "no room",
        ),
    ],
)
def test_a_space_without_a_policy_is_refused(space, message):
    with pytest.raises(PairingError, match=message):
        PPO.from_env(seat(space))


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("Pendulum-v1", {"action_bound": "squashed"}),
        pytest.param(
            *("Pendulum-v1", {"action_bound": "scaled", "action_scale": "softplus"}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("InfiniteMatrixGame-v0", {"action_bound": "scaled"}),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_promise_is_kept_in_games_with_a_box(game, options):
    env, params = paxenv.make(game, num_inner_steps=6)
    agent = make_agent("PPO", env, hidden_sizes=(8,), **ONE_PASS, **options)

    check_agent(agent, env, params=params)


@pytest.mark.slow
def test_the_naive_learner_keeps_every_promise_over_a_box():
    env, params = paxenv.make("Pendulum-v1", num_inner_steps=4)

    check_agent(Naive.from_env(env), env, params=params)


# Learning.


@functools.partial(jax.jit, static_argnums=0)
def update(agent, sample, state, memory):
    return agent.update(sample, sample.observations[0], state, memory)


@pytest.mark.slow
@pytest.mark.parametrize(
    "option", [{"action_scale": "softplus"}, {"action_bound": "scaled"}]
)
def test_both_options_change_what_is_played_and_learnt(option):
    plain = {"tabular": True, **ONE_PASS}
    outcomes = []
    for options in (plain, {**plain, **option}):
        agent = PPO.from_env(seat(), **options)
        state, memory = make_learner(agent, 8)
        sample = played(agent, state, memory, jnp.arange(8) % 5)
        after, _, _ = update(agent, sample, state, memory)
        network = after.params.get("network", after.params)
        outcomes.append((sample.actions, network["logits"][:, :2]))

    (actions, means), (other_actions, other_means) = outcomes
    # A raw scale of 0 is the same spread for both parametrisations.
    assert ("action_bound" in option) != np.allclose(actions, other_actions, atol=1e-5)
    assert not np.allclose(means, other_means, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "bound"), EVERY_KIND)
def test_the_first_optimiser_step_has_ratio_one(scale, bound):
    agent = PPO.from_env(
        seat(),
        hidden_sizes=(8,),
        action_scale=scale,
        action_bound=bound,
        num_epochs=1,
        num_minibatches=1,
    )
    state, memory = make_learner(agent, 64)
    sample = played(agent, state, memory, jnp.arange(64) % 5)

    _, _, stats = update(agent, sample, state, memory)

    assert float(stats["clip_fraction"]) == 0.0
    assert float(stats["approx_kl"]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("bound", BOUNDS)
def test_actions_move_to_where_the_reward_is(bound):
    """Reward = the sum of both coordinates, at most 5 + 0; a fresh policy has 3 - 1."""
    options = {"learning_rate": 0.05, "num_minibatches": 1, "tabular": True}
    agent = PPO.from_env(seat(), action_bound=bound, **options)
    state, memory = make_learner(agent, 64)

    def iteration(state, seed):
        lanes = jax.vmap(jax.random.fold_in, (0, None))(memory.key, seed)
        now = memory.replace(key=lanes)
        sample = played(agent, state, now, jnp.arange(64) % 5)
        state, _, _ = agent.update(sample, sample.observations[0], state, now)
        return state, sample.rewards.mean()

    train = jax.jit(lambda s: jax.lax.scan(iteration, s, jnp.arange(60)))
    _, rewards = train(state)

    assert float(rewards[0]) == pytest.approx(2.0, abs=0.5)
    assert float(rewards[-5:].mean()) > 4.0


def test_the_greedy_copy_plays_the_mode():
    agent = PPO.from_env(seat(), tabular=True)
    state, memory = make_learner(agent, 3)
    greedy = dataclasses.replace(agent, greedy=True)

    actions, _, _ = greedy.batch_policy(state, jnp.arange(3), memory)

    np.testing.assert_allclose(actions, [[3.0, -1.0]] * 3, atol=1e-6)
