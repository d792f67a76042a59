"""Statistics of the coin game: who took whose coins, and after what.

A player's *convention* is what it did when it last took a coin in this inner episode:
C, its own; D, the other's (also when it took both at once); S, it has taken none yet.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from paxenv.envs.coin_rules import Takes
from paxenv.metrics import Accumulator, count_by_state, rate
from paxenv.types import Info, Reward, Statistics

CONVENTIONS = "SCD"
LABELS = tuple(own + other for own in CONVENTIONS for other in CONVENTIONS)
_NONE, _OWN, _OTHER = range(3)


def report(takes: Takes, rewards: tuple[Reward, Reward]) -> Statistics:
    """Returns the metrics of one transition.

    `own_coins` and `other_coins`, int32 `[2]`: coins of the own and of the other's
    colour that each player took. `welfare`: the sum of the rewards.
    """
    own = jnp.stack([takes[p][p] for p in range(2)])
    other = jnp.stack([takes[p][1 - p] for p in range(2)])
    return {
        "own_coins": own.astype(jnp.int32),
        "other_coins": other.astype(jnp.int32),
        "welfare": rewards[0] + rewards[1],
    }


def init() -> Accumulator:
    """Returns empty statistics; `visits` and `cooperations` are by joint convention.

    The joint convention is `3 * red + blue`; each player's counts are in its own view,
    `3 * own + other`.
    """
    by_convention = jnp.zeros((2, len(LABELS)), jnp.int32)
    by_player = jnp.zeros((2,), jnp.int32)
    totals = {
        "visits": by_convention,
        "cooperations": by_convention,
        "own_coins": by_player,
        "other_coins": by_player,
    }
    return Accumulator(totals=totals, carry=jnp.zeros((2,), jnp.int32))


def update(acc: Accumulator, info: Info) -> Accumulator:
    """Returns the statistics with one step added, by the conventions before it."""
    own, other = info["metrics"]["own_coins"], info["metrics"]["other_coins"]
    before: Array = acc.carry
    counts = [
        count_by_state(
            jnp.arange(len(LABELS)) == 3 * before[p] + before[1 - p],
            own[p],
            info["valid"],
        )
        for p in range(2)
    ]
    visits, cooperations = (jnp.stack(c) for c in zip(*counts, strict=True))
    added = {
        "visits": visits,
        "cooperations": cooperations,
        "own_coins": own,
        "other_coins": other,
    }
    after = jnp.where(other > 0, _OTHER, jnp.where(own > 0, _OWN, before))
    return Accumulator(
        totals=jax.tree.map(jnp.add, acc.totals, added),
        carry=jnp.where(info["inner_done"], _NONE, after),
    )


def final(acc: Accumulator) -> Statistics:
    """Returns named statistics.

    For each player p: `own_coins/p` and `other_coins/p`, pick-ups; the
    `own_coin_fraction/p` among them; and by convention (own first, then the other's)
    its `state_visitation/p/CD` and `cooperation_probability/p/CD`, the probability
    that the player takes a coin of its own colour in a step that begins there. NaN
    where nothing was counted.
    """
    named: Statistics = {}
    totals = acc.totals
    for p in range(2):
        player = f"player_{p + 1}"
        own, other = totals["own_coins"][p], totals["other_coins"][p]
        named[f"own_coins/{player}"] = own
        named[f"other_coins/{player}"] = other
        named[f"own_coin_fraction/{player}"] = rate(own, own + other)
        visits = totals["visits"][p]
        share = rate(visits, visits.sum())
        cooperation = rate(totals["cooperations"][p], visits)
        for s, label in enumerate(LABELS):
            named[f"state_visitation/{player}/{label}"] = share[s]
            named[f"cooperation_probability/{player}/{label}"] = cooperation[s]
    return named
