"""Whatever happens to a run, it goes on as if nothing had, or says what is wrong.

The programs and the faults are in `tests/fault_child.py`. One process for each program
runs it whole and with every fault that a process survives; three more are killed, go
on, are killed again, and go on to the end.
"""

import concurrent.futures
import json
import os
import random
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
SEED = 0


def child(*words, timeout=300):
    return subprocess.run(
        [sys.executable, str(CHILD), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )


def last_line(done):
    assert done.stdout, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


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
    for path in folder.rglob("models/*.msgpack"):
        found[path.relative_to(folder)] = path.read_bytes()
    records = [p.parents[1] for p in folder.rglob("record.json")]
    last = max((p for p in records if files.is_checkpoint(p)), key=files.step_of)
    found["steps"] = files.step_of(last)
    found["state"] = read_arrays(last, list(files.read_record(last).entries))
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def hurt(base):
    """What became of every program under every fault, by program."""

    def one(name):
        (base / name).mkdir()
        return last_line(child("hurt", name, base / name))

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(PROGRAMS, pool.map(one, PROGRAMS), strict=True))


@pytest.fixture(scope="module")
def killed(base, hurt):
    """How the processes of a run ended that is killed twice, by program."""

    def one(name):
        count, first = hurt[name]["events"]
        chance = random.Random(f"{SEED} {name}")
        moments = (chance.randrange(1, first), chance.randrange(first, count), -1)
        folder = base / name / "killed"
        return [(at, child("killed", name, folder, at)) for at in moments]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(PROGRAMS, pool.map(one, PROGRAMS), strict=True))


@pytest.fixture(scope="module")
def whole(base, hurt):
    """What each program leaves where nothing happens."""
    for name in PROGRAMS:
        assert hurt[name]["whole"][0][0] == 0, hurt[name]["whole"]
    return {name: result_of(base / name / "whole") for name in PROGRAMS}


def assert_as_if_nothing_had_happened(folder, whole):
    found = result_of(folder)
    assert found.keys() == whole.keys()
    for name in whole:
        np.testing.assert_equal(found[name], whole[name], err_msg=str(name))


def said_at_last(name, said, *words):
    """Whether a failure ends in a message of ours; threads may have written before."""
    message = said.rpartition("\nError: ")[2] if name in COMMANDS else said
    return any(word in message for word in words)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_that_is_killed_twice_ends_as_if_nothing_had_happened(
    base, whole, killed, name
):
    """Once before its first checkpoint, once after it, at any change of a file."""
    (_, first), _, (_, last) = killed[name]
    assert first.returncode == -9, first.stderr[-3000:]
    assert last.returncode == 0, last.stderr[-3000:]
    end = last_line(last)
    assert end["code"] == 0, [(at, k.returncode) for at, k in killed[name]] + [end]
    assert_as_if_nothing_had_happened(base / name / "killed", whole[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_file_system_without_links_makes_no_difference(base, whole, hurt, name):
    assert hurt[name]["no_links"][0][0] == 0, hurt[name]["no_links"]
    assert_as_if_nothing_had_happened(base / name / "no_links", whole[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_place_that_cannot_be_written_is_named(hurt, name):
    code, said = hurt[name]["unwritable"][0]
    assert code == MISTAKE
    assert "cannot write to" in said


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_folder_that_vanishes_ends_the_run_with_a_message(base, whole, hurt, name):
    (code, said), (again, _) = hurt[name]["vanished"]
    assert code == FAILED
    assert said_at_last(name, said, "vanished", "cannot save the checkpoint")
    assert again == 0
    assert_as_if_nothing_had_happened(base / name / "vanished", whole[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_goes_on_after_a_full_disk(base, whole, hurt, name):
    (code, said), (again, why) = hurt[name]["full_disk"]
    assert code == FAILED
    assert said_at_last(name, said, "File too large", "cannot save the checkpoint")
    assert again == 0, why
    assert_as_if_nothing_had_happened(base / name / "full_disk", whole[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_writer_is_sent_away_and_the_first_is_not_disturbed(
    base, whole, hurt, name
):
    first, (code, said, unchanged) = hurt[name]["second_process"]
    assert (code, unchanged) == (MISTAKE, True)
    assert "is in use" in said
    assert first[0] == 0
    assert_as_if_nothing_had_happened(base / name / "second_process", whole[name])


#: Commands also leave what they were told and what came out.
CUT = [(name, kind) for name in PROGRAMS for kind in ("record", "arrays", "logs")]
CUT += [(name, "others") for name in COMMANDS]


@pytest.mark.parametrize(("name", "kind"), CUT)
def test_a_run_goes_on_where_a_file_was_cut_off(base, whole, hurt, name, kind):
    """A damaged checkpoint gives way to the one before it; the rest is made anew."""
    outcome = hurt[name][f"cut_{kind}"]
    assert outcome[0][0] == 0, outcome
    assert_as_if_nothing_had_happened(base / name / f"cut_{kind}", whole[name])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_config_that_was_cut_off_is_named_and_nothing_is_lost(base, hurt, name):
    code, said = hurt[name]["cut_config"][0]
    assert code == MISTAKE
    assert "config.yaml" in said
    stopped, cut = (base / name / place for place in ("stopped", "cut_config"))
    rows = [(path / "logs" / "metrics.jsonl").read_bytes() for path in (stopped, cut)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_console_of_ascii_signs_is_no_fault(hurt, name):
    """All of these processes have one; the tables hold a plus-minus sign."""
    assert hurt[name]["whole"][0][0] == 0
