"""The rules of the coin game against the same rules written in plain Python."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv.envs import coin_draws, coin_rules
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.coin_rules import CoinRules

RULES = {
    "default": CoinRules(),
    "single": CoinRules(coins="single", spawn="off_agents", start_overlap=False),
    "first": CoinRules(coins="single", spawn="off_agents", tie="first"),
    "random": CoinRules(tie="random"),
    "off_agents": CoinRules(spawn="off_agents"),
    "wide": CoinRules(height=2, width=5, spawn="off_agents", tie="first"),
    "large": CoinRules(height=16, width=16, spawn="off_agents"),
}
NUM_BOARDS = 2048
PAYOFF = np.array([[1.0, 2.0, -3.0], [4.0, 5.0, -6.0]], np.float32)


def plain_step(rules, players, coins, colour, candidates, tie, actions):
    """Returns (players, coins, colour, rewards) after one joint action."""
    moves = [(0, 1), (0, -1), (1, 0), (-1, 0), (0, 0)]
    players = [
        ((r + moves[a][0]) % rules.height, (c + moves[a][1]) % rules.width)
        for (r, c), a in zip(players, actions, strict=True)
    ]
    rewards = [0.0, 0.0]
    new_coins, new_colour = list(coins), colour
    for k, coin in enumerate(coins):
        takers = [p for p in (0, 1) if players[p] == coin]
        if len(takers) == 2 and rules.tie != "both":
            takers = [0 if rules.tie == "first" else tie]
        owner = colour if len(coins) == 1 else k
        for p in takers:
            rewards[p] += PAYOFF[p, owner]
            if p != owner:
                rewards[owner] += PAYOFF[owner, 2]
        if takers:
            new_colour = 1 - colour if len(coins) == 1 else colour
            cells = [divmod(cell, rules.width) for cell in candidates[k]]
            free = [cell for cell in cells if cell not in players]
            new_coins[k] = free[0] if rules.spawn == "off_agents" else cells[0]
    return players, new_coins, new_colour, rewards


def random_transitions(rules, key):
    """Returns random boards, draws and actions, `[NUM_BOARDS]` each, crowded."""

    def one(key):
        key, actions_key = jax.random.split(key)
        draws = coin_draws.draw(rules, key)
        crowd = jax.random.randint(actions_key, (6,), 0, min(6, rules.num_cells))
        draws = draws._replace(
            starts=(crowd[0], crowd[1]),
            start_coins=tuple((crowd[2 + k],) for k in range(rules.num_coins)),
        )
        board = coin_rules.opening(dataclasses.replace(rules, spawn="any"), draws)
        actions = jax.random.randint(jax.random.fold_in(actions_key, 1), (2,), 0, 5)
        return board, draws, (actions[0], actions[1])

    return jax.vmap(one)(jax.random.split(key, NUM_BOARDS))


def one_by_one(tree):
    """Yields the entries of a pytree of arrays `[NUM_BOARDS]` as plain numbers."""
    leaves, structure = jax.tree.flatten(tree)
    columns = [np.asarray(leaf).tolist() for leaf in leaves]
    for row in zip(*columns, strict=True):
        yield jax.tree.unflatten(structure, row)


@pytest.mark.parametrize("name", RULES)
def test_transition_is_the_plain_rule(name):
    rules = RULES[name]

    @jax.jit
    def played(key):
        board, draws, actions = random_transitions(rules, key)
        step = functools.partial(coin_rules.transition, rules)
        after, takes = jax.vmap(step)(draws, board, actions)
        rewards = jax.vmap(coin_rules.rewards, (None, 0))(jnp.asarray(PAYOFF), takes)
        return board, draws, actions, after, rewards

    num_paid = 0
    for board, draws, actions, after, rewards in one_by_one(played(jax.random.key(0))):
        players, coins, colour, paid = plain_step(
            rules, *board, draws.coins, draws.tie, actions
        )
        assert after == (tuple(players), tuple(coins), colour)
        assert list(rewards) == paid
        num_paid += any(paid)
    assert num_paid > NUM_BOARDS / 20


@pytest.mark.parametrize("name", RULES)
def test_a_board_survives_packing(name):
    rules = RULES[name]

    @jax.jit
    @jax.vmap
    def packed_and_back(key):
        board = coin_rules.opening(rules, coin_draws.draw(rules, key))
        return board, coin_rules.unpack(rules, coin_rules.pack(rules, board))

    board, again = packed_and_back(jax.random.split(jax.random.key(3), 256))
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), board, again))


def cells_of(rules, board):
    return np.stack(
        [np.asarray(r) * rules.width + np.asarray(c) for r, c in (*board[0], *board[1])]
    )


def test_every_opening_of_the_default_game_is_equally_likely():
    rules = CoinRules()
    num = 6561 * 40
    draws = jax.jit(jax.vmap(functools.partial(coin_draws.draw, rules)))(
        jax.random.split(jax.random.key(4), num)
    )
    cells = cells_of(
        rules, jax.vmap(functools.partial(coin_rules.opening, rules))(draws)
    )
    counts = np.bincount(np.ravel_multi_index(cells, (9, 9, 9, 9)), minlength=6561)
    # A chi-square of 6560 degrees of freedom: mean 6560, standard deviation 114.5.
    assert ((counts - 40) ** 2 / 40).sum() < 6560 + 5 * 114.5
    # The step's own cells do not follow from the opening.
    both = np.bincount(9 * cells[2] + np.asarray(draws.coins[0][0]), minlength=81)
    assert ((both - num / 81) ** 2 / (num / 81)).sum() < 80 + 5 * 12.6


def test_coins_spawn_uniformly_over_the_cells_without_a_player():
    rules = RULES["single"]
    draws = jax.jit(jax.vmap(functools.partial(coin_draws.draw, rules)))(
        jax.random.split(jax.random.key(5), 72 * 7 * 100)
    )
    board = jax.vmap(functools.partial(coin_rules.opening, rules))(draws)
    red, blue, coin = cells_of(rules, board)
    assert (red != blue).all()
    assert (coin != red).all()
    assert (coin != blue).all()
    counts = np.bincount(np.ravel_multi_index((red, blue, coin), (9, 9, 9)))
    counts = counts[counts > 0]
    assert len(counts) == 9 * 8 * 7
    assert ((counts - 100) ** 2 / 100).sum() < 503 + 5 * 31.7
    assert abs(np.asarray(board.colour).mean() - 0.5) < 0.01


def test_default_game_takes_one_block_of_random_words(monkeypatch):
    """Openings and steps have a word each, so a step costs a single threefry block."""
    asked = []
    monkeypatch.setattr(
        coin_draws.keys,
        "words",
        lambda key, n: asked.append(n) or jnp.zeros((n,), jnp.uint32),
    )
    CoinGame().draw(jax.random.key(0))
    assert asked == [2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"height": 1, "width": 1}, "a grid of 1x1 does not fit"),
        ({"height": 1, "width": 2}, "3 cells or more"),
        ({"height": 17}, "at most 16 a side"),
        ({"height": 3.5}, "whole numbers"),
        ({"coins": "three"}, "coins must be one of"),
        ({"spawn": "walls"}, "spawn must be one of"),
        ({"tie": "blue"}, "tie must be one of"),
    ],
)
def test_impossible_rules_are_refused_at_construction(options, message):
    """A grid without room is an error at once, not a search without end."""
    with pytest.raises(ValueError, match=message):
        CoinGame(**options)
