"""Episodes that have ended, as sums that give means, extremes and shares."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Num, PyTree

from paxenv.environment import Environment
from paxenv.metrics import equality, welfare


class Episodes(struct.PyTreeNode):
    """Sums over the inner episodes that ended; 0 of them leave every sum at 0.

    Leaves have any leading axes, `P` is the number of players.

    Attributes:
        count: How many ended. int32.
        truncated: How many of them a time limit ended. int32.
        length: Sum of their lengths in steps. int32.
        returns: Sum of their returns, `[..., P]`.
        lowest: The lowest return, inf if none ended, `[..., P]`.
        highest: The highest return, -inf if none ended, `[..., P]`.
        welfare: Sum of their welfare.
        equality: Sum of their equality.
        components: Sum over episodes of the parts of their rewards, by name.
        log: Sum over episodes of what the game logs, each the mean over its steps.
    """

    count: Int[Array, "..."]
    truncated: Int[Array, "..."]
    length: Int[Array, "..."]
    returns: Float[Array, "... players"]
    lowest: Float[Array, "... players"]
    highest: Float[Array, "... players"]
    welfare: Float[Array, "..."]
    equality: Float[Array, "..."]
    components: Any
    log: Any


class InPlay(struct.PyTreeNode):
    """Sums over the steps so far of an inner episode of one game.

    Attributes:
        length: Steps so far. int32 scalar.
        returns: Rewards so far, `[players]`.
        components: Parts of the rewards so far, by name.
        log: What the game logged so far, by name.
    """

    length: jax.Array
    returns: jax.Array
    components: Any
    log: Any


def in_play(num_players: int, components: PyTree, log: PyTree) -> InPlay:
    """Returns the sums of an episode that has just opened.

    Args:
        num_players: Players of the game.
        components: Parts of a step's rewards, of which only shapes are read.
        log: What the game reports of a step, likewise.
    """

    def zeros(tree: Any) -> Any:
        return jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.result_type(float)), tree)

    return InPlay(
        length=jnp.zeros((), jnp.int32),
        returns=jnp.zeros(num_players, jnp.result_type(float)),
        components=zeros(components),
        log=zeros(log),
    )


def with_step(
    env: Environment,
    episode: InPlay,
    rewards: Float[Array, " players"],
    info: dict[str, Any],
) -> InPlay:
    """Returns the sums with one step added; one that was not valid adds nothing.

    Args:
        env: The game, which says what is reported of a step (`Environment.logged`).
        episode: The sums so far.
        rewards: The rewards of the step.
        info: The info of the step.
    """
    add = jnp.add
    return InPlay(
        length=episode.length + info["valid"],
        returns=episode.returns + rewards,
        components=jax.tree.map(
            add, episode.components, info.get("reward_components", {})
        ),
        log=jax.tree.map(add, episode.log, env.logged(info)),
    )


def none_yet(episode: InPlay) -> Episodes:
    """Returns the statistics of no episode, shaped after one in play."""
    zero, returns = jnp.zeros((), jnp.int32), jnp.zeros_like(episode.returns)
    scalar = jnp.zeros((), returns.dtype)
    return Episodes(
        count=zero,
        truncated=zero,
        length=zero,
        returns=returns,
        lowest=jnp.full_like(returns, jnp.inf),
        highest=jnp.full_like(returns, -jnp.inf),
        welfare=scalar,
        equality=scalar,
        components=jax.tree.map(jnp.zeros_like, episode.components),
        log=jax.tree.map(jnp.zeros_like, episode.log),
    )


def ended(episode: InPlay, truncated: Bool[Array, "..."]) -> Episodes:
    """Returns the statistics of episodes that have all ended, one leaf for each.

    Args:
        episode: Their sums, with any leading axes.
        truncated: Whether a time limit ended them, with the same axes.
    """
    returns, steps = episode.returns, jnp.maximum(episode.length, 1)
    return Episodes(
        count=jnp.ones_like(episode.length),
        truncated=truncated.astype(jnp.int32),
        length=episode.length,
        returns=returns,
        lowest=returns,
        highest=returns,
        welfare=welfare(returns),
        equality=equality(returns),
        components=episode.components,
        log=jax.tree.map(lambda x: x / steps, episode.log),
    )


def with_end(
    episodes: Episodes,
    episode: InPlay,
    over: Bool[Array, ""],
    truncated: Bool[Array, ""],
) -> Episodes:
    """Returns the statistics with one episode added where it is `over`."""
    new = ended(episode, truncated)

    def add(total: jax.Array, x: jax.Array) -> jax.Array:
        return total + jnp.where(over, x, 0)

    added = jax.tree.map(add, episodes, new)
    return added.replace(
        lowest=jnp.minimum(episodes.lowest, jnp.where(over, new.lowest, jnp.inf)),
        highest=jnp.maximum(episodes.highest, jnp.where(over, new.highest, -jnp.inf)),
    )


def joined(a: Episodes, b: Episodes) -> Episodes:
    """Returns the statistics of both, axis by axis."""
    both = jax.tree.map(jnp.add, a, b)
    return both.replace(
        lowest=jnp.minimum(a.lowest, b.lowest),
        highest=jnp.maximum(a.highest, b.highest),
    )


def nothing_like(shapes: Episodes) -> Episodes:
    """Returns the statistics of no episode, in these shapes and dtypes."""
    none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return none.replace(
        lowest=jnp.full_like(none.lowest, jnp.inf),
        highest=jnp.full_like(none.highest, -jnp.inf),
    )


def summed(episodes: Episodes) -> Episodes:
    """Returns the statistics over all leading axes: scalars, and `[players]`."""

    def over_players(reduce: Any, x: jax.Array) -> jax.Array:
        return reduce(x.reshape(-1, x.shape[-1]), axis=0)

    total = jax.tree.map(jnp.sum, episodes)
    return total.replace(
        returns=over_players(jnp.sum, episodes.returns),
        lowest=over_players(jnp.min, episodes.lowest),
        highest=over_players(jnp.max, episodes.highest),
    )


def means(episodes: Episodes) -> dict[str, Num[Array, ""]]:
    """Returns `episode/*`, `reward_components/*` and `env/*` of summed statistics.

    NaN everywhere, except in `episode/count`, where no episode has ended.
    """
    count = episodes.count

    def mean(x: jax.Array) -> jax.Array:
        return jnp.where(count > 0, x / jnp.maximum(count, 1), jnp.nan)

    named = {
        "episode/count": count,
        "episode/length": mean(episodes.length),
        "episode/truncated": mean(episodes.truncated),
        "episode/welfare": mean(episodes.welfare),
        "episode/equality": mean(episodes.equality),
    }
    for p in range(episodes.returns.shape[-1]):
        seat = f"player_{p + 1}"
        total = episodes.returns[p]
        named |= {
            f"episode/return/{seat}": mean(total),
            f"episode/return_min/{seat}": mean(count * episodes.lowest[p]),
            f"episode/return_max/{seat}": mean(count * episodes.highest[p]),
            f"episode/reward_per_step/{seat}": jnp.where(
                count > 0, total / jnp.maximum(episodes.length, 1), jnp.nan
            ),
        }
    for group, tree in (
        ("reward_components", episodes.components),
        ("env", episodes.log),
    ):
        for path, x in jax.tree.leaves_with_path(tree):
            named[f"{group}/{entry_name(path)}"] = mean(x)
    return named


def entry_name(path: Any) -> str:
    """Returns the name of an entry of `info`: its keys, joined by `/`.

    A leading `/` of a key is dropped. Players of a tuple are counted from 1, as in
    every metric name.
    """
    parts = []
    for key in path:
        if isinstance(key, jax.tree_util.SequenceKey):
            parts.append(f"player_{key.idx + 1}")
        else:
            parts.append(str(getattr(key, "key", getattr(key, "name", key))).strip("/"))
    return "/".join(parts)
