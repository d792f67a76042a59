"""Everybody learns at once: methods as values, and the loop over their steps."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paxenv.wording import counted
from paxenv_agents.exact import gradients
from paxenv_agents.exact.games import Params, Scalar, Values

#: `(values, params, player) -> the player's next parameters`.
Method = Callable[[Values, Params, int], jax.Array]


class Trained(NamedTuple):
    """The results of a training.

    Attributes:
        params: Everybody's parameters after the last step.
        values: The values of all players after each step, `[steps, players]`.
    """

    params: Params
    values: Float[Array, "steps players"]


def naive(delta: Scalar = 1.0) -> Method:
    """Returns naive learning at the rate `delta`."""
    return _ascent(gradients.naive, delta)


def look_ahead(delta: Scalar = 1.0, eta: Scalar = 1.0) -> Method:
    """Returns look-ahead at the rate `delta`, the others' steps at the rate `eta`."""
    return _ascent(functools.partial(gradients.look_ahead, eta=eta), delta)


def lola(delta: Scalar = 1.0, eta: Scalar = 1.0, form: str = "taylor") -> Method:
    """Returns LOLA; see `gradients.lola` for its forms.

    Raises:
        ValueError: If there is no such form.
    """
    gradients.check_form(form)
    return _ascent(functools.partial(gradients.lola, eta=eta, form=form), delta)


def sos(
    delta: Scalar = 1.0, eta: Scalar = 1.0, a: float = 0.5, b: float = 0.1
) -> Method:
    """Returns Stable Opponent Shaping; see `gradients.sos`."""
    return _ascent(functools.partial(gradients.sos, eta=eta, a=a, b=b), delta)


def train(
    method: Method | Sequence[Method],
    values: Values,
    init: Params,
    num_steps: int,
) -> Trained:
    """Lets all players learn, each step of everybody from the same joint parameters.

    Pure: compile it with `method`, `values` and `num_steps` fixed, and `vmap` it over
    `init` for many runs.

    Args:
        method: How everybody learns, or one method for each player.
        values: The game.
        init: The parameters before the first step, one array for each player.
        num_steps: Steps.

    Raises:
        ValueError: If there is not one method for each player.

    Example:
        >>> from paxenv_agents.exact import games, training
        >>> start = (jnp.zeros(()), jnp.zeros(()))
        >>> after = training.train(training.naive(0.1), games.tandem(), start, 200)
        >>> print((after.params[0] + after.params[1]).round(3))
        1.0
    """
    methods = (method,) * len(init) if callable(method) else tuple(method)
    if len(methods) != len(init):
        raise ValueError(
            f"got {counted(len(methods), 'method')} for {counted(len(init), 'player')}"
        )

    def step(params: Params, nothing: None) -> tuple[Params, jax.Array]:
        del nothing
        after = tuple(
            learnt(values, params, player) for player, learnt in enumerate(methods)
        )
        return after, jnp.stack(list(values(after)))

    return Trained(*jax.lax.scan(step, tuple(init), None, num_steps))


def _ascent(direction: Callable[..., jax.Array], delta: Scalar) -> Method:
    def learnt(values: Values, params: Params, player: int) -> jax.Array:
        return params[player] + delta * direction(values, params, player)

    return learnt
