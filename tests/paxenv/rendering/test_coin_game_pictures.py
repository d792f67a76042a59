"""Pictures of the coin game, as pixels and as text."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv.environment import EnvState, Frame
from paxenv.envs import coin_presets, coin_rules
from paxenv.envs.coin_game import CoinGame, CoinState
from paxenv.envs.coin_rules import Board, CoinRules

RED, BLUE = (205, 40, 40), (40, 80, 205)
RED_COIN, BLUE_COIN = (245, 130, 130), (130, 165, 245)


def frame_of(board, actions=None, rewards=None):
    board = jax.tree.map(lambda x: jnp.asarray(x, jnp.int32), board)
    rules = CoinRules(coins="per_player" if len(board.coins) == 2 else "single")
    game = CoinState(board=np.asarray(coin_rules.pack(rules, board)))
    state = EnvState(np.int32(3), np.int32(0), np.int32(3), game)
    return Frame(state, None, actions, rewards, None)


def centres(picture, colour):
    """Returns the cells, as drawn, that hold pixels of a colour."""
    rows, columns = np.nonzero((picture == colour).all(axis=-1))
    return set(zip((rows // 32).tolist(), (columns // 32).tolist(), strict=True))


def test_picture_shows_everything_in_its_cell_with_row_0_at_the_bottom():
    picture = CoinGame().render_rgb(
        frame_of(Board(((0, 0), (1, 2)), ((2, 1), (1, 2)), 0))
    )
    assert picture.shape == (96, 96, 3)
    assert picture.dtype == np.uint8
    assert centres(picture, RED) == {(2, 0)}
    assert centres(picture, BLUE) == {(1, 2)}
    assert centres(picture, RED_COIN) == {(0, 1)}
    assert centres(picture, BLUE_COIN) == {(1, 2)}


def test_picture_changes_when_a_player_moves():
    """Uint8 [height, width, 3], and another picture after a move."""
    env = CoinGame()
    before = env.render_rgb(frame_of(Board(((0, 0), (1, 2)), ((2, 1), (1, 2)), 0)))
    after = env.render_rgb(frame_of(Board(((0, 1), (1, 2)), ((2, 1), (1, 2)), 0)))
    assert (before != after).any()


def test_nothing_hides_anything_when_all_share_a_cell():
    picture = CoinGame().render_rgb(frame_of(Board(((1, 1),) * 2, ((1, 1),) * 2, 0)))
    for colour in (RED, BLUE, RED_COIN, BLUE_COIN):
        assert centres(picture, colour) == {(1, 1)}


@pytest.mark.parametrize(("colour", "shown"), [(0, RED_COIN), (1, BLUE_COIN)])
def test_single_coin_has_its_colour(colour, shown):
    env, _ = coin_presets.make("lola2018")
    picture = env.render_rgb(frame_of(Board(((0, 0), (2, 2)), ((1, 1),), colour)))
    assert centres(picture, shown) == {(1, 1)}
    hidden = RED_COIN if shown == BLUE_COIN else BLUE_COIN
    assert centres(picture, hidden) == set()


def test_text_shows_the_grid_and_the_last_step():
    frame = frame_of(
        Board(((0, 0), (1, 2)), ((2, 1), (1, 2)), 0),
        actions=(2, 4),
        rewards=(1.0, -2.0),
    )
    assert CoinGame().render_ansi(frame) == "\n".join(
        [
            "+----+----+----+",
            "|....|..r.|....|",
            "+----+----+----+",
            "|....|....|.B.b|",
            "+----+----+----+",
            "|R...|....|....|",
            "+----+----+----+",
            "step 3/16",
            "red: up, reward 1",
            "blue: stay, reward -2",
        ]
    )


@pytest.mark.slow
def test_pictures_need_no_plotting_library(run_python):
    """Neither making a game, nor playing it, nor its picture loads one."""
    printed = run_python(
        "import sys, jax\n"
        "from paxenv.environment import Frame\n"
        "from paxenv.envs.coin_game import CoinGame\n"
        "env = CoinGame()\n"
        "obs, state = env.reset(jax.random.key(0), env.default_params)\n"
        "frame = Frame(jax.device_get(state), obs, None, None, None)\n"
        "picture = env.render_rgb(frame)\n"
        "print(picture.shape, sorted({'matplotlib', 'PIL'} & set(sys.modules)))\n"
    )
    assert printed.strip() == "(96, 96, 3) []"


def test_a_batch_of_games_has_no_picture():
    frame = frame_of(Board(((0, 0), (1, 2)), ((2, 1), (1, 2)), 0))
    state = jax.tree.map(lambda x: np.stack([x, x]), frame.state)
    with pytest.raises(ValueError, match="batch of games"):
        CoinGame().render_rgb(frame._replace(state=state))
