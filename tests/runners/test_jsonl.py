"""Metrics on disk are strict JSON."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

from runners.storage.jsonl import JsonLines, encode, last_rows, read_rows
from runners.storage.sinks import Position


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_nan_and_infinity_are_null_and_flagged_by_name():
    line = encode({"a": 1.5, "b": math.nan, "c": math.inf, "d": None, "e": "x"})
    row = json.loads(line, parse_constant=refuse)
    assert row == {
        "a": 1.5,
        "b": None,
        "c": None,
        "d": None,
        "e": "x",
        "not_finite": ["b", "c"],
    }


def test_rows_read_back_with_nan_where_it_was(tmp_path):
    with JsonLines(tmp_path / "logs" / "m.jsonl") as log:
        log.write({"iteration": 1, "x": 0.1})
        log.write({"iteration": 2, "x": math.nan})
    first, second = read_rows(tmp_path / "logs" / "m.jsonl")
    assert first == {"iteration": 1, "x": 0.1}
    assert second["iteration"] == 2
    assert math.isnan(second["x"])


def test_a_file_is_continued_and_not_replaced(tmp_path):
    path = tmp_path / "m.jsonl"
    for number in (1, 2):
        with JsonLines(path) as log:
            log.write({"n": number})
    assert [row["n"] for row in read_rows(path)] == [1, 2]


def test_float32_values_are_written_without_invented_digits():
    assert encode({"x": 0.10000000149011612}) == '{"x": 0.1}'
    assert json.loads(encode({"x": -224.0500030517578}))["x"] == pytest.approx(-224.05)


def test_every_kind_of_number_is_strict_json(tmp_path):
    """Each line parses, what was not finite is null and named."""
    metrics = {
        "f32": np.float32(0.1),
        "bf16": jnp.bfloat16(1.5),
        "zero_d": jnp.array(2.0),
        "int": np.int32(3),
        "nan": jnp.array(jnp.nan),
        "inf": np.float32(-np.inf),
    }
    path = tmp_path / "m.jsonl"
    with JsonLines(path) as log:
        log.log(640, 5, metrics, seed=1)
    row = json.loads(path.read_text(), parse_constant=refuse)
    assert row == {
        **{"seed": 1, "iteration": 5, "env_steps": 640},
        **{"f32": 0.1, "bf16": 1.5, "zero_d": 2.0, "int": 3.0},
        **{"nan": None, "inf": None, "not_finite": ["nan", "inf"]},
    }


def test_a_row_before_the_first_end_has_no_return(tmp_path):
    """Four steps of episodes of sixteen say nothing about returns."""
    path = tmp_path / "m.jsonl"
    with JsonLines(path) as log:
        for iteration, count in enumerate([0, 0, 0, 2], 1):
            mean = 7.0 if count else math.nan
            metrics = {"episode/count": count, "episode/mean_reward": mean}
            log.log(4 * iteration, iteration, metrics)
    rows = read_rows(path)
    assert [row.get("episode/mean_reward") for row in rows] == [None, None, None, 7.0]
    assert "not_finite" not in path.read_text()


def write(path, iterations, seeds=2):
    with JsonLines(path) as log:
        for iteration in iterations:
            for seed in range(seeds):
                log.log(10 * iteration, iteration, {"x": 0.5 * iteration}, seed=seed)


def test_a_resumed_file_is_as_if_never_interrupted(tmp_path):
    whole, resumed = tmp_path / "whole.jsonl", tmp_path / "resumed.jsonl"
    write(whole, range(1, 7))
    write(resumed, range(1, 6))
    with JsonLines(resumed, resume_from=Position(3, 30)):
        pass
    write(resumed, range(4, 7))
    assert resumed.read_bytes() == whole.read_bytes()


def test_a_torn_last_line_is_dropped(tmp_path):
    path = tmp_path / "m.jsonl"
    write(path, range(1, 4), seeds=1)
    with path.open("a") as file:
        file.write('{"seed": 0, "iteration": 4, "x": 0.')
    assert [row["iteration"] for row in read_rows(path)] == [1, 2, 3]
    with JsonLines(path, resume_from=Position(9, 90)) as log:
        log.log(40, 4, {"x": 2.0})
    assert [row["iteration"] for row in read_rows(path)] == [1, 2, 3, 4]
    assert [p.name for p in tmp_path.iterdir()] == ["m.jsonl"]


@pytest.mark.parametrize(("before", "kept"), [(0, []), (1, [1.0]), (None, [1.0, 2.0])])
def test_evaluations_after_the_last_checkpoint_are_taken_out(tmp_path, before, kept):
    """Those of the end are logged at the iteration at which it was saved."""
    path = tmp_path / "eval.jsonl"
    with JsonLines(path) as log:
        for value in (1.0, 2.0):
            for seed in range(2):
                log.log(30, 3, {"eval/sampled/x": value}, seed=seed)
    with JsonLines(path, resume_from=Position(3, 30, before)):
        pass
    rows = read_rows(path)
    for seed in range(2):
        found = [row["eval/sampled/x"] for row in rows if row["seed"] == seed]
        assert found == kept


def test_a_broken_line_elsewhere_is_named(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"iteration": 1}\nnonsense\n{"iteration": 2}\n')
    with pytest.raises(ValueError, match=r"m.jsonl: line 2 is not a JSON object"):
        read_rows(path)


@pytest.mark.parametrize("count", [1, 3, 5_000])
def test_the_last_rows_are_those_of_the_last_iteration(tmp_path, count):
    path = tmp_path / "m.jsonl"
    write(path, range(1, count + 1))
    assert last_rows(path) == read_rows(path)[-2:]
    assert len(last_rows(path)) == 2


def test_an_empty_file_has_no_last_rows(tmp_path):
    path = tmp_path / "m.jsonl"
    path.touch()
    assert last_rows(path) == []
