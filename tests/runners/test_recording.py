"""Small runs of every kind leave what they left when the recording was made."""

import math

import pytest
import recording

KNOWN = recording.read()


def close(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(
            a, b, rel_tol=recording.TOLERANCE, abs_tol=recording.TOLERANCE
        )
    return a == b


def assert_close(found, known, where=""):
    """Compares records number by number, digests aside."""
    assert found.keys() == known.keys(), where
    for key in known.keys() - {"sha256"}:
        path = f"{where}/{key}"
        if isinstance(known[key], dict):
            assert_close(found[key], known[key], path)
        else:
            assert close(found[key], known[key]), (path, found[key], known[key])


def test_the_recording_is_of_what_is_recorded():
    assert list(KNOWN["entries"]) == list(recording.RECORDED)


@pytest.fixture(scope="module")
def recorder():
    with recording.Recorder() as recorder:
        yield recorder


@pytest.mark.slow
@pytest.mark.parametrize("name", recording.RECORDED)
def test_a_run_leaves_what_was_recorded(recorder, name):
    found, known = recorder.record(name), KNOWN["entries"][name]
    assert_close(found, known)
    if recording.machine() == KNOWN["machine"]:
        assert found == known


@pytest.mark.parametrize("name", recording.RESUMED)
def test_a_run_that_was_resumed_is_recorded_as_the_one_that_was_not(name):
    assert KNOWN["entries"][f"{name} resumed"] == KNOWN["entries"][name]
