"""A row of several iterations: what is summed, what is weighted, what is the last."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv_agents.engine.stream import Rollout
from runners.engine.joined_rows import JoinedRows
from runners.engine.rows import FINITE, LATEST, RETURNS, TOTALS, latest_episodes

NAN = math.nan


def rows_of(**columns):
    """Returns rows of one seed; `__` stands for a slash."""
    return {
        name.replace("__", "/"): np.float32([values])
        for name, values in columns.items()
    }


#: One, none and three episodes.
THREE = rows_of(
    episode__count=[1, 0, 3],
    episode__length=[5, NAN, 9],
    episode__return__player_1=[1, NAN, 5],
    episode__return_min__player_1=[1, NAN, 2],
    episode__return_max__player_1=[1, NAN, 7],
    episode__reward_per_step__player_1=[0.2, NAN, 5 / 9],
    reward_components__goal=[2, NAN, 6],
    rollout__reward__player_1=[0, 1, 5],
    train__player_1__loss__total=[9, 8, 7],
    health__finite=[1, 0, 1],
)


def numbers(row):
    return {name: float(x[0]) for name, x in row.items()}


def split(rows, *ends):
    starts = (0, *ends[:-1])
    return [
        {name: x[:, a:b] for name, x in rows.items()}
        for a, b in zip(starts, ends, strict=True)
    ]


def test_means_are_over_all_episodes_since_the_last_row():
    joined = JoinedRows()
    joined.add(THREE)
    assert numbers(joined.take()) == pytest.approx(
        {
            "episode/count": 4,
            "episode/length": (5 + 3 * 9) / 4,
            "episode/return/player_1": (1 + 3 * 5) / 4,
            "episode/return_min/player_1": 1,
            "episode/return_max/player_1": 7,
            "episode/reward_per_step/player_1": (1 + 3 * 5) / (5 + 3 * 9),
            "reward_components/goal": (2 + 3 * 6) / 4,
            "rollout/reward/player_1": 2,
            "train/player_1/loss/total": 7,
            FINITE: 0,
        }
    )
    assert joined.length == 0


def test_a_row_of_one_iteration_is_that_iteration():
    joined = JoinedRows()
    (first, *_) = split(THREE, 1, 2, 3)
    joined.add(first)
    assert joined.take() == {name: x[:, 0] for name, x in first.items()}


def test_where_no_episode_has_ended_means_are_nan_and_the_next_row_is_its_own():
    joined = JoinedRows()
    _, second, third = split(THREE, 1, 2, 3)
    joined.add(second)
    joined.add(second)
    row = numbers(joined.take())
    assert row["episode/count"] == 0
    assert all(math.isnan(row[n]) for n in row if n.startswith("episode/r"))
    joined.add(third)
    assert numbers(joined.take())["episode/return/player_1"] == 5


def test_a_return_that_went_wrong_is_not_hidden():
    joined = JoinedRows()
    names = ("return", "return_min", "return_max")
    bad = {f"episode__{n}__player_1": [1, NAN, 2] for n in names}
    joined.add(rows_of(episode__count=[1, 1, 1], episode__length=[1, 1, 1], **bad))
    row = numbers(joined.take())
    assert all(math.isnan(row[f"episode/{n}/player_1"]) for n in names)


def test_a_loss_is_of_the_last_update_that_took_a_gradient_step():
    joined = JoinedRows()
    rows = rows_of(
        train__player_1__gradient_steps=[0, 2, 0, 0],
        train__player_1__loss__q=[NAN, 4, NAN, NAN],
        train__player_1__replay_size=[1, 2, 3, 4],
    )
    for part in split(rows, 1, 2, 3, 4):
        joined.add(part)
    assert numbers(joined.take()) == {
        "train/player_1/gradient_steps": 2,
        "train/player_1/loss/q": 4,
        "train/player_1/replay_size": 4,
    }


def test_statistics_of_a_game_follow_from_all_its_counts():
    """Two steps of ten with one cooperation in the first, nine of ten in the second."""
    env, _ = paxenv.make("IPD")
    joined = JoinedRows(env)
    visits, hits = np.zeros((1, 2, 2, 5)), np.zeros((1, 2, 2, 5))
    visits[..., 0], hits[0, :, :, 0] = [[10, 10]], [[1, 1], [9, 9]]
    count = {"episode/count": np.float32([[1, 1]])}
    joined.add({**count, f"{TOTALS}0": hits, f"{TOTALS}1": visits})
    row = numbers(joined.take())
    assert row["env/cooperation_rate/player_1"] == 0.5
    assert row["env/cooperation_probability/player_2/CC"] == 0.5
    assert not [name for name in row if name.startswith(TOTALS)]


def test_counts_of_steps_without_an_end_are_kept_for_the_row_that_has_one():
    env, _ = paxenv.make("IPD")
    joined, rates = JoinedRows(env), []
    for ended, hit in ((0, 1), (1, 0), (1, 1)):
        counts = np.zeros((1, 1, 2, 5))
        counts[..., 0] = 1
        row = {f"{TOTALS}0": hit * counts, f"{TOTALS}1": counts}
        row["env/cooperation_rate/player_1"] = np.float32([[hit]])
        joined.add({"episode/count": np.float32([[ended]]), **row})
        rates.append(numbers(joined.take())["env/cooperation_rate/player_1"])
    assert rates == [1.0, 0.5, 1.0]


def latest_rows(*iterations):
    """Returns rows of one seed whose iterations ended these (return, length)s."""
    rows = np.full((1, len(iterations), 100, 2), NAN, np.float32)
    for i, ended in enumerate(iterations):
        if ended:
            rows[0, i, -len(ended) :] = ended
    return {LATEST: rows, "episode/count": np.float32([[len(e) for e in iterations]])}


def window_of(joined):
    latest = joined.latest()
    return (
        latest["episode/return_last_100/player_1"].item(),
        latest["episode/length_last_100"].item(),
    )


def test_the_last_100_episodes_are_known_from_the_first_end_on():
    joined = JoinedRows()
    joined.add(latest_rows([]))
    assert np.isnan(window_of(joined)).all()
    joined.add(latest_rows([], [(1, 2)], [(3, 4), (8, 9)]))
    assert window_of(joined) == (4, 5)
    joined.take()
    joined.add(latest_rows([]))
    assert window_of(joined) == (4, 5)
    joined.add(latest_rows([(10, 1)] * 98))
    assert window_of(joined) == pytest.approx(((98 * 10 + 11) / 100, 1.11))


def play_of(returns, lengths):
    """Returns a rollout of one opponent; both are `[T][games]`."""
    nothing = dict.fromkeys(Rollout._fields)
    returns = jnp.array(returns, jnp.float32)[None, ..., None]
    nothing |= {"returns": returns, "lengths": jnp.array(lengths)[None]}
    return Rollout(**nothing)


def test_the_last_episodes_of_a_rollout_are_in_the_order_of_time():
    play = play_of([[NAN, 7], [NAN, NAN], [5, 6]], [[0, 1], [0, 0], [3, 2]])
    latest = np.asarray(latest_episodes(play))
    assert latest.shape == (100, 2)
    assert latest[-3:].tolist() == [[7, 1], [5, 3], [6, 2]]
    assert np.isnan(latest[:-3]).all()


def test_of_many_episodes_the_last_are_kept():
    returns = np.arange(240.0).reshape(120, 2)
    latest = np.asarray(latest_episodes(play_of(returns, np.ones((120, 2), int))))
    assert latest[:, 0].tolist() == list(range(140, 240))


@pytest.mark.parametrize("saved_after", range(1, 7))
def test_neither_the_way_that_rows_arrive_nor_a_checkpoint_changes_a_bit(saved_after):
    random = np.random.default_rng(0)
    count = random.integers(0, 3, (2, 7)).astype(np.float32)
    mean = np.where(count > 0, random.normal(size=(2, 7)), NAN).astype(np.float32)
    rows = {
        "episode/count": count,
        "episode/length": np.where(count > 0, 3, NAN).astype(np.float32),
        "episode/return/player_1": mean,
        "episode/return_min/player_1": mean - 1,
        "rollout/reward/player_1": random.normal(size=(2, 7)).astype(np.float32),
        LATEST: random.normal(size=(2, 7, 100, 2)).astype(np.float32),
    }
    whole, first, second = JoinedRows(), JoinedRows(), JoinedRows()
    whole.add(rows)
    for part in split(rows, *range(1, saved_after + 1)):
        first.add(part)
    text = json.dumps(first.saved(), allow_nan=False)
    second.load(json.loads(text))
    second.add({name: x[:, saved_after:] for name, x in rows.items()})
    assert first.length == saved_after
    wanted, got = whole.take(), second.take()
    assert list(wanted) == list(got)
    for name, x in wanted.items():
        np.testing.assert_array_equal(x, got[name], err_msg=name)


def test_what_is_saved_does_not_grow():
    joined, sizes = JoinedRows(), []
    for _ in range(3):
        joined.add({**THREE, **latest_rows(*[[(1, 1)] * 40] * 3)})
        sizes.append(len(json.dumps(joined.saved())))
    assert sizes[1] == sizes[2]


def test_returns_of_single_episodes_are_no_metric():
    joined = JoinedRows()
    joined.add({**THREE, RETURNS: np.zeros((1, 3, 2, 2))})
    assert RETURNS not in joined.take()
