"""The options of the functional API: names, defaults, and what is refused."""

import dataclasses
import re
from pathlib import Path

import pytest

import runners
from runners.session.runner_config import RunnerConfig

DEFAULTS = {
    "total_timesteps": 100_000,
    "eval_every": 5_000,
    "eval_episodes": 10,
    "log_interval": 1_000,
    "buffer_size": 100_000,
    "warmup_steps": 1_000,
    "num_devices": None,
    "num_envs": 1,
    "fsdp_devices": 1,
    "seed": 0,
    "checkpoint_dir": None,
    "checkpoint_interval": 5_000,
    "max_checkpoints": 5,
    "keep_period": None,
    "resume": False,
    "overwrite": False,
    "plot": True,
}
#: Options beyond those of the published API.
OWN = {"change_rates": False, "progress": True}


def test_defaults_are_those_of_the_published_api():
    assert dataclasses.asdict(runners.RunnerConfig()) == {**DEFAULTS, **OWN}
    names = [f.name for f in dataclasses.fields(RunnerConfig)]
    assert names == [*DEFAULTS, *OWN]


def test_equal_configs_are_one_static_argument():
    assert hash(RunnerConfig(seed=3)) == hash(RunnerConfig(seed=3))
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunnerConfig().seed = 1  # type: ignore[misc]


def test_table_of_the_docstring_shows_every_default():
    rows = re.findall(r"^ +(\w+) +(\S+) +\S", RunnerConfig.__doc__ or "", re.MULTILINE)
    defaults = {**DEFAULTS, **OWN}
    documented = {name: value for name, value in rows if name in defaults}
    assert documented == {
        name: f"{value:_}" if type(value) is int else str(value)
        for name, value in defaults.items()
    }


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("total_timesteps", 0, "total_timesteps must be a whole number >= 1, got 0"),
        ("total_timesteps", 1e5 + 0.5, "must be a whole number >= 1, got 100000.5"),
        ("eval_every", -1, "eval_every must be a whole number >= 1, got -1"),
        ("eval_episodes", 0, "eval_episodes must be"),
        ("log_interval", 0, "log_interval must be"),
        ("buffer_size", 0, "buffer_size must be"),
        ("warmup_steps", -1, "warmup_steps must be a whole number >= 0, got -1"),
        ("num_devices", 0, "num_devices must be"),
        ("num_envs", True, "num_envs must be a whole number >= 1, got True"),
        ("fsdp_devices", 0, "fsdp_devices must be"),
        ("seed", -1, "seed must be a whole number >= 0, got -1"),
        ("checkpoint_dir", 3, "checkpoint_dir must be a path, got 3"),
        ("checkpoint_dir", "", "checkpoint_dir is empty"),
        ("checkpoint_interval", 0, "checkpoint_interval must be"),
        ("max_checkpoints", 0, "max_checkpoints must be"),
        ("keep_period", 0, "keep_period must be"),
        ("plot", 1, "plot must be True or False, got 1"),
        ("resume", True, "resume=True needs checkpoint_dir"),
        ("change_rates", True, "it needs resume=True"),
        ("progress", None, "progress must be True or False, got None"),
    ],
)
def test_value_out_of_range_is_named(option, value, message):
    with pytest.raises(ValueError, match=message):
        RunnerConfig(**{option: value})


def test_a_seed_may_be_any_whole_number():
    """Trainers draw 32 bits and libraries that split seeds 64."""
    assert RunnerConfig(seed=3_000_000_000).seed == 3_000_000_000


def test_warm_up_may_be_left_out():
    assert RunnerConfig(warmup_steps=0).warmup_steps == 0


def test_path_becomes_a_string():
    config = RunnerConfig(checkpoint_dir=Path("runs") / "a")  # type: ignore[arg-type]
    assert config.checkpoint_dir == str(Path("runs") / "a")


def test_groups_of_devices_must_come_out_even():
    with pytest.raises(ValueError, match="fsdp_devices=3 must divide num_devices=4"):
        RunnerConfig(num_devices=4, fsdp_devices=3)


def test_going_on_and_deleting_exclude_each_other():
    with pytest.raises(ValueError, match="resume and overwrite exclude each other"):
        RunnerConfig(checkpoint_dir="runs", resume=True, overwrite=True)


def test_results_have_the_published_fields():
    assert runners.PPOTrainState._fields == (
        "agent_state",
        "env_obs",
        "env_state",
        "rng",
    )
    assert runners.PPOMetricsHistory._fields == (
        "total_loss",
        "actor_loss",
        "critic_loss",
        "entropy",
        "approx_kl",
    )
    off_policy = ("agent_state", "episode_returns", "metrics_log")
    assert runners.DQNTrainResult._fields == off_policy
    assert runners.SACTrainResult._fields == off_policy
