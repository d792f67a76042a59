"""Statistics of play: what is summed over games, and what one reads off the sums."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Num, PyTree

from paxenv.types import Flag


class Accumulator(struct.PyTreeNode):
    """Running statistics of one game.

    Attributes:
        totals: Counts and sums, a pytree of int32 or float arrays. Adding the totals
            of several games gives the totals of all of them.
        carry: What the game must remember from step to step; never summed.
    """

    totals: PyTree
    carry: PyTree = ()


def welfare(returns: Float[Array, "... players"]) -> Float[Array, "..."]:
    """Returns the sum over players of their episode returns."""
    return jnp.sum(returns, axis=-1)


def equality(returns: Float[Array, "... players"]) -> Float[Array, "..."]:
    """Returns 1 - sum_ij |R_i - R_j| / (2 N sum_i |R_i|); 1 when all returns are 0.

    1 is perfect equality. With returns of one sign it is 1 minus the Gini index.

    Source: Perolat et al., A multi-agent reinforcement learning model of common-pool
    resource appropriation (2017), section 2.3, with the absolute value in the
    denominator so that negative returns have a meaning too.
    """
    num_players = returns.shape[-1]
    gaps = jnp.abs(returns[..., :, None] - returns[..., None, :]).sum((-2, -1))
    scale = 2 * num_players * jnp.abs(returns).sum(-1)
    return 1.0 - jnp.where(scale > 0, gaps / jnp.where(scale > 0, scale, 1.0), 0.0)


def reported_metrics(metrics: Mapping[str, Any], num_players: int) -> dict[str, Any]:
    """Returns the numbers among a step's metrics: scalars and one for each player.

    Args:
        metrics: Of one step of one game, by name; may hold mappings of the same kind.
        num_players: Players of the game.

    Returns:
        Float scalars, and tuples of `num_players` of them; arrays of other shapes and
        tuples of other lengths are left out.
    """
    found = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            value = reported_metrics(value, num_players)
        elif isinstance(value, tuple | list):
            value = _of_players([jnp.asarray(x) for x in value], num_players)
        else:
            array = jnp.asarray(value)
            parts = list(array) if array.shape == (num_players,) else []
            value = _float(array) if not array.ndim else _of_players(parts, num_players)
        if not isinstance(value, Mapping | tuple) or value:
            found[name] = value
    return found


def _of_players(values: Sequence[jax.Array], num_players: int) -> tuple[Any, ...]:
    """Returns one float scalar for each player, () if these are not such."""
    if len(values) != num_players or any(x.ndim for x in values):
        return ()
    return tuple(_float(x) for x in values)


def _float(x: jax.Array) -> jax.Array:
    return x.astype(jnp.result_type(float))


def rate(count: Num[Array, "*shape"], of: Int[Array, "..."]) -> Float[Array, "*shape"]:
    """Returns count / of, which may broadcast, and NaN where nothing was counted."""
    return jnp.where(of > 0, count / jnp.maximum(of, 1), jnp.nan)


def count_by_state(
    here: Bool[Array, " states"],
    hit: Bool[Array, ""] | Int[Array, ""],
    valid: Flag | bool,
) -> tuple[Int[Array, " states"], Int[Array, " states"]]:
    """Returns int32 (visits, hits) `[states]` of one step.

    Args:
        here: Which state it was in, bool one-hot `[states]`.
        hit: Whether what is counted there happened, or how often; a scalar.
        valid: Whether this was a real step.
    """
    visits = (here & valid).astype(jnp.int32)
    return visits, visits * hit.astype(jnp.int32)


def state_counts(num_players: int, num_states: int) -> Accumulator:
    """Returns empty counts of visits and cooperations, int32 `[players, states]`."""
    zeros = jnp.zeros((num_players, num_states), jnp.int32)
    return Accumulator(totals={"visits": zeros, "cooperations": zeros})


def count_step(
    acc: Accumulator,
    states: Sequence[Bool[Array, " states"]],
    cooperated: Sequence[Flag],
    valid: Flag | bool,
) -> Accumulator:
    """Returns `state_counts` with one step added.

    Args:
        acc: Made by `state_counts`.
        states: The state that each player saw before it acted, bool one-hot `[states]`.
        cooperated: Whether each player cooperated, bool scalars.
        valid: Whether this was a real step; otherwise nothing is added.
    """
    steps = [
        count_by_state(here, hit, valid)
        for here, hit in zip(states, cooperated, strict=True)
    ]
    visits, hits = (jnp.stack(counts) for counts in zip(*steps, strict=True))
    totals = {
        "visits": acc.totals["visits"] + visits,
        "cooperations": acc.totals["cooperations"] + hits,
    }
    return acc.replace(totals=totals)


def visitation(
    acc: Accumulator, names: Sequence[Sequence[str]]
) -> dict[str, Float[Array, ""]]:
    """Returns `state_visitation/player_i/NAME`: shares of steps, NaN without steps.

    Args:
        acc: Made by `state_counts`; its totals may be a sum over games.
        names: The names of every player's states.
    """
    visits = acc.totals["visits"]
    return {
        f"state_visitation/player_{p + 1}/{name}": rate(visits[p, s], visits[p].sum())
        for p, states in enumerate(names)
        for s, name in enumerate(states)
    }


def cooperation(
    acc: Accumulator, names: Sequence[Sequence[str]]
) -> dict[str, Float[Array, ""]]:
    """Returns `cooperation_rate/player_i` and `cooperation_probability/player_i/NAME`.

    The second is count(s, C) / count(s), NaN where a state was never visited.
    Arguments as in `visitation`.
    """
    visits, hits = acc.totals["visits"], acc.totals["cooperations"]
    named = {}
    for p, states in enumerate(names):
        player = f"player_{p + 1}"
        named[f"cooperation_rate/{player}"] = rate(hits[p].sum(), visits[p].sum())
        for s, name in enumerate(states):
            named[f"cooperation_probability/{player}/{name}"] = rate(
                hits[p, s], visits[p, s]
            )
    return named
