"""Advantages against literal numbers and a slow loop in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.ops.multistep import generalised_advantages

GAMMA, LAMBDA = 0.9, 0.5


def advantages(
    rewards,
    values,
    last,
    terminated=(),
    truncated=(),
    final_values=None,
    invalid=(),
    gamma=GAMMA,
    lambda_=LAMBDA,
):
    """`terminated`, `truncated`, `invalid` are time indices; one game."""
    steps = np.arange(len(rewards))
    finals = np.zeros(len(rewards)) if final_values is None else final_values
    column = [jnp.asarray(x, jnp.float32)[:, None] for x in (rewards, values, finals)]
    flags = [jnp.asarray(np.isin(steps, x))[:, None] for x in (terminated, truncated)]
    return generalised_advantages(
        column[0],
        column[1],
        jnp.array([last], jnp.float32),
        gamma,
        lambda_,
        terminated=flags[0],
        truncated=flags[1],
        final_values=column[2],
        valid=jnp.asarray(~np.isin(steps, invalid))[:, None],
    )[:, 0]


def test_a_rollout_that_goes_on_bootstraps_the_next_value():
    # A_2 = 3 + 0.9 * 4 - 0.5 = 6.1
    # A_1 = 2 + 0.9 * 0.5 - 1 + 0.45 * 6.1 = 4.195
    # A_0 = 1 + 0.9 * 1 - 2 + 0.45 * 4.195 = 1.78775
    got = advantages([1, 2, 3], [2, 1, 0.5], last=4)
    np.testing.assert_allclose(got, [1.78775, 4.195, 6.1], atol=1e-6)


def test_a_terminated_step_has_no_future():
    # A_1 = 2 - 1 = 1; A_0 = 1 + 0.9 - 2 + 0.45 * 1 = 0.35
    got = advantages([1, 2, 3], [2, 1, 0.5], last=4, terminated=[1])
    np.testing.assert_allclose(got, [0.35, 1.0, 6.1], atol=1e-6)


def test_a_truncated_step_is_worth_what_it_led_to():
    # A_1 = 2 + 0.9 * 7 - 1 = 7.3; A_0 = -0.1 + 0.45 * 7.3 = 3.185
    got = advantages(
        [1, 2, 3], [2, 1, 0.5], last=4, truncated=[1], final_values=[0, 7, 0]
    )
    np.testing.assert_allclose(got, [3.185, 7.3, 6.1], atol=1e-6)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        # A_2 = 3 - 0.5 = 2.5; A_1 = 1.45 + 0.45 * 2.5; A_0 = -0.1 + 0.45 * A_1
        ({"terminated": [2]}, [1.05875, 2.575, 2.5]),
        # A_2 = 3 + 0.9 * 7 - 0.5 = 8.8
        ({"truncated": [2], "final_values": [0, 0, 7]}, [2.3345, 5.41, 8.8]),
    ],
)
def test_a_rollout_that_ends_on_an_episode_end_ignores_the_last_value(ends, expected):
    """The flag belongs to the step that ended, also to the last of a rollout."""
    for last in (4.0, 1e6):
        got = advantages([1, 2, 3], [2, 1, 0.5], last=last, **ends)
        np.testing.assert_allclose(got, expected, atol=1e-6)


def slow_targets(rewards, values, finals, last, terminated, truncated):
    """A + V by the definition: a sum of TD errors up to the end of the episode."""
    num_steps = len(rewards)
    following = np.append(values[1:], last)
    targets = np.zeros(num_steps)
    for t in range(num_steps):
        weight, advantage = 1.0, 0.0
        for u in range(t, num_steps):
            bootstrap = following[u]
            if terminated[u]:
                bootstrap = 0.0
            if truncated[u]:
                bootstrap = finals[u]
            advantage += weight * (rewards[u] + GAMMA * bootstrap - values[u])
            weight *= GAMMA * LAMBDA
            if terminated[u] or truncated[u]:
                break
        targets[t] = advantage + values[t]
    return targets


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
@pytest.mark.parametrize("length", [3, 4, 8])
def test_targets_equal_a_slow_loop(length, kind):
    """Rollouts of 8 steps over episodes of 3, 4 and 8 steps."""
    draw = np.random.default_rng(length)
    rewards, values, finals = draw.normal(size=(3, 8)).astype(np.float32)
    ends = np.arange(1, 9) % length == 0
    none = np.zeros(8, bool)
    terminated, truncated = (ends, none) if kind == "terminated" else (none, ends)
    finals = np.where(truncated, finals, 0)

    got = advantages(
        rewards,
        values,
        last=1.5,
        terminated=np.flatnonzero(terminated),
        truncated=np.flatnonzero(truncated),
        final_values=finals,
    )

    expected = slow_targets(rewards, values, finals, 1.5, terminated, truncated)
    np.testing.assert_allclose(got + values, expected, rtol=1e-5, atol=1e-5)


def test_targets_are_rewards_to_go_when_lambda_is_one():
    """Rewards 1, 0, 2 and gamma 0.5 give 1.5, 1.0, 2.0, whatever the values."""
    values = np.array([0.3, -2.0, 5.0], np.float32)

    got = advantages([1, 0, 2], values, last=9, terminated=[2], gamma=0.5, lambda_=1.0)

    np.testing.assert_allclose(got + values, [1.5, 1.0, 2.0], atol=1e-6)


def test_steps_that_were_not_played_are_passed_over():
    short = advantages([1, 2, 3], [2, 1, 0.5], last=4)
    gaps = advantages([1, 0, 2, 3, 0], [2, 99, 1, 0.5, 99], last=4, invalid=[1, 4])

    np.testing.assert_allclose(gaps[jnp.array([0, 2, 3])], short, atol=1e-6)
    np.testing.assert_allclose(gaps[jnp.array([1, 4])], 0.0)


def test_games_do_not_mix():
    draw = np.random.default_rng(0)
    r, v, f = jnp.asarray(draw.normal(size=(3, 6, 4)), jnp.float32)
    terminated, truncated = jnp.asarray(draw.random((2, 6, 4)) < [[[0.3]], [[0.2]]])
    truncated = truncated & ~terminated

    def of(games):
        return generalised_advantages(
            r[:, games],
            v[:, games],
            v[0, games],
            GAMMA,
            LAMBDA,
            terminated=terminated[:, games],
            truncated=truncated[:, games],
            final_values=f[:, games],
            valid=jnp.ones_like(terminated[:, games]),
        )

    together = jax.jit(lambda: of(jnp.arange(4)))()
    apart = jnp.concatenate([of(jnp.array([i])) for i in range(4)], axis=1)
    np.testing.assert_allclose(together, apart, atol=1e-6)
