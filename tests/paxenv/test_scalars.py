"""Numbers of callers: every numeric type is read, and nothing else."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv import scalars
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.exact.agents import SOSConfig
from paxenv_agents.learners.dqn import DQNConfig
from paxenv_agents.learners.lola import LOLAConfig
from paxenv_agents.learners.ppo import PPOConfig
from runners import RunnerConfig
from runners.config import ExperimentConfig
from runners.search.options import ESOptions
from runners.search.outer_options import ESConfig

TENS = [10, 10.0, 1e1, np.int64(10), np.uint8(10), np.float32(10), np.array(10)]


@pytest.mark.parametrize("ten", [*TENS, jnp.int32(10), jnp.float32(10)], ids=repr)
def test_whole_numbers_of_every_type_are_ints(ten):
    assert scalars.whole(ten) == 10
    assert type(scalars.whole(ten)) is int


@pytest.mark.parametrize("other", [2.5, float("nan"), float("inf"), True, "10", None])
def test_what_is_no_whole_number_is_left_alone(other):
    assert scalars.whole(other) is other


@pytest.mark.parametrize(
    ("made", "option"),
    [
        (RunnerConfig, "total_timesteps"),
        (RunnerConfig, "num_devices"),
        (PPOConfig, "n_steps"),
        (PPOConfig, "num_envs"),
        (DQNConfig, "buffer_size"),
        (LOLAConfig, "num_lookaheads"),
        (ESConfig, "iterations"),
        (ESOptions, "population_size"),
        (ExperimentConfig, "total_timesteps"),
        (lambda **o: paxenv.make("IPD", **o)[0], "num_inner_steps"),
        (lambda **o: paxenv.make("CoinGame", **o)[0], "height"),
    ],
)
@pytest.mark.parametrize("ten", [1e1, np.int64(10)], ids=repr)
def test_options_that_count_take_every_numeric_type(made, option, ten):
    value = getattr(made(**{option: ten}), option)
    assert value == 10
    assert type(value) is int


@pytest.mark.parametrize(
    ("made", "option"),
    [
        (PPOConfig, "learning_rate"),
        (DQNConfig, "tau"),
        (SOSConfig, "a"),
        (ESOptions, "sigma_init"),
        (ESConfig, "sigma_hyper"),
    ],
)
@pytest.mark.parametrize("half", [np.float32(0.5), np.float64(0.5), np.array(0.5)])
def test_options_that_measure_take_every_numeric_type(made, option, half):
    value = getattr(made(**{option: half}), option)
    assert value == 0.5
    assert type(value) is float


def test_tuples_and_flags_are_settled_too():
    assert PPOConfig(hidden_sizes=np.array([8, 4])).hidden_sizes == (8, 4)
    widths = PPOConfig(hidden_sizes=(1e1, np.int32(3))).hidden_sizes
    assert [type(width) for width in widths] == [int, int]
    assert RunnerConfig(plot=np.bool_(False)).plot is False
    slot = Slot(None, players=(0,), reset=np.int64(3))  # type: ignore[arg-type]
    assert type(slot.reset) is int


def test_equal_numbers_make_equal_configs():
    assert hash(PPOConfig(n_steps=1e2)) == hash(PPOConfig(n_steps=np.int16(100)))  # type: ignore[arg-type]
    assert dataclasses.replace(PPOConfig(), n_steps=100) == PPOConfig(n_steps=1e2)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [2.5, True, "10", np.array([10])])
def test_other_values_are_refused_as_they_were_given(wrong):
    with pytest.raises(ValueError, match="n_steps must be a whole number >= 1, got"):
        PPOConfig(n_steps=wrong)
    with pytest.raises(ValueError, match="num_inner_steps must be a whole number"):
        paxenv.make("IPD", num_inner_steps=wrong)
