"""How a batch `[T, E, ...]` is split into the minibatches of an update."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree

from paxenv import keys
from paxenv.wording import counted

TIME, GAMES = 0, 1


def minibatch_axis(
    num_steps: int,
    num_games: int,
    num_minibatches: int,
    *,
    recurrent: bool = False,
    group_size: int = 1,
) -> int:
    """Returns the axis to permute: `GAMES`, else `TIME` for a memoryless learner.

    Args:
        num_steps: T.
        num_games: E.
        num_minibatches: Minibatches of a pass.
        recurrent: Whether a sequence must stay in one piece.
        group_size: Neighbouring games that must stay in one minibatch.

    Raises:
        ValueError: If `group_size` does not divide the games, or `num_minibatches`
            neither the games (or groups) nor, for a memoryless learner, the steps.
    """
    if num_games % group_size:
        raise ValueError(
            f"{counted(num_games, 'game')} "
            f"do not divide into groups of {group_size}: call "
            "agent.grouped(num_games) with the games that play together"
        )
    num_groups = num_games // group_size
    if num_groups % num_minibatches == 0:
        return GAMES
    if group_size > 1:
        raise ValueError(
            f"num_minibatches={num_minibatches} does not divide the "
            f"{counted(num_groups, 'group')} of {group_size} games, and a "
            "policy that mixes the games of a group keeps each group in one minibatch: "
            "change num_minibatches or num_opponents"
        )
    if recurrent:
        raise ValueError(
            f"num_minibatches={num_minibatches} does not divide the "
            f"{counted(num_games, 'game')} of the batch, and a "
            "recurrent learner keeps each game in one minibatch: change "
            "num_minibatches or num_envs"
        )
    if num_steps % num_minibatches == 0:
        return TIME
    raise ValueError(
        f"num_minibatches={num_minibatches} divides neither the "
        f"{counted(num_games, 'game')} nor the {counted(num_steps, 'step')} of the "
        "batch: change num_minibatches, num_envs or the number of steps"
    )


def indices(
    key: Key[Array, ""], size: int, num_epochs: int, num_minibatches: int
) -> Int[Array, "updates part"]:
    """Returns the indices of each minibatch; every epoch is a permutation of `size`.

    A minibatch that is the whole batch keeps its order: no mean over it would differ.

    Args:
        key: Folded by the number of the epoch.
        size: Length of the permuted axis; `num_minibatches` divides it.
        num_epochs: Passes over the batch.
        num_minibatches: Minibatches of a pass.
    """
    if num_minibatches == 1:
        return jnp.tile(jnp.arange(size), (num_epochs, 1))
    epochs = keys.folds(key, num_epochs)
    orders = jax.vmap(lambda k: jax.random.permutation(k, size))(epochs)
    # [epochs, size] -> [epochs * minibatches, size / minibatches]
    return orders.reshape(num_epochs * num_minibatches, size // num_minibatches)


def of_games(
    groups: Int[Array, "updates part"], group_size: int
) -> Int[Array, "updates games"]:
    """Returns the indices of all games of the groups that are indexed."""
    if group_size == 1:
        return groups
    games = groups[..., None] * group_size + jnp.arange(group_size)
    # [updates, part, group_size] -> [updates, part * group_size]
    return games.reshape(groups.shape[0], -1)


def take(batch: PyTree, index: Int[Array, " part"], axis: int) -> PyTree:
    """Returns the part of every leaf of `batch` at `index` along `axis`.

    An index of the whole axis, which comes from `indices` in order, costs nothing.
    """

    def part(x):
        if index.shape[0] == x.shape[axis]:
            return x
        return jnp.take(x, index, axis=axis, mode="clip")

    return jax.tree.map(part, batch)
