"""Lists that are appended to beside the checkpoints."""

import math

import pytest

from runners.storage.checkpoints.files import CheckpointError
from runners.storage.checkpoints.journal import Journal


def test_what_was_appended_after_a_checkpoint_is_cut(tmp_path):
    journal = Journal(tmp_path)
    journal.add_numbers("returns", [1.5, math.inf])
    journal.add_rows("log", [{"step": 1, "loss": math.nan}])
    sizes = journal.sizes()
    assert sizes == {"log.jsonl": 25, "returns.f32": 8}
    journal.add_numbers("returns", [3.0])
    journal.add_rows("log", [{"step": 2}])
    journal.add_numbers("later", [4.0])

    journal.cut(sizes)

    assert journal.numbers("returns", journal.sizes()).tolist() == [1.5, math.inf]
    (row,) = journal.rows("log", sizes)
    assert row["step"] == 1
    assert math.isnan(row["loss"])
    assert journal.numbers("later", sizes).size == 0


def test_a_file_that_is_too_short_is_named(tmp_path):
    journal = Journal(tmp_path)
    journal.add_numbers("returns", [1.0])
    with pytest.raises(CheckpointError, match=r"returns.f32 has 4 bytes, .* knows 8"):
        journal.numbers("returns", {"returns.f32": 8})
    journal.clear()
    assert journal.sizes() == {}
    with pytest.raises(CheckpointError, match="has 0 bytes"):
        journal.rows("log", {"log.jsonl": 9})
