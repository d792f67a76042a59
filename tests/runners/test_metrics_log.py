"""One run in all its places."""

import math

import numpy as np
import pytest

from runners.config import load
from runners.storage.jsonl import JsonLines, read_rows
from runners.storage.metrics_log import MetricsLog, open_metrics_log
from runners.storage.run_dir import RunDir
from runners.storage.sinks import Position
from runners.storage.tensorboard import read_scalars


class Remembers:
    """A sink that keeps what it is given."""

    def __init__(self):
        self.rows, self.calls = [], []

    def log(self, env_steps, iteration, metrics):
        self.rows.append((env_steps, iteration, metrics))

    def flush(self):
        self.calls.append("flush")

    def close(self):
        self.calls.append("close")


def test_seeds_are_rows_and_other_places_get_their_mean(tmp_path):
    other = Remembers()
    with MetricsLog(JsonLines(tmp_path / "m.jsonl"), [other]) as log:
        log.log(640, 5, {"loss": np.float32([1.0, 3.0]), "time/seconds": 2.5})
        log.flush()
    clock = {"iteration": 5, "env_steps": 640, "time/seconds": 2.5}
    assert read_rows(tmp_path / "m.jsonl") == [
        {"seed": 0, "loss": 1.0, **clock},
        {"seed": 1, "loss": 3.0, **clock},
    ]
    assert other.rows == [(640, 5, {"loss": 2.0, "time/seconds": 2.5})]
    assert other.calls == ["flush", "close"]


def test_a_seed_without_an_ended_episode_is_in_no_mean(tmp_path):
    """The mean is over the seeds in which an episode ended."""
    other = Remembers()
    metrics = {
        "episode/count": np.array([0.0, 4.0]),
        "episode/mean_reward": np.array([math.nan, 8.0]),
    }
    with MetricsLog(JsonLines(tmp_path / "m.jsonl"), [other]) as log:
        log.log(64, 1, metrics)
    first, second = read_rows(tmp_path / "m.jsonl")
    assert "episode/mean_reward" not in first
    assert second["episode/mean_reward"] == 8.0
    assert other.rows == [(64, 1, {"episode/count": 2.0, "episode/mean_reward": 8.0})]


def test_different_numbers_of_seeds_are_refused(tmp_path):
    log = MetricsLog(JsonLines(tmp_path / "m.jsonl"))
    with log, pytest.raises(ValueError, match=r"numbers of seeds: \[2, 3\]"):
        log.log(1, 1, {"a": np.zeros(2), "b": np.zeros(3)})


@pytest.mark.parametrize("on", [True, False])
def test_tensorboard_is_on_unless_switched_off(tmp_path, on):
    config = load([] if on else ["tensorboard=false"])
    run_dir = RunDir(tmp_path)
    with open_metrics_log(config, run_dir) as log:
        log.log(10, 1, {"train/loss": np.array([1.0])})
    assert run_dir.tensorboard.exists() == on
    assert len(read_rows(run_dir.metrics)) == 1


def test_a_resumed_run_goes_on_everywhere_without_gap_or_double(tmp_path):
    config, run_dir = load([]), RunDir(tmp_path)
    for first, last, done in ((1, 5, None), (4, 6, Position(3, 30))):
        with open_metrics_log(config, run_dir, resume_from=done) as log:
            for i in range(first, last + 1):
                log.log(10 * i, i, {"train/loss": np.array([0.5 * i])})
    rows = read_rows(run_dir.metrics)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    points = read_scalars(run_dir.tensorboard)["train/loss"]
    assert points == [(10 * i, 0.5 * i) for i in range(1, 7)]


def test_seeds_apart_have_folders_of_their_own_beside_the_means(tmp_path):
    config = load(["seeds_apart=true", "num_seeds=2"])
    for start, i in ((None, 1), (Position(1, 10), 2)):
        with open_metrics_log(config, RunDir(tmp_path), start) as log:
            log.log(10 * i, i, {"x": np.array([1.0, 2.0]) * i})
    folders = [tmp_path / "tb" / name for name in ("", "seed0", "seed1")]
    assert [read_scalars(folder)["x"] for folder in folders] == [
        [(10, 1.5), (20, 3.0)],
        [(10, 1.0), (20, 2.0)],
        [(10, 2.0), (20, 4.0)],
    ]
