"""The published coin games: traces worked by hand, and what a swap of colours does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv.envs import coin_presets, coin_rules
from paxenv.envs.coin_game import CoinGame, CoinState
from paxenv.envs.coin_rules import Board, Draws

RIGHT, LEFT, UP, DOWN, STAY = range(5)
ZERO = jnp.zeros((), jnp.int32)


def cells(*numbers):
    return tuple(jnp.asarray(n, jnp.int32) for n in numbers)


def follow(preset, opening, script, **options):
    """Plays scripted joint actions and chance; returns (env, steps).

    Args:
        preset: Name of the preset.
        opening: Draws of the first board.
        script: For each step (red's action, blue's action, draws).
        **options: Options that win over the preset's.
    """
    env, params = coin_presets.make(preset, **options)
    steps = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoinGame, "draw", lambda self, key: opening)
        obs, state = env.reset(jax.random.key(0), params)
        for red, blue, draws in script:
            patch.setattr(CoinGame, "draw", lambda self, key, d=draws: d)
            obs, state, rewards, done, info = env.step(
                jax.random.key(0), state, (red, blue), params
            )
            board = coin_rules.unpack(env.rules, state.game.board)
            places = (*board.players, *board.coins)
            where = [3 * int(r) + int(c) for r, c in places]
            paid = tuple(float(r) for r in rewards)
            steps.append((where, paid, int(board.colour), obs, done, info))
    return env, steps


def two_coins(red, blue, red_coin, blue_coin):
    """Returns draws of an opening, and of where taken coins reappear."""
    coins = tuple((cell,) for cell in cells(red_coin, blue_coin))
    return Draws(cells(red, blue), coins, ZERO, coins, ZERO)


def one_coin(red, blue, *candidates, colour=0):
    coins = (cells(*candidates),)
    return Draws(cells(red, blue), coins, jnp.asarray(colour), coins, ZERO)


def flags(info):
    return bool(info["terminated"]), bool(info["truncated"])


def test_pax_pays_the_last_step_and_truncates():
    """From the rules: red on cell 0, blue on 8, the red coin on 1, the blue on 2."""
    _, steps = follow(
        "pax",
        two_coins(0, 8, 1, 2),
        [
            (RIGHT, STAY, two_coins(0, 0, 5, 6)),  # red takes its own coin
            (RIGHT, UP, two_coins(0, 0, 7, 7)),  # both reach the blue coin on 2
            (STAY, RIGHT, two_coins(4, 4, 0, 3)),  # the last step: blue moves on to 0
        ],
        num_inner_steps=3,
    )
    assert [s[0] for s in steps] == [[1, 8, 5, 2], [2, 2, 5, 7], [2, 0, 5, 7]]
    # At 2, both earn 1 and blue loses 2 because red took a blue coin.
    assert [s[1] for s in steps] == [(1.0, 0.0), (1.0, -1.0), (0.0, 0.0)]
    assert [flags(s[5]) for s in steps] == [(False, False)] * 2 + [(False, True)]


@pytest.mark.parametrize(
    ("preset", "paid", "ends"),
    [
        ("pax", (1.0, -2.0), (False, True)),
        ("pax2022", (0.0, 0.0), (True, False)),
        ("jaxmarl0.2", (0.0, 0.0), (True, False)),
    ],
)
def test_a_coin_taken_in_the_last_step_pays_by_preset(preset, paid, ends):
    """From the rules: red walks from 0 to 1 and takes the blue coin there."""
    _, steps = follow(
        preset,
        two_coins(0, 8, 4, 1),
        [(RIGHT, STAY, two_coins(3, 6, 7, 5))],
        num_inner_steps=1,
        num_outer_steps=2,
    )
    where, rewards, _, _, done, info = steps[0]
    assert where == [3, 6, 7, 5]  # the next inner episode's board
    assert rewards == paid
    assert float(info["metrics"]["welfare"]) == sum(paid)
    assert info["metrics"]["other_coins"].tolist() == [1, 0]
    assert flags(info) == ends
    assert not done


def test_mfos_plays_one_step_less_and_the_last_step_is_the_reset():
    """From the rules: two steps of play, then a step that only redraws the board."""
    env, steps = follow(
        "mfos2022",
        two_coins(0, 8, 1, 2),
        [
            (RIGHT, STAY, two_coins(0, 0, 5, 0)),  # red takes its own coin
            (RIGHT, LEFT, two_coins(0, 0, 0, 6)),  # red takes blue's coin
            (UP, UP, two_coins(4, 4, 0, 3)),  # would be a move: is the reset
        ],
        num_inner_steps=3,
        num_outer_steps=2,
    )
    assert env.num_actions == 4
    assert [s[0] for s in steps] == [[1, 8, 5, 2], [2, 7, 5, 6], [4, 4, 0, 3]]
    assert [s[1] for s in steps] == [(1.0, 0.0), (1.0, -2.0), (0.0, 0.0)]
    # Planes: own reward, other's reward, whether the next step is the reset.
    planes = [[np.asarray(s[3][p])[4:, 0, 0].tolist() for p in (0, 1)] for s in steps]
    assert planes == [
        [[1, 0, 0], [0, 1, 0]],
        [[1, -2, 1], [-2, 1, 1]],
        [[0, 0, 0], [0, 0, 0]],
    ]
    lit = [tuple(x) for x in np.argwhere(np.asarray(steps[1][3][1])[:4])]
    assert lit == [(0, 2, 1), (1, 0, 2), (2, 2, 0), (3, 1, 2)]
    assert steps[1][3][0].shape == (7, 3, 3)


def test_lola_red_wins_ties_and_the_coin_alternates():
    """From the rules: one coin, red at first, on cell 1; red on 0, blue on 2."""
    env, steps = follow(
        "lola2018",
        one_coin(0, 2, 1, 3, 4),
        [
            (RIGHT, LEFT, one_coin(0, 0, 1, 4, 5)),  # both reach 1: red takes its own
            (UP, UP, one_coin(0, 0, 4, 7, 8)),  # both reach 4, now blue: red takes it
            (UP, DOWN, one_coin(0, 0, 1, 7, 2)),  # red alone reaches 7, red again
        ],
    )
    # A coin skips candidates with a player on: 1 to 4, then 4 to 7, then 1 and 7 to 2.
    assert [s[0] for s in steps] == [[1, 1, 4], [4, 4, 7], [7, 1, 2]]
    assert [s[1] for s in steps] == [(1.0, 0.0), (1.0, -2.0), (1.0, 0.0)]
    assert [s[2] for s in steps] == [1, 0, 1]
    # Both see the same planes: red, blue, a red coin, a blue coin.
    for red, blue in (s[3] for s in steps):
        np.testing.assert_array_equal(red, blue)
    lit = [tuple(x) for x in np.argwhere(steps[2][3][1])]
    assert lit == [(0, 2, 1), (1, 0, 1), (3, 0, 2)]
    assert env.observation_space(0).shape == (4, 3, 3)


def test_pola_pays_both_in_a_tie():
    """From the rules: as above, but both collect and may open on one cell."""
    _, steps = follow(
        "pola2022",
        one_coin(4, 4, 4, 5, 0),
        [
            (RIGHT, RIGHT, one_coin(0, 0, 5, 4, 1)),  # both reach 5: a red coin
            (LEFT, LEFT, one_coin(0, 0, 4, 0, 1)),  # both reach 4: a blue coin
            (UP, DOWN, one_coin(0, 0, 3, 6, 8)),  # nobody reaches the coin on 0
        ],
    )
    assert [s[0] for s in steps] == [[5, 5, 4], [4, 4, 0], [7, 1, 0]]
    # The other's pick-up costs the owner 2, also when both collect.
    assert [s[1] for s in steps] == [(-1.0, 1.0), (1.0, -1.0), (0.0, 0.0)]
    assert [s[2] for s in steps] == [1, 0, 0]
    lit = np.flatnonzero(steps[2][3][0]).tolist()
    assert lit == [7, 9 + 1, 18 + 0]  # planes one after the other


# Symmetry.


def swapped(board):
    """Returns the board with players and colours exchanged."""
    if len(board.coins) == 1:
        return Board(board.players[::-1], board.coins, 1 - board.colour)
    return Board(board.players[::-1], board.coins[::-1], board.colour)


@functools.cache
def both_ways(preset, num_games=512):
    """Returns one step of random games and of the same games with roles exchanged."""
    env, params = coin_presets.make(preset)

    def step(board, draws, actions):
        game = CoinState(
            board=coin_rules.pack(env.rules, board),
            played=jnp.zeros((), jnp.int32) if env.reset_consumes_step else (),
            last_rewards=jnp.zeros(2) if env.extra_planes else (),
        )
        obs, game, rewards, _, report = env.step_game(draws, game, actions, params)
        return obs, coin_rules.unpack(env.rules, game.board), rewards, report

    @jax.jit
    @jax.vmap
    def one(key):
        draws = env.draw(key)
        a = jax.random.randint(jax.random.fold_in(key, 2**20), (2,), 0, 4)
        board = coin_rules.opening(env.rules, draws)
        exchanged = draws._replace(coins=draws.coins[::-1])
        return step(board, draws, (a[0], a[1])), step(
            swapped(board), exchanged, (a[1], a[0])
        )

    return env, one(jax.random.split(jax.random.key(0), num_games))


SYMMETRIC = [name for name in coin_presets.PRESETS if name != "lola2018"]


@pytest.mark.parametrize("preset", SYMMETRIC)
def test_exchanging_players_and_colours_exchanges_everything(preset):
    env, ((obs, board, rewards, report), mirror) = both_ways(preset)
    np.testing.assert_array_equal(rewards, mirror[2][::-1])
    for name in ("own_coins", "other_coins"):
        np.testing.assert_array_equal(
            report[name], np.asarray(mirror[3][name])[:, ::-1]
        )
    same = jax.tree.map(lambda a, b: (a == b).all(), swapped(board), mirror[1])
    assert jax.tree.all(same)
    if env.view == "shared":  # both see red first: the exchange shows in the planes
        planes = np.asarray(obs[0]).reshape(-1, 4, 9)
        other = np.asarray(mirror[0][0]).reshape(-1, 4, 9)
        np.testing.assert_array_equal(planes[:, [1, 0, 3, 2]], other)
    else:
        np.testing.assert_array_equal(obs[0], mirror[0][1])
        np.testing.assert_array_equal(obs[1], mirror[0][0])
    assert (np.asarray(rewards) != 0).any(axis=0).sum() > 20


def test_lola_is_not_symmetric():
    _, ((_, _, rewards, _), mirror) = both_ways("lola2018", 4096)
    assert (np.asarray(rewards) != np.asarray(mirror[2][::-1])).any()


# Names and errors.


def test_every_preset_is_made_by_name_and_plays_its_published_length():
    lengths = {}
    for preset in coin_presets.PRESETS:
        env, params = paxenv.make("CoinGame-v0", preset=preset)
        lengths[preset] = (env.num_inner_steps, env.num_outer_steps)
        assert params.payoff_matrix.tolist() == [[1, 1, -2], [1, 1, -2]]
    assert lengths == {
        "pax": (16, 1),
        "pax2022": (16, 1),
        "jaxmarl0.2": (10, 10),
        "mfos2022": (16, 16),
        "lola2018": (150, 1),
        "pola2022": (50, 1),
    }


def test_options_win_over_the_preset():
    env, params = coin_presets.make(
        "lola2018",
        num_inner_steps=7,
        tie="both",
        payoff="[[2, 2, -4], [1, 1, -2]]",
        random_ends=True,
        continuation_prob=0.5,
    )
    assert (env.num_inner_steps, env.tie, env.coins) == (7, "both", "single")
    assert params.payoff_matrix.tolist() == [[2, 2, -4], [1, 1, -2]]
    assert float(params.continuation_prob) == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "lola2019"}, "did you mean 'lola2018'"),
        ({"preset": "chess"}, "presets: pax, pax2022, jaxmarl0.2"),
        ({"num_inner_step": 4}, "did you mean 'num_inner_steps'"),
        (
            {"payoff": [[-1, -1], [-3, 0], [0, -3], [-2, -2]]},
            r"2x3 such as \[\[1,1,-2\]",
        ),
        (
            {"payoff": [[1, 1, -2]] * 2, "payoff_matrix": [[1, 1, -2]] * 2},
            "one of them",
        ),
        ({"num_actions": 3}, r"num_actions must be one of \(4, 5\), got 3"),
        ({"layout": "NHWC"}, "layout must be one of"),
        ({"view": "mine"}, "view must be one of"),
        ({"view": "shared"}, "use egocentric=False"),
        ({"egocentric": "no"}, r"egocentric must be True or False"),
        ({"egocentric": 1}, r"egocentric must be True or False"),
        ({"boundary_reward": "drop"}, "boundary_reward must be one of"),
        ({"observation": "pixels"}, "observation must be one of"),
        ({"extra_planes": True}, "extra_planes needs reset_consumes_step=True"),
        ({"reset_consumes_step": True, "num_inner_steps": 1}, "num_inner_steps >= 2"),
        ({"preset": "mfos2022", "observation": "index"}, "rewards, which are no index"),
        (
            {"height": 16, "width": 16, "egocentric": False, "observation": "index"},
            'too many boards for observation="index"',
        ),
    ],
)
def test_bad_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        coin_presets.make(**options)


def test_payoff_of_a_wrong_shape_is_refused_when_traced():
    env = CoinGame()
    params = env.default_params.replace(payoff_matrix=jnp.zeros((4, 2)))
    _, state = env.reset(jax.random.key(0), params)
    with pytest.raises(ValueError, match=r"shape \(4, 2\) does not fit the coin game"):
        env.step(jax.random.key(0), state, (0, 0), params)
