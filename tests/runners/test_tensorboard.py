"""Event files, read back."""

import math

import jax.numpy as jnp
import pytest

from runners.storage.sinks import Position
from runners.storage.tensorboard import PATTERN, TensorBoard, read_scalars

METRICS = {
    "train/policy_loss": 0.5,
    "episode/mean_reward": 2.0,
    "rollout/mean_reward": 0.25,
    "eval/mean_reward": 3.0,
    "time/fps": 100.0,
    "reward_components/goal": 4.0,
    "env/distance": 5.0,
    "stats/value_mean": 6.0,
}


def write(folder, iterations, **options):
    with TensorBoard(folder, **options) as sink:
        for i in iterations:
            sink.log(64 * i, i, {"train/loss": 0.5 * i, "env/rate": 0.25 * i})


def test_tags_stand_on_their_axes(tmp_path):
    """Tags and x axes, as they are read back."""
    with TensorBoard(tmp_path) as sink:
        sink.log(640, 5, METRICS)
    read = read_scalars(tmp_path)
    assert {tag: points for tag, (points, *_) in read.items()} == {
        "train/policy_loss": (640, 0.5),
        "episode/mean_reward": (640, 2.0),
        "rollout/mean_reward": (640, 0.25),
        "eval/mean_reward": (640, 3.0),
        "time/fps": (640, 100.0),
        "reward_components/goal": (5, 4.0),
        "env/distance": (5, 5.0),
        "stats/value_mean": (5, 6.0),
    }


def test_copies_over_iterations_are_made_where_asked_for(tmp_path):
    with TensorBoard(tmp_path, copies_vs_iteration=True) as sink:
        sink.log(640, 5, METRICS)
    read = read_scalars(tmp_path)
    assert read["train_vs_iter/policy_loss"] == [(5, 0.5)]
    assert read["episode_vs_iter/mean_reward"] == [(5, 2.0)]
    assert read["train/policy_loss"] == [(640, 0.5)]
    assert len(read) == len(METRICS) + 2


def test_nan_and_jax_scalars_are_written_as_they_are(tmp_path):
    """NaN and infinity stay visible, bfloat16 is a number."""
    with TensorBoard(tmp_path) as sink:
        sink.log(1, 1, {"a": math.nan, "b": jnp.array(jnp.inf), "c": jnp.bfloat16(1.5)})
    read = read_scalars(tmp_path)
    assert math.isnan(read["a"][0][1])
    assert read["b"] == [(1, math.inf)]
    assert read["c"] == [(1, 1.5)]


def test_no_return_is_drawn_before_an_episode_ends(tmp_path):
    """A step without an ended episode is no point of the curve."""
    with TensorBoard(tmp_path) as sink:
        for i, (count, mean) in enumerate([(0, math.nan), (2, 7.0)], 1):
            sink.log(4 * i, i, {"episode/count": count, "episode/mean_reward": mean})
    assert read_scalars(tmp_path)["episode/mean_reward"] == [(8, 7.0)]


@pytest.mark.parametrize("last", [3, 5], ids=["stopped", "killed after a checkpoint"])
def test_a_resumed_run_has_neither_gap_nor_double_on_either_axis(tmp_path, last):
    write(tmp_path, range(1, last + 1))
    write(tmp_path, range(4, 7), resume_from=Position(iteration=3, env_steps=192))
    read = read_scalars(tmp_path)
    assert read["train/loss"] == [(64 * i, 0.5 * i) for i in range(1, 7)]
    assert read["env/rate"] == [(i, 0.25 * i) for i in range(1, 7)]


def test_a_run_may_be_resumed_from_further_back_a_second_time(tmp_path):
    write(tmp_path, range(1, 6))
    write(tmp_path, range(5, 9), resume_from=Position(4, 256))
    write(tmp_path, range(3, 6), resume_from=Position(2, 128))
    assert read_scalars(tmp_path)["env/rate"] == [(i, 0.25 * i) for i in range(1, 6)]
    assert len(list(tmp_path.glob(PATTERN))) == 3


def test_a_torn_end_is_dropped(tmp_path):
    write(tmp_path, range(1, 4))
    (path,) = tmp_path.glob(PATTERN)
    path.write_bytes(path.read_bytes()[:-7])
    write(tmp_path, range(3, 5), resume_from=Position(2, 128))
    assert read_scalars(tmp_path)["env/rate"] == [(i, 0.25 * i) for i in range(1, 5)]


@pytest.mark.parametrize(("before", "kept"), [(0, []), (1, [1.0]), (None, [1.0, 2.0])])
def test_evaluations_after_the_last_checkpoint_are_taken_out(tmp_path, before, kept):
    with TensorBoard(tmp_path) as sink:
        sink.log(64, 1, {"train/loss": 0.5})
        for value in (1.0, 2.0):
            sink.log(64, 1, {"eval/sampled/x": value})
    with TensorBoard(tmp_path, resume_from=Position(1, 64, before)):
        pass
    found = read_scalars(tmp_path)
    assert found["train/loss"] == [(64, 0.5)]
    assert found.get("eval/sampled/x", []) == [(64, value) for value in kept]


def test_what_was_flushed_is_on_the_disk_before_the_end(tmp_path):
    sink = TensorBoard(tmp_path)
    sink.log(64, 1, {"train/loss": 0.5})
    sink.flush()
    assert read_scalars(tmp_path) == {"train/loss": [(64, 0.5)]}
    sink.close()
