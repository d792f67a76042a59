"""Random numbers of the coin game: those of an opening and a step, from few words."""

import jax.numpy as jnp
from jaxtyping import Array, Key, UInt32

from paxenv import keys
from paxenv.envs.coin_rules import CoinRules, Draws, Scalar

MAX_PRODUCT = 2**16


def draw(rules: CoinRules, key: Key[Array, ""]) -> Draws:
    """Returns the random numbers of one opening and of one step.

    Openings and steps use different words. In the default game each takes one word,
    so that both cost a single block of the generator.
    """
    opening, playing = _radices(rules)
    split = _num_words(opening)
    words = keys.words(key, split + _num_words(playing))
    first = _digits(words[:split], opening)
    then = _digits(words[split:], playing)
    zero = jnp.zeros((), jnp.int32)

    red, blue = first[:2]
    if not rules.start_overlap:
        blue = blue + (blue >= red)
    if rules.coins == "single":
        colour, first = first[2], first[3:]
    else:
        colour, first = zero, first[2:]
    tie = then[-1] if rules.tie == "random" else zero
    return Draws(
        starts=(red, blue),
        start_coins=_candidates(rules, first),
        start_colour=colour,
        coins=_candidates(rules, then),
        tie=tie,
    )


def _radices(rules: CoinRules) -> tuple[list[int], list[int]]:
    """Returns what has to be drawn at an opening and in a step, as ranges [0, n)."""
    n = rules.num_cells
    coin = [n] if rules.spawn == "any" else [n, n - 1, n - 2]
    first = [n, n if rules.start_overlap else n - 1]
    if rules.coins == "single":
        first.append(2)
    then = coin * rules.num_coins
    return first + then, then + ([2] if rules.tie == "random" else [])


def _candidates(
    rules: CoinRules, digits: list[Scalar]
) -> tuple[tuple[Scalar, ...], ...]:
    """Returns each coin's candidate cells, made distinct from ranks among the rest."""
    if rules.spawn == "any":
        return tuple((digits[k],) for k in range(rules.num_coins))
    coins = []
    for k in range(rules.num_coins):
        a, b, c = digits[3 * k : 3 * k + 3]
        b = b + (b >= a)
        c = c + (c >= jnp.minimum(a, b))
        coins.append((a, b, c + (c >= jnp.maximum(a, b))))
    return tuple(coins)


def _groups(radices: list[int]) -> list[list[int]]:
    """Returns the ranges grouped in order, so that each group fits one word."""
    groups: list[list[int]] = [[]]
    product = 1
    for n in radices:
        product *= n
        if product >= MAX_PRODUCT:
            groups.append([])
            product = n
        groups[-1].append(n)
    return groups


def _num_words(radices: list[int]) -> int:
    return len(_groups(radices))


def _digits(words: UInt32[Array, " n"], radices: list[int]) -> list[Scalar]:
    """Returns one number in [0, n) for each range, several from each word.

    `below` takes the high half of word * n; the low half is a new word that is
    uniform given what was taken, and gives the next digit.
    """
    digits = []
    for i, group in enumerate(_groups(radices)):
        word = words[i]
        for n in group:
            digits.append(keys.below(word, n))
            word = word * jnp.uint32(n)
    return digits
