"""docs/coverage.md names tests that exist, and plans nothing that was delivered."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| (\d+) \| (.+) \| (planned|`[^`|]+`) \|$", re.MULTILINE)
NUM_ROWS = 233
# Rows that wait for a later release; every other one has a test.
WAITING = {116}


def rows() -> dict[int, str]:
    """Returns the last column by row number."""
    text = (ROOT / "docs/coverage.md").read_text()
    return {int(m.group(1)): m.group(3).strip("`") for m in ROW.finditer(text)}


@cache
def names_in(path: str) -> set[str]:
    """Returns the names of the test functions of a file, methods as Class::name."""
    names = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}::{method.name}"
                for method in node.body
                if isinstance(method, ast.FunctionDef)
            }
    return {name for name in names if name.split("::")[-1].startswith("test_")}


def exists(test_id: str) -> bool:
    path, _, name = test_id.partition("::")
    return (ROOT / path).is_file() and name in names_in(path)


def test_every_row_is_there_once_and_in_order():
    text = (ROOT / "docs/coverage.md").read_text()
    assert [int(m.group(1)) for m in ROW.finditer(text)] == [*range(1, NUM_ROWS + 1)]


def test_every_test_id_names_a_test():
    named = {row: test for row, test in rows().items() if test != "planned"}
    assert {row: test for row, test in named.items() if not exists(test)} == {}


def test_only_rows_that_wait_are_planned():
    planned = {row for row, test in rows().items() if test == "planned"}
    assert planned == WAITING
