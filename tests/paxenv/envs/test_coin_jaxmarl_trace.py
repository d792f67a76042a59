"""The preset `jaxmarl0.2` against a game that JaxMARL 0.2.0 itself played.

Recorded from the wheel `jaxmarl==0.2.0` (jax 0.10.2, CPU) with
`CoinGame(num_inner_steps=10, num_outer_steps=6)`, `reset(jax.random.key(0))` and
`step_env(jax.random.fold_in(jax.random.key(1000), t), ...)` for t = 0..59, where the
actions were drawn so that coins are taken often: 60 pick-ups, some of both coins at
once, some of one coin by both players, some in the last step of an inner episode.
Cells are `3 * row + column`. A row is red's action, blue's action, then after the step
the cells of red, blue, the red coin and the blue coin, then red's and blue's reward.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv.envs import coin_presets, coin_rules
from paxenv.envs.coin_game import CoinGame

OPENING = (7, 3, 6, 4)
# fmt: off
ROWS = (
    (3, 1, 4, 5, 6, 1, 1, -2), (0, 1, 5, 4, 6, 1, 0, 0), (1, 3, 4, 1, 6, 3, 0, 1),
    (1, 4, 3, 1, 6, 4, 1, -2), (0, 1, 4, 0, 6, 0, 1, -2), (0, 4, 5, 0, 6, 1, 0, 1),
    (2, 2, 8, 3, 6, 1, 0, 0), (0, 0, 6, 4, 6, 1, 1, 0), (0, 1, 7, 3, 6, 1, 0, 0),
    (1, 0, 4, 0, 5, 8, 0, 0), (0, 1, 5, 2, 6, 8, 1, 0), (2, 2, 8, 5, 6, 3, 1, -2),
    (0, 0, 6, 3, 7, 1, 1, 1), (0, 2, 7, 6, 1, 1, 1, 0), (2, 0, 1, 7, 1, 5, 2, -2),
    (4, 2, 1, 1, 7, 5, -1, 1), (1, 0, 0, 2, 7, 5, 0, 0), (3, 4, 6, 2, 7, 5, 0, 0),
    (2, 1, 0, 1, 7, 5, 0, 0), (1, 1, 4, 6, 1, 4, 0, 0), (4, 0, 4, 7, 1, 5, 1, -2),
    (0, 2, 5, 1, 1, 1, -1, -1), (3, 4, 2, 1, 0, 4, -2, 2), (2, 2, 5, 4, 0, 5, 0, 1),
    (0, 0, 3, 5, 0, 7, 0, 1), (0, 1, 4, 4, 0, 7, 0, 0), (1, 1, 3, 3, 0, 7, 0, 0),
    (3, 0, 0, 4, 4, 7, 1, 0), (0, 2, 1, 7, 4, 4, 0, 1), (2, 3, 8, 2, 0, 7, 0, 0),
    (1, 4, 7, 2, 0, 7, 1, -2), (1, 1, 6, 1, 0, 7, 0, 0), (2, 3, 0, 7, 8, 1, 1, 1),
    (1, 2, 2, 1, 8, 8, 0, 1), (3, 4, 8, 1, 4, 0, 2, -2), (0, 2, 6, 4, 1, 0, -2, 1),
    (4, 1, 6, 3, 1, 0, 0, 0), (4, 3, 6, 0, 1, 4, 0, 1), (0, 0, 7, 1, 4, 4, -2, 1),
    (2, 4, 8, 4, 7, 4, 0, 0), (1, 2, 7, 7, 2, 4, -1, 1), (3, 1, 4, 6, 2, 4, 1, -2),
    (0, 1, 5, 8, 2, 4, 0, 0), (4, 1, 5, 7, 2, 4, 0, 0), (3, 2, 2, 1, 7, 4, 1, 0),
    (1, 2, 1, 4, 7, 3, 0, 1), (1, 2, 0, 7, 0, 3, -2, 1), (4, 4, 0, 7, 5, 3, 1, 0),
    (1, 4, 2, 7, 5, 3, 0, 0), (0, 0, 0, 4, 6, 3, 0, 0), (0, 1, 1, 3, 6, 1, 0, 1),
    (4, 2, 1, 6, 7, 2, -1, -1), (0, 0, 2, 7, 3, 6, -1, -1), (2, 1, 5, 6, 3, 6, 0, 1),
    (0, 4, 3, 6, 8, 6, 1, 1), (4, 1, 3, 8, 6, 6, -2, 1), (2, 2, 6, 2, 1, 6, 2, -2),
    (4, 1, 6, 1, 2, 1, -1, -1), (1, 4, 8, 1, 2, 0, 0, 1), (0, 1, 5, 5, 6, 1, 0, 0),
)
# fmt: on
# Entries that are 1 in (red's, blue's) observation after step t.
LIT = {
    0: ((7, 16, 21, 26), (6, 17, 20, 27)),
    9: ((1, 16, 22, 35), (0, 17, 23, 34)),
    30: ((2, 9, 28, 31), (3, 8, 29, 30)),
}


def recorded_chance(cells):
    """Returns draws that put everything where the recorded game had it."""
    red, blue, red_coin, blue_coin = (jnp.asarray(c, jnp.int32) for c in cells)
    coins = ((red_coin,), (blue_coin,))
    zero = jnp.zeros((), jnp.int32)
    return coin_rules.Draws((red, blue), coins, zero, coins, zero)


@pytest.fixture(scope="module")
def replayed():
    """Returns the opening cells and, stacked over steps, what our preset did."""
    env, params = coin_presets.make("jaxmarl0.2", num_outer_steps=6)
    rows = np.array(ROWS, np.int32)

    def cells(state):
        board = coin_rules.unpack(env.rules, state.game.board)
        return jnp.stack([3 * r + c for r, c in (*board.players, *board.coins)])

    def step(state, row):
        draws = recorded_chance(row[2:6])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CoinGame, "draw", lambda self, key: draws)
            obs, state, rewards, done, info = env.step(
                jax.random.key(0), state, (row[0], row[1]), params
            )
        return state, (obs, cells(state), jnp.stack(rewards), done, info)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoinGame, "draw", lambda self, key: recorded_chance(OPENING))
        _, state = env.reset(jax.random.key(0), params)
    return cells(state), jax.lax.scan(step, state, rows)[1]


def test_recorded_positions_are_reproduced(replayed):
    opening, (_, cells, _, _, _) = replayed
    recorded = np.array(ROWS)[:, 2:6]
    assert opening.tolist() == list(OPENING)
    # Of the trial's last step the recorded game shows the next board, ours the last.
    np.testing.assert_array_equal(cells[:-1], recorded[:-1])


def test_recorded_rewards_are_reproduced_and_boundary_ones_are_zero(replayed):
    _, (_, _, rewards, _, info) = replayed
    np.testing.assert_array_equal(rewards, np.array(ROWS)[:, 6:8])
    boundary = np.arange(60) % 10 == 9
    taken = info["metrics"]["own_coins"] + info["metrics"]["other_coins"]
    assert np.asarray(taken)[boundary].sum() == 6  # taken there, and not paid for
    assert np.asarray(taken).sum() == 60
    np.testing.assert_array_equal(info["inner_done"], boundary)


def test_recorded_end_of_the_trial_is_reproduced(replayed):
    _, (_, _, _, done, info) = replayed
    np.testing.assert_array_equal(done, np.arange(60) == 59)
    np.testing.assert_array_equal(info["terminated"], info["inner_done"])


@pytest.mark.parametrize("t", LIT)
def test_recorded_observations_are_reproduced(replayed, t):
    _, (obs, _, _, _, _) = replayed
    for player in range(2):
        np.testing.assert_array_equal(np.flatnonzero(obs[player][t]), LIT[t][player])
