"""Metrics on disk are strict JSON."""

import json
import math

import pytest

from runners.jsonl import JsonLines, encode, read_rows


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
