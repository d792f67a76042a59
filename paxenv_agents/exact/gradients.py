"""Directions in which exact learners move: naive, look-ahead, LOLA, SOS.

Every function returns the direction in which one player's parameters change at the rate
`delta`. `eta` is the rate of the step that it expects the others to take on their own
values.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paxenv_agents.exact.games import Params, Scalar, Values, gradient, with_player

#: The published forms of LOLA's gradient, see `lola`.
FORMS = ("taylor", "full", "lookahead")


class Derivatives(NamedTuple):
    """First and second derivatives of all values by all parameters.

    Attributes:
        first: `first[i]` holds all players' gradients by player i's parameters,
            `[players, ...]`.
        second: `second[i][j]` holds their derivatives by player j's parameters,
            `[players, ..., ...]`.
    """

    first: tuple[jax.Array, ...]
    second: tuple[tuple[jax.Array, ...], ...]

    def gradient(self, of: int, by: int) -> Float[Array, "..."]:
        """Returns grad_by V_of."""
        return self.first[by][of]

    def product(
        self, of: int, by: int, along: int, vector: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Returns (grad_by grad_along V_of) vector."""
        return jnp.tensordot(self.second[by][along][of], vector, vector.ndim)


def derivatives(values: Values, params: Params) -> Derivatives:
    """Returns the derivatives of a game; one pass serves all directions of a step."""

    def first(params: Params) -> tuple[Any, Any]:
        found = jax.jacrev(lambda p: jnp.stack(list(values(p))))(params)
        return found, found

    second, found = jax.jacfwd(first, has_aux=True)(params)
    return Derivatives(found, second)


def naive(values: Values, params: Params, player: int) -> Float[Array, "..."]:
    """Returns the gradient of the own value with the other players fixed."""
    return gradient(values, player, player, params)


def look_ahead(
    values: Values, params: Params, player: int, eta: Scalar
) -> Float[Array, "..."]:
    """Returns the gradient of the own value after the others' steps, held constant.

    To first order in `eta`:

        grad_i V_i + eta sum_j (grad_i grad_j V_i) grad_j V_j

    Source: Zhang & Lesser, Multi-agent learning with policy prediction (2010), as in
    Letcher et al., Stable Opponent Shaping (2019), section 2.3.
    """
    return _look_ahead(derivatives(values, params), player, eta)


def shaping(values: Values, params: Params, player: int) -> Float[Array, "..."]:
    """Returns the shaping term: how the own parameters change the others' steps.

        sum_j (grad_i grad_j V_j) grad_j V_i

    This term alone shapes opponents.
    """
    return _shaping(derivatives(values, params), player)


def lola(
    values: Values, params: Params, player: int, eta: Scalar, form: str = "taylor"
) -> Float[Array, "..."]:
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
    found = derivatives(values, params)
    if form == "taylor":
        return found.gradient(player, player) + eta * _shaping(found, player)
    return _look_ahead(found, player, eta) + eta * _shaping(found, player)


def check_form(form: str) -> None:
    """Raises ValueError unless this is a form of LOLA's gradient."""
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")


def sos(
    values: Values,
    params: Params,
    player: int,
    eta: Scalar,
    a: float = 0.5,
    b: float = 0.1,
) -> Float[Array, "..."]:
    """Returns the direction of Stable Opponent Shaping: look-ahead plus p * shaping.

    The share p of the shaping term is one number for all players. It is less than 1
    where shaping would reverse the joint look-ahead direction, and falls to 0 at fixed
    points of naive learning, which are then fixed points of SOS.

    Args:
        values: The game.
        params: Everybody's parameters.
        player: Who learns.
        eta: Rate of the others' steps.
        a: How far shaping may turn the joint direction, in (0, 1).
        b: Norm of the joint naive gradient below which p shrinks, in (0, 1).

    Source: Letcher et al., Stable Opponent Shaping in Differentiable Games (2019),
    algorithm 1.
    """
    found, players = derivatives(values, params), range(len(params))
    ahead = [_look_ahead(found, i, eta) for i in players]
    shaped = [eta * _shaping(found, i) for i in players]
    naive_square = _square([found.gradient(i, i) for i in players])
    agreement = sum(jnp.sum(x * y) for x, y in zip(shaped, ahead, strict=True))
    # Where they agree the quotient is not used, and must not be 0 / 0.
    turned = jnp.where(agreement < 0, agreement, -1.0)
    p1 = jnp.where(agreement < 0, jnp.minimum(1.0, -a * _square(ahead) / turned), 1.0)
    p2 = jnp.where(naive_square < b**2, naive_square, 1.0)
    return ahead[player] + jnp.minimum(p1, p2) * shaped[player]


def _look_ahead(found: Derivatives, player: int, eta: Scalar) -> jax.Array:
    ahead = found.gradient(player, player)
    for j in _others(found.first, player):
        step = eta * found.gradient(j, j)
        ahead = ahead + found.product(player, player, j, step)
    return ahead


def _shaping(found: Derivatives, player: int) -> jax.Array:
    parts = [
        found.product(j, player, j, found.gradient(player, j))
        for j in _others(found.first, player)
    ]
    return sum(parts, start=jnp.zeros_like(found.first[player][player]))


def _through_steps(
    values: Values, params: Params, player: int, eta: Scalar
) -> jax.Array:
    def value(own: jax.Array) -> jax.Array:
        moved = with_player(params, player, own)
        after = moved
        for j in _others(params, player):
            step = gradient(values, j, j, moved)
            after = with_player(after, j, moved[j] + eta * step)
        return values(after)[player]

    return jax.grad(value)(params[player])


def _others(params: tuple[Any, ...], player: int) -> list[int]:
    return [j for j in range(len(params)) if j != player]


def _square(parts: list[jax.Array]) -> jax.Array:
    return jnp.sum(jnp.stack([jnp.sum(x * x) for x in parts]))
