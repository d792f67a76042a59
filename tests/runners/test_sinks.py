"""What every sink agrees on: numbers of any kind, axes, and what no episode stands
behind."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from runners.storage.sinks import mean_over_seeds, scalar, scalars, step_of


@pytest.mark.parametrize(
    "value",
    [
        *(1.5, np.float32(1.5), np.float64(1.5), np.array(1.5, np.float16)),
        *(jnp.float32(1.5), jnp.array(1.5), jnp.bfloat16(1.5)),
    ],
    ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', '')}",
)
def test_numbers_of_every_kind_are_taken(value):
    """Float32, bfloat16 and 0-d arrays are numbers like others."""
    number = scalar("x", value)
    assert type(number) is float
    assert number == 1.5


@pytest.mark.parametrize("value", [np.zeros(2), jnp.ones((1,)), [1.0]])
def test_an_array_is_refused_by_name(value):
    with pytest.raises(TypeError, match="loss/total must be one number, got an array"):
        scalar("loss/total", value)


def test_a_word_is_refused_by_name():
    with pytest.raises(TypeError, match="loss/total must be a number, got 'high'"):
        scalar("loss/total", "high")


EPISODES = {
    "episode/mean_reward": math.nan,
    "episode/return/player_1": 0.0,
    "reward_components/goal": math.nan,
    "env/cooperation_rate/player_1": math.nan,
    "train/player_1/loss/total": math.nan,
    "rollout/mean_reward": 0.5,
}


def test_without_an_ended_episode_there_is_no_return():
    """Neither 0 nor NaN is logged for a mean over no episodes."""
    named = scalars({"episode/count": 0, **EPISODES})
    assert list(named) == [
        "episode/count",
        "train/player_1/loss/total",
        "rollout/mean_reward",
    ]
    assert named["episode/count"] == 0.0


def test_a_return_that_went_wrong_is_not_hidden():
    """With an ended episode a NaN is a NaN."""
    named = scalars({"episode/count": 2, **EPISODES})
    assert named.keys() == {"episode/count", *EPISODES}
    assert math.isnan(named["episode/mean_reward"])


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *(("train/policy_loss", 640), ("train/player_1/loss/policy", 640)),
        *(("episode/mean_reward", 640), ("rollout/mean_reward", 640)),
        *(("eval/mean_reward", 640), ("time/fps", 640)),
        *(("reward_components/goal", 5), ("env/cooperation_rate/player_1", 5)),
        *(("stats/advantage_mean", 5), ("train_vs_iter/policy_loss", 5)),
        ("episode_vs_iter/mean_reward", 5),
    ],
)
def test_every_group_has_its_axis(name, step):
    assert step_of(name, env_steps=640, iteration=5) == step


def test_means_are_over_the_seeds_that_have_a_value():
    first = {"episode/mean_reward": 1.0, "loss": 2.0}
    second = {"loss": 4.0}
    assert mean_over_seeds([first, second]) == {
        "episode/mean_reward": 1.0,
        "loss": 3.0,
    }


def test_one_seed_that_diverged_is_seen_in_the_mean():
    assert math.isnan(mean_over_seeds([{"loss": math.nan}, {"loss": 1.0}])["loss"])


def test_a_state_that_one_seed_never_visited_is_the_mean_of_the_others():
    name = "env/cooperation_probability/player_1/CD"
    assert mean_over_seeds([{name: math.nan}, {name: 0.5}]) == {name: 0.5}
    assert mean_over_seeds([{name: math.nan}]) == {}
