"""YAML as users expect it."""

import math

import pytest

from runners.config import ConfigError
from runners.config.reading import dump, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e7", 1e7),
        ("1e-3", 1e-3),
        ("1_000_000", 1_000_000),
        ("010", 10),
        ("12:30", "12:30"),
        ("no", "no"),
        ("off", "off"),
        ("true", True),
        ("null", None),
        ("", None),
        ("2026-01-01", "2026-01-01"),
        ("[[-1, -1], [-3, 0]]", [[-1, -1], [-3, 0]]),
        ("'1e7'", "1e7"),
    ],
)
def test_scalars_mean_what_they_look_like(text, value):
    read = parse(text, "here")
    assert read == value
    assert type(read) is type(value)


def test_infinity_is_a_float():
    assert math.isinf(parse(".inf", "here"))


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1e7, "b": "1e7", "c": ["no", "true", True, None], "d": "010", "e": 10},
        {"name": "null", "empty": "", "text": "a: b", "nested": {"x": (1, 2.5)}},
        [1e-5, 3.0, -0.1, "12:30", "~"],
    ],
)
def test_what_is_written_reads_back_equal(value):
    def plain(x):
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        return [plain(v) for v in x] if isinstance(x, list | tuple) else x

    assert parse(dump(value), "here") == plain(value)


def test_a_key_given_twice_is_an_error_with_its_line():
    with pytest.raises(ConfigError, match=r"file\.yaml: line 3: the key 'a' is given"):
        parse("a: 1\nb: 2\na: 3\n", "file.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2", "expected ',' or ']'"),
        ("[1, 2]: 3", "a key must be a word, not a list or a mapping"),
        ("? {a: 1}\n: 3", "a key must be a word, not a list or a mapping"),
        ("a: &x {b: *x}", "recursive"),
        ("a: &x [*x]", "recursive"),
        ("a: !!int abc", "'abc' is no int .* line 1, column 4"),
        ("a: !!float abc", "'abc' is no float"),
        ("a: !!bool abc", "'abc' is no bool"),
        ("a: !!timestamp abc", "timestamp"),
        ("a: !!set {b}", "set"),
        ("a: !mine 3", "mine"),
        (f"a: {'9' * 5000}", r"'9+\.\.\.' is no int"),
    ],
)
def test_broken_yaml_is_an_error_with_its_origin(text, message):
    with pytest.raises(
        ConfigError, match=rf"^file\.yaml is not valid YAML: .*{message}"
    ):
        parse(text, "file.yaml")


def test_a_document_that_is_nested_beyond_reading_is_an_error():
    with pytest.raises(ConfigError, match=r"file\.yaml is nested too deeply"):
        parse("[" * 5000, "file.yaml")


def test_merge_keys_take_over_what_is_not_given():
    text = "a: &a {x: 1, y: 2}\nb: &b {z: 3}\nc: {<<: [*a, *b], y: 4}\nd: {<<: *a}\n"
    read = parse(text, "here")
    assert read["c"] == {"x": 1, "y": 4, "z": 3}
    assert read["d"] == read["a"] == {"x": 1, "y": 2}
    assert parse(dump({"<<": "<<"}), "here") == {"<<": "<<"}
