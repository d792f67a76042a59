"""Pictures of matrix games show the play, and refuse a batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv.environment import Frame
from paxenv.envs import (
    infinite_matrix_game,
    iterated_matrix_game,
    iterated_tensor_game,
)
from paxenv.rendering import pixels

KEY = jax.random.key(0)
DEFECT = jnp.full(5, -20.0)
GAMES = {
    "ipd": (iterated_matrix_game, {}, ((0, 1), (1, 1))),
    "rps": (iterated_matrix_game, {"game": "RPS"}, ((0, 2), (1, 2))),
    "large": (
        iterated_matrix_game,
        {"payoff": np.zeros((9, 9, 2))},
        ((0, 8), (8, 0)),
    ),
    "counts": (iterated_tensor_game, {}, ((0, 1, 1), (0, 0, 0))),
    "tensor": (
        iterated_tensor_game,
        {"payoff": np.ones((2, 2, 2, 3))},
        ((0, 1, 1), (0, 0, 0)),
    ),
    "twelve": (
        iterated_tensor_game,
        {"num_players": 12, "observation": "index"},
        ((0,) * 12, (0,) * 11 + (1,)),
    ),
    "infinite": (
        infinite_matrix_game,
        {},
        ((-DEFECT, DEFECT), (DEFECT, DEFECT)),
    ),
}


def frame_after(module, options, actions=None):
    env, params = module.make(num_outer_steps=2, **options)
    obs, state = env.reset(KEY, params)
    if actions is None:
        return env, Frame(state, obs, None, None, params)
    obs, state, rewards, _, _ = env.step(KEY, state, actions, params)
    return env, Frame(state, obs, actions, rewards, params)


@pytest.mark.parametrize("name", GAMES)
def test_pictures_and_texts_change_with_the_actions(name):
    module, options, plays = GAMES[name]
    shots = [frame_after(module, options, play) for play in (None, *plays)]
    pictures = [env.render_rgb(frame) for env, frame in shots]
    texts = [env.render_ansi(frame) for env, frame in shots]
    for picture in pictures:
        assert picture.dtype == np.uint8
        assert picture.shape == pictures[0].shape
        assert picture.shape[2] == 3
    assert np.any(pictures[0] != pictures[1])
    assert np.any(pictures[1] != pictures[2])
    assert len(set(texts)) == 3


def test_the_text_of_a_matrix_game_marks_the_cell():
    env, frame = frame_after(iterated_matrix_game, {}, (0, 1))
    assert env.render_ansi(frame).splitlines() == [
        "player 1 \\ player 2",
        "      C       D",
        " C  -1, -1 [-3, 0]",
        " D  0, -3   -2, -2",
        "player 1: C   reward -3",
        "player 2: D   reward 0",
        "step 1/100  episode 1/2",
    ]


def test_the_text_of_an_n_player_game_marks_what_was_paid():
    env, frame = frame_after(iterated_tensor_game, {}, (0, 1, 1))
    assert env.render_ansi(frame).splitlines() == [
        "player 1: C   reward 0",
        "player 2: D   reward 3",
        "player 3: D   reward 3",
        "0 others defect:  C       4   D       5",
        "1 others defect:  C       2   D      [3]",
        "2 others defect:  C      [0]  D       1",
        "step 1/100  episode 1/2",
    ]


def test_the_text_right_after_a_reset_has_no_play():
    env, frame = frame_after(iterated_matrix_game, {})
    text = env.render_ansi(frame)
    assert "[" not in text
    assert "step 0/100" in text


def test_only_the_played_cell_is_highlighted():
    for play in ((0, 0), (0, 1), (1, 0), (1, 1)):
        env, frame = frame_after(iterated_matrix_game, {}, play)
        marked = np.all(env.render_rgb(frame) == pixels.HIGHLIGHT, axis=-1)
        rows, columns = np.nonzero(marked)
        picture_middle = 48 + 56, 48 + 152
        assert (rows.mean() > picture_middle[0]) == bool(play[0])
        assert (columns.mean() > picture_middle[1]) == bool(play[1])


@pytest.mark.parametrize("name", ["ipd", "counts", "infinite"])
def test_a_batch_of_games_is_refused_with_the_fix(name):
    module, options, plays = GAMES[name]
    env, frame = frame_after(module, options, plays[0])
    batch = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * 3), frame)
    for render in (env.render_ansi, env.render_rgb):
        with pytest.raises(ValueError, match=r"shape \(3,\); pick one by index"):
            render(batch)


def test_wide_numbers_fit_their_cells():
    payoff = [[-0.07143, -12345], [0, 0], [0, 0], [0, 0]]
    env, frame = frame_after(iterated_matrix_game, {"payoff": payoff}, (1, 1))
    picture = env.render_rgb(frame)
    inked = np.all(picture[48 : 48 + 56] == pixels.PLAYERS[0], axis=-1)
    assert np.nonzero(inked.any(axis=0))[0][-1] < picture.shape[1] - 24


def test_every_letter_and_digit_is_drawn():
    for character in "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+.,/()=:":
        unknown, known = pixels.blank(9, 9), pixels.blank(9, 9)
        pixels.write(unknown, 0, 0, "?", scale=1)
        pixels.write(known, 0, 0, character, scale=1)
        assert np.any(known != unknown)
        assert np.any(known != 255)
