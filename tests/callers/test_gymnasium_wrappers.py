"""Gymnasium's own wrappers, around one game and around many."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import (
    FlattenObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    TimeAwareObservation,
    TimeLimit,
    vector,
)

SIZES: dict[str, Any] = {"num_inner_steps": 3, "opponent": "AllC"}


def test_statistics_of_an_episode_are_its_rewards_and_steps() -> None:
    env = RecordEpisodeStatistics(gymnasium.make("pax/IPD-v0", **SIZES))
    for _ in range(2):
        env.reset(seed=0)
        infos = [env.step(0)[-1] for _ in range(3)]
        assert (infos[-1]["episode"]["r"], infos[-1]["episode"]["l"]) == (-3.0, 3)
        assert "episode" not in infos[0]
        assert infos[-1]["episode_metrics/welfare"] == -6.0


def test_a_time_limit_cuts_a_trial_and_the_next_begins_anew() -> None:
    env = TimeLimit(gymnasium.make("pax/IPD-v0", **SIZES), 2)
    for _ in range(2):
        env.reset(seed=0)
        assert [env.step(0)[2:4] for _ in range(2)] == [(False, False), (False, True)]
    assert env.spec is not None
    assert env.spec.max_episode_steps == 2


def test_observations_can_be_flattened_and_know_the_time() -> None:
    env = TimeAwareObservation(
        FlattenObservation(gymnasium.make("pax/CoinGame-v0", num_inner_steps=3))
    )
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    assert env.observation_space.contains(env.step(0)[0])


def test_rewards_can_be_normalised() -> None:
    env = NormalizeReward(gymnasium.make("pax/IPD-v0", **SIZES))
    env.reset(seed=0)
    assert np.isfinite([float(env.step(0)[1]) for _ in range(3)]).all()


def test_statistics_of_many_games_are_those_of_each() -> None:
    for mode in ("NextStep", "SameStep"):
        envs = vector.NormalizeReward(
            vector.RecordEpisodeStatistics(
                gymnasium.make_vec(
                    "pax/IPD-v0", num_envs=2, autoreset_mode=mode, **SIZES
                )
            )
        )
        envs.reset(seed=0)
        for _ in range(3):
            *_, infos = envs.step(np.array([0, 1]))
        assert infos["episode"]["r"].tolist() == [-3.0, 0.0]
        assert infos["episode"]["l"].tolist() == [3, 3]


def test_observations_of_many_games_can_be_transformed() -> None:
    envs = vector.TransformObservation(
        gymnasium.make_vec("pax/IPD-v0", num_envs=2, **SIZES), lambda obs: obs * 2
    )
    assert envs.reset(seed=0)[0].tolist() == [[0, 0, 0, 0, 2]] * 2
    assert envs.step(np.zeros(2, int))[0].tolist() == [[2, 0, 0, 0, 0]] * 2
