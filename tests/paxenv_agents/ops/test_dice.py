"""The DiCE objective, by exact expectations: every play of a short game is listed."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.ops import dice

PAYOFF = np.array([-1.0, -3.0, 0.0, -2.0])  # CC, CD, DC, DD for player 1
SWAPPED = [0, 2, 1, 3]
GAMMA, LENGTH = 0.9, 3
PLAYS = np.array(list(itertools.product(range(4), repeat=LENGTH)))  # [64, T]
THETA_1 = jnp.array([0.1, -0.2, 0.3, -0.4, 0.5])
THETA_2 = jnp.array([-0.5, 0.4, -0.3, 0.2, -0.1])


def log_probs(theta, own_states, defects):
    """Returns log-probabilities `[plays, T]` of a memory-one player's actions."""
    start = np.full((len(PLAYS), 1), 4)
    seen = np.concatenate([start, own_states[:, :-1]], axis=1)
    sign = np.where(defects, -1.0, 1.0)
    return jax.nn.log_sigmoid(sign * theta[seen])


def joint_log_probs(theta_1, theta_2):
    own, other = PLAYS, np.array(SWAPPED)[PLAYS]
    return log_probs(theta_1, own, own >= 2) + log_probs(theta_2, other, other >= 2)


def exact_value(theta_1, theta_2):
    """The value of player 1: every play by its probability."""
    rewards = (GAMMA ** np.arange(LENGTH) * PAYOFF[PLAYS]).sum(1)
    return jnp.sum(jnp.exp(joint_log_probs(theta_1, theta_2).sum(1)) * rewards)


def expected_dice(theta_1, theta_2, baseline):
    """The objective's expectation; the chances of the plays are held constant."""
    joint = joint_log_probs(theta_1, theta_2)
    chances = jax.lax.stop_gradient(jnp.exp(joint.sum(1)))
    rewards = jnp.asarray(PAYOFF[PLAYS])

    def one(log_probs, r_t, b_t):
        # [T] -> [T, 1]
        b_t = None if baseline is None else b_t[:, None]
        return dice.objective(log_probs[:, None], r_t[:, None], GAMMA, b_t)

    b_t = jnp.zeros(PLAYS.shape) if baseline is None else baseline
    return jnp.sum(chances * jax.vmap(one)(joint, rewards, b_t))


def state_baseline():
    """A value for each state that a step is taken in, far from right."""
    start = np.full((len(PLAYS), 1), 4)
    seen = np.concatenate([start, PLAYS[:, :-1]], axis=1)
    return jnp.array([-3.0, 8.0, -40.0, 5.0, 2.0])[seen]


def test_the_magic_box_is_one_with_the_derivatives_of_an_exponential():
    x = jnp.float32(0.7)

    def box(y):
        return dice.magic_box(2.0 * y)

    assert dice.magic_box(x) == 1.0
    np.testing.assert_allclose(jax.grad(box)(x), 2.0, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(jax.grad(box))(x), 4.0, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(jax.grad(jax.grad(box)))(x), 8.0, rtol=1e-6)


def test_rewards_to_go_are_discounted_sums_of_what_comes():
    """1, 0, 2 at a discount of one half are worth 1.5, 1, 2."""
    to_go = dice.rewards_to_go(jnp.array([[1.0], [0.0], [2.0]]), 0.5)

    assert to_go[:, 0].tolist() == [1.5, 1.0, 2.0]


@pytest.mark.parametrize("baseline", [None, state_baseline()], ids=["bare", "baseline"])
def test_the_objective_and_its_first_derivatives_are_those_of_the_value(baseline):
    value_and_grad = jax.jit(jax.value_and_grad(expected_dice, (0, 1)))
    value, grads = value_and_grad(THETA_1, THETA_2, baseline)
    exact, exact_grads = jax.jit(jax.value_and_grad(exact_value, (0, 1)))(
        THETA_1, THETA_2
    )

    np.testing.assert_allclose(value, exact, atol=1e-5)
    np.testing.assert_allclose(grads, exact_grads, atol=1e-5)


@pytest.mark.parametrize("baseline", [None, state_baseline()], ids=["bare", "baseline"])
def test_second_and_mixed_derivatives_are_those_of_the_value(baseline):
    """The mixed ones, d1 d2 V, are what shapes a co-player."""
    hessian = jax.jit(jax.hessian(expected_dice, (0, 1)))
    estimated = hessian(THETA_1, THETA_2, baseline)
    exact = jax.jit(jax.hessian(exact_value, (0, 1)))(THETA_1, THETA_2)

    np.testing.assert_allclose(estimated, exact, atol=1e-5)
    assert np.abs(exact[0][1]).max() > 0.05


def test_a_baseline_is_the_own_value_and_the_other_games_mean_error():
    values = jnp.array([[1.0, 2.0, 3.0]])
    returns = jnp.array([[5.0, 4.0, 0.0]])
    valid = jnp.array([[True, True, True]])

    # Errors 4, 2, -3; the others' means -0.5, 0.5, 3.
    np.testing.assert_allclose(
        dice.baseline(values, returns, valid), [[0.5, 2.5, 6.0]], atol=1e-6
    )


def test_games_that_have_ended_count_in_no_baseline():
    values = jnp.zeros((1, 3))
    returns = jnp.array([[6.0, 2.0, 99.0]])

    moved = dice.baseline(values, returns, jnp.array([[True, True, False]]))

    np.testing.assert_allclose(moved[0, :2], [2.0, 6.0], atol=1e-6)


def test_steps_that_were_not_played_change_nothing():
    log_p = jnp.array([[-0.3], [-0.7], [-9.0]])
    rewards = jnp.array([[1.0], [2.0], [0.0]])
    valid = jnp.array([[True], [True], [False]])
    baseline = jnp.array([[0.5], [0.25], [77.0]])

    def value(log_p, length):
        parts = (log_p, rewards[:length], 0.5, baseline[:length], valid[:length])
        return dice.objective(*parts)

    slope_of = jax.jit(jax.value_and_grad(value), static_argnums=1)
    whole, slope = slope_of(log_p, 3)
    short, short_slope = slope_of(log_p[:2], 2)

    np.testing.assert_allclose(whole, short, atol=1e-6)
    np.testing.assert_allclose(slope[:2], short_slope, atol=1e-6)
    assert slope[2, 0] == 0.0


def test_one_game_alone_has_its_own_values_for_a_baseline():
    moved = dice.baseline(jnp.ones((2, 1)), jnp.zeros((2, 1)), jnp.ones((2, 1), bool))

    assert moved.tolist() == [[1.0], [1.0]]
