"""Values of fixed policies in the coin game: solved exactly, then simulated.

The solver below knows nothing of paxenv: it is the rules written again, over the 729
boards that differ when red is put in the middle. All values are those of a whole
16-step episode from a uniform start, with the reward of the last step paid.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv.envs.coin_game import CoinGame

STEPS = 16
NUM_GAMES = 20_000
RIGHT, LEFT, UP, DOWN, STAY = range(5)
MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0), (0, 0))


def offset(a, b):
    """Returns the shortest way from cell a to b on the torus, as (rows, columns)."""
    return tuple((b[i] - a[i] + 1) % 3 - 1 for i in range(2))


def distance(a, b):
    return sum(abs(x) for x in offset(a, b))


def walk(way, column_first=True):
    rows, columns = way
    along_column = {1: RIGHT, -1: LEFT}.get(columns)
    along_row = {1: UP, -1: DOWN}.get(rows)
    first, second = (
        (along_column, along_row) if column_first else (along_row, along_column)
    )
    if first is not None:
        return first
    return STAY if second is None else second


def own_coin(me, other, mine, theirs):
    return walk(offset(me, mine))


def own_coin_by_map(me, other, mine, theirs):
    moves = {(0, 0): STAY, (0, 1): RIGHT, (0, -1): LEFT, (1, 0): UP, (-1, 0): DOWN}
    moves |= {(1, 1): UP, (1, -1): LEFT, (-1, 1): RIGHT, (-1, -1): DOWN}
    return moves[offset(me, mine)]


def dodger(me, other, mine, theirs):
    away = distance(me, mine)
    shortest = []
    for action, move in enumerate(MOVES):
        there = tuple((me[i] + move[i]) % 3 for i in range(2))
        if distance(there, mine) == max(away - 1, 0):
            shortest.append((action, there))
    safe = [action for action, there in shortest if there != theirs]
    return safe[0] if safe else shortest[0][0]


def any_coin(me, other, mine, theirs, column_first=True):
    nearest = mine if distance(me, mine) <= distance(me, theirs) else theirs
    return walk(offset(me, nearest), column_first)


def any_coin_row_first(me, other, mine, theirs):
    return any_coin(me, other, mine, theirs, column_first=False)


def motionless(me, other, mine, theirs):
    return STAY


CELLS = tuple(itertools.product(range(3), repeat=2))
MIDDLE = (1, 1)


def table(policy):
    """Returns the action for each of the 729 views: other, own coin, other's coin."""
    views = itertools.product(CELLS, repeat=3)
    return np.array([policy(MIDDLE, *view) for view in views], np.int32)


def code(red, places):
    """Returns the number of a board in red's view."""
    number = 0
    for place in places:
        row, column = ((place[i] - red[i] + 1) % 3 for i in range(2))
        number = 9 * number + 3 * row + column
    return number


def exact_values(red_policy, blue_policy):
    chance = np.zeros((729, 729))
    reward = np.zeros((729, 2))
    for s, (blue, red_coin, blue_coin) in enumerate(itertools.product(CELLS, repeat=3)):
        moves = (
            MOVES[red_policy(MIDDLE, blue, red_coin, blue_coin)],
            MOVES[blue_policy(blue, MIDDLE, blue_coin, red_coin)],
        )
        red2 = tuple((MIDDLE[i] + moves[0][i]) % 3 for i in range(2))
        blue2 = tuple((blue[i] + moves[1][i]) % 3 for i in range(2))
        rr, rb, br, bb = (p == c for p in (red2, blue2) for c in (red_coin, blue_coin))
        reward[s] = rr + rb - 2 * br, br + bb - 2 * rb
        reds = CELLS if rr or br else (red_coin,)
        blues = CELLS if rb or bb else (blue_coin,)
        for pair in itertools.product(reds, blues):
            chance[s, code(red2, (blue2, *pair))] += 1 / (len(reds) * len(blues))
    value = np.zeros((729, 2))
    for _ in range(STEPS):
        value = reward + chance @ value
    return value.mean(axis=0)


