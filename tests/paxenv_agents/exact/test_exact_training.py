"""The loop over exact methods, in the tandem game and for proximal steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.exact import games, proximal, training

RATE = 0.1


@functools.cache
def fixed_point(name, **options):
    """Returns (x + y, mean loss), `[20]`, after 400 steps of the tandem game."""
    rates = (RATE,) if name == "naive" else (RATE, RATE)
    method = getattr(training, name)(*rates, **options)
    start = games.normal_params(jax.random.key(0), [(20,), (20,)], scale=0.1)
    run = jax.vmap(lambda params: training.train(method, games.tandem(), params, 400))
    trained = jax.jit(run)(start)
    x, y = trained.params
    return np.asarray(x + y), -np.asarray(trained.values[:, -1]).mean(-1)


@pytest.mark.parametrize("name", ["naive", "look_ahead", "sos"])
def test_tandem_players_who_keep_fixed_points_share_the_load(name):
    """X + y = 1 and no loss, for every start."""
    total, loss = fixed_point(name)
    np.testing.assert_allclose(total, 1.0, atol=1e-3)
    np.testing.assert_allclose(loss, 0.0, atol=1e-3)


@pytest.mark.parametrize(
    ("form", "total"),
    [
        # By hand, with the rate a: (1 - 2a) / (1 - 4a), 1 / (1 - 2a), and the root of
        # ((1 - 2a) s + 2a) (1 - 2a) = 1.
        ("full", 4 / 3),
        ("taylor", 1.25),
        ("lookahead", 1.3125),
    ],
)
def test_tandem_players_who_shape_each_other_push_too_hard(form, total):
    """LOLA's fixed point is none of naive learning, and costs both."""
    found, loss = fixed_point("lola", form=form)
    np.testing.assert_allclose(found, total, atol=1e-3)
    np.testing.assert_allclose(loss, total**2 - total, atol=1e-3)


def test_every_player_may_have_a_method_of_its_own():
    methods = training.naive(0.1), training.naive(0.0)
    start = jnp.zeros(()), jnp.full((), 0.25)
    trained = training.train(methods, games.tandem(), start, 200)
    np.testing.assert_allclose(trained.params, [0.75, 0.25], atol=1e-4)
    assert trained.values.shape == (200, 2)
    with pytest.raises(ValueError, match="1 method for 2 players"):
        training.train(methods[:1], games.tandem(), start, 1)


def one_shot(scale):
    """Returns coordination between two logits, each `scale` times its parameter."""

    def values(params):
        p, q = (jax.nn.sigmoid(scale * x) for x in params)
        return 2 * p * q - p + 0.5 * q, 3 * p * q - q

    return values


def divergence(scale):
    def distance(old, new):
        return proximal.bernoulli_divergence(scale * old, scale * new)

    return distance


def test_divergence_of_policies_by_hand():
    old, new = jnp.array([0.0, 0.0]), jnp.array([0.0, np.log(3.0)])
    # 1/2 log(1/2 / 3/4) + 1/2 log(1/2 / 1/4) in the second state.
    expected = 0.5 * np.log(2 / 3) + 0.5 * np.log(2.0)
    assert float(proximal.bernoulli_divergence(old, new)) == pytest.approx(expected)


def test_a_proximal_answer_balances_gain_and_divergence():
    """Where (3p - 1) q' - beta KL is largest: (3p - 1) q' (1 - q') = beta (q' - q)."""
    params = jnp.zeros(()), jnp.full((), -1.0)
    after = proximal.answers(one_shot(1.0), params, 0, eta=0.5, beta=2.0, num_steps=500)
    assert float(after[0]) == 0.0
    old, new = jax.nn.sigmoid(params[1]), jax.nn.sigmoid(after[1])
    assert float(0.5 * new * (1 - new)) == pytest.approx(
        float(2.0 * (new - old)), abs=1e-5
    )
    assert float(new) > float(old) + 0.02


@pytest.mark.parametrize("player", [0, 1])
def test_a_proximal_step_does_not_depend_on_the_parametrisation(player):
    """The same policies, with parameters a third as large: the same next policy."""

    @functools.partial(jax.jit, static_argnums=0)
    def next_policy(scale):
        method = proximal.pola(
            0.5 / scale**2,
            1.0 / scale**2,
            outer_beta=1.5,
            inner_beta=2.0,
            outer_steps=2000,
            inner_steps=50,
            threshold=1e-12,
            divergence=divergence(scale),
        )
        params = jnp.float32(0.4 / scale), jnp.float32(-0.3 / scale)
        after = method(one_shot(scale), params, player)
        return jax.nn.sigmoid(scale * after)

    first, second = float(next_policy(1.0)), float(next_policy(3.0))
    start = jax.nn.sigmoid((0.4, -0.3)[player])
    assert first == pytest.approx(second, abs=1e-3)
    assert abs(first - float(start)) > 0.02
