"""POLA: steps measured by the change of policies, not of parameters."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paxenv_agents.exact.games import Params, Scalar, Values, gradient, with_player
from paxenv_agents.exact.training import Method

#: `(old parameters, new parameters) -> distance of the policies`.
Divergence = Callable[[jax.Array, jax.Array], jax.Array]


def bernoulli_divergence(
    old: Float[Array, "*shape"], new: Float[Array, "*shape"]
) -> Float[Array, ""]:
    """Returns KL(old || new), summed over states, of P(first action) as logits."""
    p = jax.nn.sigmoid(old)
    first = jax.nn.log_sigmoid(old) - jax.nn.log_sigmoid(new)
    second = jax.nn.log_sigmoid(-old) - jax.nn.log_sigmoid(-new)
    return jnp.sum(p * first + (1 - p) * second)


def pola(
    delta: Scalar = 0.3,
    eta: Scalar = 5.0,
    *,
    outer_beta: Scalar = 0.1,
    inner_beta: Scalar = 0.0,
    outer_steps: int = 1000,
    inner_steps: int = 1,
    threshold: float = 1e-8,
    divergence: Divergence = bernoulli_divergence,
) -> Method:
    """Returns Proximal LOLA with exact values.

    A player's next parameters maximise

        V_i(theta_i', theta_j'(theta_i')) - outer_beta * D(theta_i, theta_i')

    where the others respond to theta_i' by `inner_steps` gradient steps on
    V_j(theta_i', theta_j') - inner_beta * D(theta_j, theta_j'), through which the
    gradient goes. Both are solved by ascent. Where the ascent has converged, neither
    the rates nor the parametrisation of the policies matters. The defaults are the
    published ones for tabular policies, with one inner step that has no penalty.

    Args:
        delta: Rate of the outer ascent.
        eta: Rate of the inner ascent.
        outer_beta: Weight of the own divergence.
        inner_beta: Weight of the others' divergences.
        outer_steps: Steps of the outer ascent, at most.
        inner_steps: Steps of the inner ascent.
        threshold: Divergence of two successive policies, in both directions, below
            which the outer ascent ends.
        divergence: D, of the policies of two arrays of parameters.

    Source: Zhao et al., Proximal Learning with Opponent-Learning Awareness (2022),
    algorithm 1.
    """
    return functools.partial(
        _proximal_step,
        functools.partial(
            _objective,
            rates=(eta, outer_beta, inner_beta),
            inner_steps=inner_steps,
            divergence=divergence,
        ),
        (delta, outer_steps, threshold, divergence),
    )


def answers(
    values: Values,
    params: Params,
    player: int,
    *,
    eta: Scalar,
    beta: Scalar,
    num_steps: int,
    divergence: Divergence = bernoulli_divergence,
) -> Params:
    """Returns the parameters after the others' proximal steps; the player's own stay.

    All others step at once; each ascends its own value, penalised by the divergence.

    Args:
        values: The game.
        params: Everybody's parameters.
        player: The player whose parameters stay.
        eta: Rate of the ascent.
        beta: Weight of the divergence from `params`.
        num_steps: Steps of the ascent; gradients go through them.
        divergence: Of the policies of two arrays of parameters.
    """
    others = [j for j in range(len(params)) if j != player]

    def step(now: Params, nothing: None) -> tuple[Params, None]:
        del nothing
        after = now
        for j in others:
            away = jax.grad(divergence, argnums=1)(params[j], now[j])
            slope = gradient(values, j, j, now) - beta * away
            after = with_player(after, j, now[j] + eta * slope)
        return after, None

    return jax.lax.scan(step, params, None, num_steps)[0]


def _objective(
    values: Values,
    params: Params,
    player: int,
    own: jax.Array,
    *,
    rates: tuple[Any, Any, Any],
    inner_steps: int,
    divergence: Divergence,
) -> jax.Array:
    """Returns what the outer ascent makes large: the value after the answers."""
    eta, outer_beta, inner_beta = rates
    after = answers(
        values,
        with_player(params, player, own),
        player,
        eta=eta,
        beta=inner_beta,
        num_steps=inner_steps,
        divergence=divergence,
    )
    return values(after)[player] - outer_beta * divergence(params[player], own)


def _proximal_step(
    objective: Callable[..., jax.Array],
    ascent: tuple[Any, int, float, Divergence],
    values: Values,
    params: Params,
    player: int,
) -> jax.Array:
    delta, num_steps, threshold, divergence = ascent
    slope = jax.grad(functools.partial(objective, values, params, player))

    def goes_on(carry: Any) -> jax.Array:
        _, moved, step = carry
        return moved & (step < num_steps)

    def step(carry: Any) -> Any:
        own, _, step = carry
        after = own + delta * slope(own)
        far = jnp.maximum(divergence(own, after), divergence(after, own))
        return after, far >= threshold, step + 1

    start = params[player], jnp.ones((), bool), jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(goes_on, step, start)[0]