MATCHES = {
    "OwnCoin v OwnCoin": (own_coin, own_coin, (8.9754, 8.9754)),
    "OwnCoin by map v itself": (own_coin_by_map, own_coin_by_map, (8.9839, 8.9839)),
    "Dodger v Dodger": (dodger, dodger, (9.6705, 9.6705)),
    "AnyCoin v Dodger": (any_coin, dodger, (11.7085, 1.3061)),
    "AnyCoin by row v Dodger": (any_coin_row_first, dodger, (11.7207, 1.2945)),
    "AnyCoin v AnyCoin": (any_coin, any_coin, (3.7695, 3.7695)),
    "AnyCoin v OwnCoin": (any_coin, own_coin, (10.2923, 1.8364)),
}


@pytest.mark.parametrize("match", MATCHES)
def test_exact_value_of_a_pair_of_fixed_policies(match):
    red, blue, expected = MATCHES[match]
    np.testing.assert_allclose(exact_values(red, blue), expected, atol=1e-3)


@jax.jit
def episode_returns(key, red_table, blue_table):
    """Returns `[NUM_GAMES, 2]`: the returns of whole episodes of the default game."""
    return play(CoinGame(STEPS, observation="index"), key, red_table, blue_table)


def play(env, key, red_table, blue_table):
    params = env.default_params

    def step(carry, key):
        obs, state = carry
        actions = red_table[obs[0]], blue_table[obs[1]]
        obs, state, rewards, _, _ = env.step(key, state, actions, params)
        return (obs, state), jnp.stack(rewards)

    def game(key):
        first, then = jax.random.split(key)
        keys = jax.random.split(then, env.num_inner_steps)
        return jax.lax.scan(step, env.reset(first, params), keys)[1].sum(0)

    return jax.vmap(game)(jax.random.split(key, NUM_GAMES))


def assert_within_three_standard_errors(returns, expected):
    error = returns.std(axis=0) / np.sqrt(len(returns))
    assert (np.abs(returns.mean(axis=0) - expected) < 3 * error + 1e-9).all()


@pytest.mark.parametrize("match", MATCHES)
def test_simulated_value_is_the_exact_one(match):
    red, blue, expected = MATCHES[match]
    returns = np.asarray(episode_returns(jax.random.key(0), table(red), table(blue)))
    assert_within_three_standard_errors(returns, expected)


def test_random_players_earn_nothing_on_average():
    env = CoinGame(STEPS)
    params = env.default_params

    def step(state, key):
        actions = jax.random.randint(jax.random.fold_in(key, 2**20), (2,), 0, 5)
        _, state, rewards, _, _ = env.step(key, state, tuple(actions), params)
        return state, jnp.stack(rewards)

    @jax.jit
    @jax.vmap
    def game(key):
        first, then = jax.random.split(key)
        state = env.reset(first, params)[1]
        return jax.lax.scan(step, state, jax.random.split(then, STEPS))[1].sum(0)

    returns = np.asarray(game(jax.random.split(jax.random.key(1), NUM_GAMES)))
    assert_within_three_standard_errors(returns, 0.0)


# One coin: 162 views, digits (whose coin, the other's cell, the coin's cell).


def always_defect(me, other, coin, foreign):
    return walk(offset(me, coin))


def always_cooperate(me, other, coin, foreign):
    towards = walk(offset(me, coin))
    return towards ^ 1 if foreign else towards  # 0, 1 and 2, 3 are opposite


def one_coin_table(policy):
    views = itertools.product((False, True), CELLS, CELLS)
    return np.array(
        [policy(MIDDLE, other, coin, foreign) for foreign, other, coin in views],
        np.int32,
    )


@jax.jit
def one_coin_returns(key, red_table, blue_table):
    from paxenv.envs import coin_presets

    env, _ = coin_presets.make(
        "pola2022", observation="index", egocentric=True, view="swapped"
    )
    return play(env, key, red_table, blue_table)


@pytest.mark.parametrize(
    ("red", "blue", "expected", "tolerance"),
    [
        (always_cooperate, always_cooperate, (0.333, 0.333), 0.005),
        (always_defect, always_cooperate, (0.622, -0.260), 0.02),
        (always_defect, always_defect, (0.0, 0.0), 0.01),
    ],
)
def test_one_coin_reward_a_step_of_cooperators_and_defectors(
    red, blue, expected, tolerance
):
    returns = one_coin_returns(
        jax.random.key(2), one_coin_table(red), one_coin_table(blue)
    )
    mean = np.asarray(returns).mean(axis=0) / 50
    np.testing.assert_allclose(mean, expected, atol=tolerance)
