"""Whatever happens to a run, it goes on as if nothing had, or says what is wrong.

The programs and the faults are in `tests/fault_child.py`. One process for each program
runs it whole and with every fault that a process survives, and goes on where two more
were killed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fault_child import FAILED, MISTAKE, PROGRAMS

from runners.storage.checkpoints import files
from runners.storage.checkpoints.tree import read_arrays
from runners.storage.jsonl import read_rows
from runners.storage.tensorboard import read_scalars

pytestmark = pytest.mark.slow
CHILD = Path(__file__).parents[1] / "fault_child.py"
COMMANDS = ("rl", "evo", "es")


def result_of(folder):
    """Returns everything that a run leaves, without times of the clock."""
    found = {}
    for path in folder.rglob("*.jsonl"):
        rows = [
            {name: value for name, value in row.items() if "time/" not in name}
            for row in read_rows(path)
        ]
        found[path.relative_to(folder)] = rows
    for path in {path.parent for path in folder.rglob("events*")}:
        scalars = read_scalars(path)
        name = path.relative_to(folder) / "events"
        found[name] = {k: v for k, v in scalars.items() if "time/" not in k}
    for path in folder.rglob("results.json"):
        found["results"] = json.loads(path.read_text())["metrics"]
    for path in (*folder.rglob("models/*.msgpack"), *folder.rglob("history/*.f32")):
        found[path.relative_to(folder)] = path.read_bytes()
    records = [p.parents[1] for p in folder.rglob("record.json")]
    last = max((p for p in records if files.is_checkpoint(p)), key=files.step_of)
    found["steps"] = files.step_of(last)
    found["state"] = read_arrays(last, list(files.read_record(last).entries))
    return found


class Hurt:
    """A program, and what became of it under every fault.

    Attributes:
        name: The program's.
        folder: Where it ran: a folder for each fault, by name.
        stderr: What the processes wrote there.
        whole: What it leaves where nothing happens.
    """

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        done = subprocess.run(
            [sys.executable, str(CHILD), name, str(folder)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
        assert done.stdout, done.stderr[-3000:]
        self.stderr = done.stderr
        self._found = json.loads(done.stdout.splitlines()[-1])
        assert self["whole"][0][0] == 0, self["whole"]
        self.whole = result_of(folder / "whole")

    def __getitem__(self, fault):
        return self._found[fault]

    def assert_as_if_nothing_had_happened(self, fault):
        found = result_of(self.folder / fault)
        assert found.keys() == self.whole.keys()
        for name in self.whole:
            np.testing.assert_equal(found[name], self.whole[name], err_msg=str(name))

    def said_at_last(self, said, *words):
        """Whether a failure ends in our message; threads may have written before."""
        message = said.rpartition("\nError: ")[2] if self.name in COMMANDS else said
        return any(word in message for word in words)


# With a parameter the tests of one program stand together, so that few workers run it.
@pytest.fixture(scope="module", params=PROGRAMS)
def hurt(request, tmp_path_factory):
    return Hurt(request.param, tmp_path_factory.mktemp(request.param))


def test_a_run_that_is_killed_twice_ends_as_if_nothing_had_happened(hurt):
    """Once before its first checkpoint, once after it, at any change of a file."""
    (first, _), (code, said) = hurt["killed"]
    assert first == -9, hurt.stderr[-3000:]
    assert code == 0, (hurt["killed"], said)
    hurt.assert_as_if_nothing_had_happened("killed")


def test_a_file_system_without_links_makes_no_difference(hurt):
    assert hurt["no_links"][0][0] == 0, hurt["no_links"]
    hurt.assert_as_if_nothing_had_happened("no_links")


def test_a_place_that_cannot_be_written_is_named(hurt):
    code, said = hurt["unwritable"][0]
    assert code == MISTAKE
    assert "cannot write to" in said


def test_a_folder_that_vanishes_ends_the_run_with_a_message(hurt):
    (code, said), (again, _) = hurt["vanished"]
    assert code == FAILED
    assert hurt.said_at_last(said, "vanished", "cannot save the checkpoint")
    assert again == 0
    hurt.assert_as_if_nothing_had_happened("vanished")


def test_a_run_goes_on_after_a_full_disk(hurt):
    (code, said), (again, why) = hurt["full_disk"]
    assert code == FAILED
    assert hurt.said_at_last(said, "File too large", "cannot save the checkpoint")
    assert again == 0, why
    hurt.assert_as_if_nothing_had_happened("full_disk")


def test_a_second_writer_is_sent_away_and_the_first_is_not_disturbed(hurt):
    first, (code, said, unchanged) = hurt["second_process"]
    assert (code, unchanged) == (MISTAKE, True)
    assert "is in use" in said
    assert first[0] == 0
    hurt.assert_as_if_nothing_had_happened("second_process")


@pytest.mark.parametrize("kind", ["record", "arrays", "logs", "others"])
def test_a_run_goes_on_where_a_file_was_cut_off(hurt, kind):
    """A damaged checkpoint gives way to the one before it; the rest is made anew.

    Commands also leave what they were told and what came out; other programs do not.
    """
    outcome = hurt[f"cut_{kind}"]
    if kind == "others" and hurt.name not in COMMANDS:
        assert outcome is None
        return
    assert outcome[0][0] == 0, outcome
    hurt.assert_as_if_nothing_had_happened(f"cut_{kind}")


def test_a_config_that_was_cut_off_is_named_and_nothing_is_lost(hurt):
    """Of commands, which leave one."""
    if hurt.name not in COMMANDS:
        assert hurt["cut_config"] is None
        return
    code, said = hurt["cut_config"][0]
    assert code == MISTAKE
    assert "config.yaml" in said
    stopped, cut = (hurt.folder / place for place in ("stopped", "cut_config"))
    rows = [(path / "logs" / "metrics.jsonl").read_bytes() for path in (stopped, cut)]
    assert rows[0] == rows[1]


def test_a_console_of_ascii_signs_is_no_fault(hurt):
    """All of these processes have one; the tables hold a plus-minus sign."""
    assert hurt["whole"][0][0] == 0
