"""Coin policies against rules written down a second time, over all boards."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv.envs import coin_rules
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.single_player import SinglePlayer
from paxenv_agents import PairingError, make_agent
from paxenv_agents.strategies.coin import Dodger, OwnCoin

# Every board as red, blue, red coin, blue coin in cells `row * 3 + column`.
BOARDS = np.array(list(itertools.product(range(9), repeat=4)))
EGOCENTRIC = BOARDS[BOARDS[:, 0] == 4]
PAX_MAP = {
    (0, 0): 4,
    (0, 1): 0,
    (0, -1): 1,
    (1, 0): 2,
    (-1, 0): 3,
    (1, 1): 2,
    (1, -1): 1,
    (-1, 1): 0,
    (-1, -1): 3,
}
STEPS = [(0, 1), (0, -1), (1, 0), (-1, 0), (0, 0)]


def way(start, end):
    """Returns the shortest way on the 3x3 torus as (rows, columns) in -1, 0, 1."""
    rows, columns = end // 3 - start // 3, end % 3 - start % 3
    return (rows + 1) % 3 - 1, (columns + 1) % 3 - 1


def length(offset):
    return abs(offset[0]) + abs(offset[1])


def column_first(offset):
    if offset[1]:
        return 0 if offset[1] == 1 else 1
    return {1: 2, -1: 3, 0: 4}[offset[0]]


def row_first(offset):
    if offset[0]:
        return 2 if offset[0] == 1 else 3
    return {1: 0, -1: 1, 0: 4}[offset[1]]


def dodger(own, other):
    def left(action):
        rows, columns = own[0] - STEPS[action][0], own[1] - STEPS[action][1]
        return abs((rows + 1) % 3 - 1) + abs((columns + 1) % 3 - 1)

    best = [a for a in range(5) if left(a) == max(length(own) - 1, 0)]
    return next((a for a in best if STEPS[a] != other), best[0])


def nearest(own, other, tie_to_own, move):
    near_own = length(own) < length(other)
    near_own |= length(own) == length(other) and tie_to_own
    return move(own if near_own else other)


RULES = {
    ("OwnCoin", ()): lambda own, other: column_first(own),
    ("OwnCoin", (("walk", "row_first"),)): lambda own, other: row_first(own),
    ("OwnCoin", (("walk", "pax"),)): lambda own, other: PAX_MAP[own],
    ("Dodger", ()): dodger,
    ("AnyCoin", ()): lambda a, b: nearest(a, b, True, column_first),
    ("AnyCoin", (("walk", "row_first"),)): lambda a, b: nearest(a, b, True, row_first),
    ("GoodGreedy", ()): lambda a, b: nearest(a, b, True, PAX_MAP.get),
    ("EvilGreedy", ()): lambda a, b: nearest(a, b, False, PAX_MAP.get),
    ("Stay", ()): lambda a, b: 4,
}


def observations(env, boards, player):
    """Returns what a player of `env` sees of each board, from the game itself."""

    def see(board):
        draws = coin_rules.Draws(
            starts=(board[0], board[1]),
            start_coins=((board[2],), (board[3],)),
            start_colour=jnp.int32(0),
            coins=((board[2],), (board[3],)),
            tie=jnp.int32(0),
        )
        return env.reset_game(draws, env.default_params)[0][player]

    return jax.jit(jax.vmap(see))(jnp.asarray(boards, jnp.int32))


def moves(agent, obs, seed=0):
    state, memory = agent.batch_init(
        jax.random.key(seed), agent.init_hidden(len(jax.tree.leaves(obs)[0]))
    )
    action = jax.jit(agent.batch_policy)(state, obs, memory)[0]
    assert action.dtype == jnp.int32
    return np.asarray(action)


@pytest.fixture(scope="module")
def egocentric_obs():
    return observations(CoinGame(16), EGOCENTRIC, player=0)


@pytest.mark.parametrize("case", RULES, ids=str)
def test_policy_follows_its_rule_on_all_729_boards(case, egocentric_obs):
    name, options = case
    agent = make_agent(name, CoinGame(16), **dict(options))
    expected = [
        RULES[case](way(own, coin), way(own, other_coin))
        for own, _, coin, other_coin in EGOCENTRIC
    ]
    assert moves(agent, egocentric_obs).tolist() == expected


VIEWS = [
    {"layout": "HWC"},
    {"layout": "CHW"},
    {"layout": "flat_CHW"},
    {"observation": "index"},
    {"egocentric": False},
    {"egocentric": False, "observation": "index"},
    {"egocentric": False, "view": "shared", "layout": "CHW"},
    {"egocentric": False, "view": "shared", "observation": "index"},
]


SOME_BOARDS = BOARDS[::13]


@pytest.fixture(scope="module", params=[0, 1])
def seat(request):
    """A player, and what Dodger does there on many boards in the default view."""
    env, player = CoinGame(16), request.param
    obs = observations(env, SOME_BOARDS, player)
    return player, moves(make_agent("Dodger", env, player), obs)


@pytest.mark.parametrize("options", VIEWS, ids=str)
def test_every_view_of_a_board_leads_to_the_same_move(options, seat):
    """Absolute observations are not read as egocentric ones."""
    player, expected = seat
    env = CoinGame(16, **options)
    obs = observations(env, SOME_BOARDS, player)
    got = moves(make_agent("Dodger", env, player), obs)
    np.testing.assert_array_equal(got, expected)


def test_blue_player_goes_for_the_blue_coin():
    env = CoinGame(16)
    # Blue stands in cell 0; the red coin is above it, the blue coin to its right.
    obs = observations(env, np.array([[8, 0, 3, 1]]), player=1)
    assert moves(make_agent("OwnCoin", env, player=1), obs).tolist() == [0]
    assert moves(make_agent("EvilGreedy", env, player=1), obs).tolist() == [2]


def test_tie_is_broken_both_ways_and_never_in_a_third(egocentric_obs):
    """Each lane flips its own coin, and moves towards one of the two coins."""
    agent = make_agent("RandomGreedy", CoinGame(16))
    drawn = np.stack([moves(agent, egocentric_obs, seed) for seed in range(20)])
    good = moves(make_agent("GoodGreedy", CoinGame(16)), egocentric_obs)
    evil = moves(make_agent("EvilGreedy", CoinGame(16)), egocentric_obs)
    assert ((drawn == good) | (drawn == evil)).all()
    tied = good != evil
    share = (drawn[:, tied] == good[tied]).mean()
    # About 20 * 200 fair draws: four standard errors are about 0.03.
    assert tied.sum() > 150
    assert abs(share - 0.5) < 0.04
    # Lanes are not all decided by one coin: shares within a seed vary little.
    assert np.abs((drawn[:, tied] == good[tied]).mean(1) - 0.5).max() < 0.16


def test_greedy_random_greedy_prefers_its_own_coin(egocentric_obs):
    agent = make_agent("RandomGreedy", CoinGame(16), greedy=True)
    good = make_agent("GoodGreedy", CoinGame(16))
    np.testing.assert_array_equal(
        moves(agent, egocentric_obs), moves(good, egocentric_obs)
    )


def test_policy_walks_the_shorter_way_round_a_larger_torus():
    env = CoinGame(16, height=5, width=7)
    # Red in cell 0; its coin in the last row and column: one down and one left.
    obs = observations(env, np.array([[0, 3, 34, 10], [0, 3, 3, 10]]), player=0)
    assert moves(OwnCoin.from_env(env, walk="row_first"), obs).tolist() == [3, 0]
    assert moves(OwnCoin.from_env(env), obs).tolist() == [1, 0]
    # Both ways round a ring of four are shortest: left only to dodge a coin.
    even = CoinGame(16, height=1, width=4)
    obs = observations(even, np.array([[0, 3, 2, 1], [0, 1, 2, 3]]), player=0)
    assert moves(Dodger.from_env(even), obs).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (IteratedMatrixGame(3), "coin game only, not IteratedMatrixGame"),
        (CoinGame(16, coins="single"), r"coins='per_player', got coins='single'"),
        (CoinGame(16, num_actions=4), r"num_actions=5, got num_actions=4"),
    ],
)
def test_game_without_a_meaning_for_the_rule_is_refused(env, message):
    """By name and by option."""
    with pytest.raises(PairingError, match=message):
        make_agent("GoodGreedy", env)


def test_wrapped_coin_game_is_read_at_the_seat_it_shows():
    env = CoinGame(16, egocentric=False, view="shared")
    wrapped = SinglePlayer(env, 1, (make_agent("Stay", env),))
    assert make_agent("OwnCoin", wrapped) == make_agent("OwnCoin", env, player=1)


@pytest.mark.parametrize(
    ("name", "options"), [("OwnCoin", {"walk": "x"}), ("AnyCoin", {"tie": "x"})]
)
def test_unknown_option_value_is_refused(name, options):
    with pytest.raises(ValueError, match=r"must be one of .* got 'x'"):
        make_agent(name, CoinGame(16), **options)
