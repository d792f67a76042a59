"""Differentiable games: functions from everybody's parameters to everybody's value."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from paxenv.envs import infinite_matrix_game

#: One array of parameters for each player, in player order.
Params = tuple[jax.Array, ...]
#: A rate or a weight, traced or not.
Scalar = float | Float[Array, ""]
#: The game: what each player gets, to be made large, given everybody's parameters.
Values = Callable[[Params], Sequence[jax.Array]]


def from_losses(*losses: Callable[[Params], Float[Array, ""]]) -> Values:
    """Returns the game in which each player minimises its own loss.

    Args:
        *losses: One function of all parameters for each player.

    Example:
        >>> tandem = from_losses(
        ...     lambda params: (params[0] + params[1]) ** 2 - 2 * params[0],
        ...     lambda params: (params[0] + params[1]) ** 2 - 2 * params[1],
        ... )
    """

    def values(params: Params) -> tuple[jax.Array, ...]:
        return tuple(-loss(params) for loss in losses)

    return values


def tandem() -> Values:
    """Returns two players who pay (x + y)^2 together and are paid twice their own part.

    Every x + y = 1 is a fixed point of naive learning.

    Source: Letcher et al., Stable Opponent Shaping (2019), section 3.
    """

    def own_loss(player: int) -> Callable[[Params], jax.Array]:
        return lambda params: jnp.sum((params[0] + params[1]) ** 2 - 2 * params[player])

    return from_losses(own_loss(0), own_loss(1))


def memory_one(
    payoff: Float[Array, "..."] | np.ndarray | Sequence,
    gamma: Float[Array, ""] | float,
    *,
    normalised: bool = False,
) -> Values:
    """Returns the infinitely repeated matrix game of two memory-one policies.

    Parameters are five logits of cooperating for each player, after CC, CD, DC, DD
    with the own action first, and in the first round. Published learning rates hold for
    values that are not normalised: with `normalised` a gradient is `1 - gamma` times as
    long and a product of two of them `(1 - gamma)^2` times.

    Args:
        payoff: `[4, 2]` with rows CC, CD, DC, DD, or `[2, 2, 2]`.
        gamma: Discount in [0, 1).
        normalised: Whether values are rewards a step, `(1 - gamma) sum_t gamma^t r_t`.

    Raises:
        ValueError: If `gamma` is known by value and outside [0, 1).

    Source: Foerster et al., LOLA (2018), section 4.
    """
    infinite_matrix_game.check_discount(gamma)

    def values(params: Params) -> tuple[jax.Array, ...]:
        first, second = params
        sums = infinite_matrix_game.discounted_values(first, second, payoff, gamma)
        if not normalised:
            return sums
        return tuple((1.0 - jnp.asarray(gamma)) * value for value in sums)

    return values


def normal_params(
    key: Key[Array, ""], shapes: Sequence[tuple[int, ...]], scale: float = 1.0
) -> Params:
    """Returns independent normal parameters, one array for each player.

    Args:
        key: Consumed; player i draws from `fold_in(key, i)`.
        shapes: The shape of each player's parameters.
        scale: Standard deviation.
    """
    return tuple(
        scale * jax.random.normal(jax.random.fold_in(key, i), shape)
        for i, shape in enumerate(shapes)
    )


def with_player(params: Params, player: int, own: Float[Array, "..."]) -> Params:
    """Returns the parameters with those of one player replaced."""
    return (*params[:player], own, *params[player + 1 :])


def gradient(values: Values, of: int, by: int, params: Params) -> Float[Array, "..."]:
    """Returns the gradient of player `of`'s value by player `by`'s parameters."""

    def value(own: jax.Array) -> jax.Array:
        return values(with_player(params, by, own))[of]

    return jax.grad(value)(params[by])
