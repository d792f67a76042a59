"""Where a run writes: found out before it begins, and by one process at a time."""

import errno
import json
import os
import subprocess
import sys
import textwrap
import time

import pytest

from runners.storage import places
from runners.storage.places import (
    LOCK,
    InUseError,
    UnwritableError,
    check_writable,
    locked,
)


def holder(folder, **changes):
    """Leaves a lock as another process has written it, and returns its file."""
    folder.mkdir(exist_ok=True)
    with locked(folder):
        data = json.loads((folder / LOCK).read_text())
    (folder / LOCK).write_text(json.dumps({**data, "id": "another", **changes}))
    return folder / LOCK


def refused(folder, message, error=InUseError):
    """Checks that a folder cannot be locked, and why."""
    with pytest.raises(error, match=message), locked(folder):
        pass


@pytest.fixture
def no_kernel_locks(monkeypatch):
    """A file system that knows no `flock`."""

    def flock(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(places.fcntl, "flock", flock)


# Writing.


@pytest.mark.parametrize("below", ["", "a", "a/b"])
def test_a_place_below_a_file_is_refused(tmp_path, below):
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableError, match=r"cannot write to the folder .*/file"):
        check_writable(tmp_path / "file" / below)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.EROFS, "Read-only file system"),
        (errno.EACCES, "Permission denied"),
        (errno.ENOSPC, "No space left on device"),
    ],
)
def test_why_a_place_cannot_be_written_is_said(tmp_path, monkeypatch, code, message):
    def mkdir(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(UnwritableError, match=message):
        check_writable(tmp_path, "run directory")


def test_asking_leaves_nothing(tmp_path):
    check_writable(tmp_path / "exp" / "ipd")
    check_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_place_for_checkpoints_has_a_name_that_is_text(tmp_path):
    folder = tmp_path / "d\udcff"
    check_writable(folder)
    with pytest.raises(UnwritableError, match="its name is not text in UTF-8"):
        check_writable(folder, for_checkpoints=True)


# Locks.


def test_a_second_writer_is_refused_until_the_first_is_done(tmp_path):
    with locked(tmp_path):
        refused(tmp_path, r"in use: this very process \(\d+\)")
    with locked(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_folders_are_locked_once_each_and_made(tmp_path):
    with locked(tmp_path / "a", None, tmp_path / "b" / ".." / "a", tmp_path / "c"):
        assert (tmp_path / "a" / LOCK).is_file()
        assert (tmp_path / "c" / LOCK).is_file()


def test_a_lock_where_nothing_can_be_written_says_so(tmp_path):
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "run", "Not a directory", UnwritableError)


@pytest.mark.parametrize("kernel", ["flock", "no flock"])
def test_a_lock_lives_as_long_as_its_process(tmp_path, request, kernel):
    """Also when that is killed; a forked child of it does not keep the lock alive."""
    if kernel == "no flock":
        request.getfixturevalue("no_kernel_locks")
    script = """
        import os, sys, time
        from runners.storage.places import locked
        with locked(sys.argv[1]):
            if os.fork() == 0:
                print("held", flush=True)
            time.sleep(60)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        refused(tmp_path, f"process {child.pid} has been writing")
        child.kill()
        child.wait()
        with locked(tmp_path):
            pass
    finally:
        os.killpg(child.pid, 9)


@pytest.mark.usefixtures("no_kernel_locks")
def test_another_process_of_the_same_number_does_not_hold_the_lock(tmp_path):
    holder(tmp_path, started="1")
    with locked(tmp_path):
        pass


@pytest.mark.usefixtures("no_kernel_locks")
def test_without_kernel_locks_a_process_holds_one_too(tmp_path):
    with locked(tmp_path):
        refused(tmp_path, "this very process")
    with locked(tmp_path):
        pass


def test_a_holder_elsewhere_is_dead_a_minute_after_its_last_sign_of_life(tmp_path):
    lock = holder(tmp_path, machine=["elsewhere"], pid=7)
    refused(tmp_path, r"process 7 on elsewhere .* delete .*lock")
    old = time.time() - 61
    os.utime(lock, (old, old))
    with locked(tmp_path):
        pass


def test_a_holder_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "BEAT", 0.01)
    with locked(tmp_path):
        os.utime(tmp_path / LOCK, (0, 0))
        deadline = time.monotonic() + 300
        while (tmp_path / LOCK).stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (tmp_path / LOCK).stat().st_mtime > 0


@pytest.mark.parametrize("text", ["", "{", '{"pid": 1}', "[]"])
@pytest.mark.parametrize("kernel", ["flock", "no flock"])
def test_a_lock_that_was_cut_off_is_no_obstacle(tmp_path, request, kernel, text):
    if kernel == "no flock":
        request.getfixturevalue("no_kernel_locks")
    (tmp_path / LOCK).write_text(text)
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()


def test_a_folder_that_vanishes_takes_its_lock_along(tmp_path):
    with locked(tmp_path / "run"):
        (tmp_path / "run" / LOCK).unlink()
        (tmp_path / "run").rmdir()
    assert list(tmp_path.iterdir()) == []
