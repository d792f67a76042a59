"""Directions in which exact learners move: naive, look-ahead, LOLA, SOS.

Every function returns the direction of steepest ascent of one player, by which its
parameters change at the rate `delta`. The look-ahead rate `eta` is the step that it
takes the others to make on their own values.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from paxenv_agents.exact.games import Params, Values, gradient, with_player

#: The published forms of LOLA's gradient, see `lola`.
FORMS = ("taylor", "full", "lookahead")


def naive(values: Values, params: Params, player: int) -> jax.Array:
    """Returns the gradient of the own value, everybody else fixed."""
    return gradient(values, player, player, params)


def look_ahead(values: Values, params: Params, player: int, eta: Any) -> jax.Array:
    """Returns the gradient of the own value after the others' steps, held constant.

    To first order in `eta`:

        grad_i V_i + eta sum_j (grad_i grad_j V_i) grad_j V_j

    Source: Zhang & Lesser, Multi-agent learning with policy prediction (2010), as in
    Letcher et al., Stable Opponent Shaping (2019), section 2.3.
    """
    steps = _steps(values, params, player)

    def predicted(own: jax.Array) -> jax.Array:
        moved = with_player(params, player, own)
        return sum(
            _inner(gradient(values, player, j, moved), step) for j, step in steps
        )  # type: ignore[return-value]

    own = naive(values, params, player)
    return own + eta * jax.grad(predicted)(params[player])


def shaping(values: Values, params: Params, player: int) -> jax.Array:
    """Returns how the own parameters change the others' steps in one's own favour.

        sum_j (grad_i grad_j V_j) grad_j V_i

    with the last factor held constant. All that shapes an opponent is in this term.
    """
    gains = [
        (j, gradient(values, player, j, params)) for j in _others(params, player)
    ]

    def gain(own: jax.Array) -> jax.Array:
        moved = with_player(params, player, own)
        return sum(_inner(gain, gradient(values, j, j, moved)) for j, gain in gains)  # type: ignore[return-value]

    return jax.grad(gain)(params[player])


def lola(
    values: Values, params: Params, player: int, eta: Any, form: str = "taylor"
) -> jax.Array:
    """Returns LOLA's gradient in one of its three published forms.

    * `"taylor"`: the naive gradient plus `eta * shaping`, as in the paper's equations
      and its authors' code.
    * `"full"`: the gradient of V_i + eta sum_j grad_j V_i . grad_j V_j, which is
      `look_ahead` plus `eta * shaping`; in the code of Stable Opponent Shaping and the
      exact opponents of M-FOS.
    * `"lookahead"`: the gradient of V_i(theta_i, theta_j + eta grad_j V_j), through the
      others' steps and without an expansion.

    Args:
        values: The game.
        params: Everybody's parameters.
        player: Who learns.
        eta: Rate of the others' steps.
        form: One of `FORMS`.

    Raises:
        ValueError: If there is no such form.

    Source: Foerster et al., Learning with Opponent-Learning Awareness (2018); Letcher
    et al. (2019); Lu et al., Model-Free Opponent Shaping (2022).
    """
    check_form(form)
    if form == "lookahead":
        return _through_steps(values, params, player, eta)
    own = naive if form == "taylor" else _look_ahead_by(eta)
    return own(values, params, player) + eta * shaping(values, params, player)


def check_form(form: str) -> None:
    """Raises ValueError unless this is a form of LOLA's gradient."""
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")


def sos(
    values: Values,
    params: Params,
    player: int,
    eta: Any,
    a: float = 0.5,
    b: float = 0.1,
) -> jax.Array:
    """Returns the direction of Stable Opponent Shaping: look-ahead plus p * shaping.

    The share p of the shaping term is one number for all players. It is less than 1
    where shaping would turn everybody's look-ahead round, and falls to 0 at fixed
    points of naive learning, which are then fixed points of SOS.

    Args:
        values: The game.
        params: Everybody's parameters.
        player: Who learns.
        eta: Rate of the others' steps.
        a: How far shaping may turn the joint direction, in (0, 1).
        b: Length of the joint naive gradient below which p shrinks, in (0, 1).

    Source: Letcher et al., Stable Opponent Shaping in Differentiable Games (2019),
    algorithm 1.
    """
    players = range(len(params))
    ahead = [look_ahead(values, params, i, eta) for i in players]
    shaped = [eta * shaping(values, params, i) for i in players]
    naive_length = _squares([naive(values, params, i) for i in players])
    agreement = sum(_inner(x, y) for x, y in zip(shaped, ahead, strict=True))
    # Where they agree the quotient is not used, and must not be 0 / 0.
    turned = jnp.where(agreement < 0, agreement, -1.0)
    p1 = jnp.where(agreement < 0, jnp.minimum(1.0, -a * _squares(ahead) / turned), 1.0)
    p2 = jnp.where(naive_length < b**2, naive_length, 1.0)
    return ahead[player] + jnp.minimum(p1, p2) * shaped[player]


def _through_steps(
    values: Values, params: Params, player: int, eta: Any
) -> jax.Array:
    def value(own: jax.Array) -> jax.Array:
        moved = with_player(params, player, own)
        after = moved
        for j in _others(params, player):
            step = gradient(values, j, j, moved)
            after = with_player(after, j, moved[j] + eta * step)
        return values(after)[player]

    return jax.grad(value)(params[player])


def _look_ahead_by(eta: Any) -> Callable[[Values, Params, int], jax.Array]:
    return lambda values, params, player: look_ahead(values, params, player, eta)


def _steps(
    values: Values, params: Params, player: int
) -> list[tuple[int, jax.Array]]:
    """Returns the naive gradients of everybody else."""
    return [(j, naive(values, params, j)) for j in _others(params, player)]


def _others(params: Params, player: int) -> list[int]:
    return [j for j in range(len(params)) if j != player]


def _inner(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.sum(x * y)


def _squares(parts: list[jax.Array]) -> jax.Array:
    return sum(_inner(x, x) for x in parts)  # type: ignore[return-value]
