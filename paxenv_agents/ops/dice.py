"""Objectives of sampled games whose derivatives of every order can be estimated.

Source: Foerster, Farquhar et al., DiCE: The Infinitely Differentiable Monte Carlo
Estimator (2018).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Scalar = float | Float[Array, ""]


def magic_box(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Returns 1, with the derivatives of exp(x): d box(x) = box(x) dx, any order."""
    return jnp.exp(x - jax.lax.stop_gradient(x))


def rewards_to_go(
    r_t: Float[Array, " T *batch"], gamma: Scalar
) -> Float[Array, " T *batch"]:
    """Returns r_t + gamma r_{t+1} + gamma**2 r_{t+2} + ... for each step."""

    def backward(later: jax.Array, reward: jax.Array) -> tuple[jax.Array, jax.Array]:
        now = reward + gamma * later
        return now, now

    return jax.lax.scan(backward, jnp.zeros_like(r_t[0]), r_t, reverse=True)[1]


def baseline(
    v_t: Float[Array, " T games"],
    return_t: Float[Array, " T games"],
    valid: Bool[Array, " T games"],
) -> Float[Array, " T games"]:
    """Returns each value plus the mean error of the *other* games' values.

    A game's baseline at step t is V of its own state, plus the mean of return - V over
    the other games that are still played then. It depends on no action of its own
    game from t on, so it takes away variance and adds no bias, also where V is far off.

    Args:
        v_t: Value of what was observed before each step; constants.
        return_t: Rewards to go.
        valid: Whether the step was played.
    """
    weights = valid.astype(v_t.dtype)
    missed = (return_t - v_t) * weights
    others = jnp.sum(weights, 1, keepdims=True) - weights
    total = jnp.sum(missed, 1, keepdims=True) - missed
    return jax.lax.stop_gradient(v_t + total / jnp.maximum(others, 1.0))


def objective(
    log_probs: Float[Array, " T games"],
    r_t: Float[Array, " T games"],
    gamma: Scalar,
    baseline_t: Float[Array, " T games"] | None = None,
    valid: Bool[Array, " T games"] | None = None,
) -> Float[Array, ""]:
    """Returns the mean discounted return; its derivatives estimate the value's.

    sum_t gamma**t [box(w_t) r_t - (box(w_t) - box(w_{t-1})) b_t], where w_t is the sum
    of all log-probabilities up to step t and b the baseline. Differentiated once it is
    REINFORCE with the factor gamma**t on each step; differentiated again it has the
    dependence of the first derivative's own samples, mixed derivatives included. The
    second term is 0, and so are all its derivatives on average, at every order.

    Args:
        log_probs: Of the joint action of each step: the sum over all players whose
            parameters anything is differentiated by.
        r_t: Rewards of the player whose return this is.
        gamma: Discount in [0, 1]; step 0 has weight 1.
        baseline_t: Estimate of the rewards to go; None: 0. Taken as a constant.
        valid: Whether the step was played; None: all were.

    Source: Foerster, Farquhar et al. (2018), eq. 5 and 9; the baseline of any order:
    Mao et al., A Baseline for Any Order Gradient Estimation in Stochastic Computation
    Graphs (2019).
    """
    played = jnp.ones(r_t.shape, bool) if valid is None else valid
    # [T] -> [T, 1]
    discount_t = (gamma ** jnp.arange(r_t.shape[0], dtype=r_t.dtype))[:, None]
    past = jnp.cumsum(jnp.where(played, log_probs, 0.0), axis=0)
    box_t = magic_box(past)
    terms = box_t * r_t
    if baseline_t is not None:
        box_tm1 = jnp.concatenate([jnp.ones_like(box_t[:1]), box_t[:-1]])
        terms -= (box_t - box_tm1) * jax.lax.stop_gradient(baseline_t)
    return jnp.mean(jnp.sum(jnp.where(played, discount_t * terms, 0.0), axis=0))
