"""`paxrun ckpt`: lists, inspects and exports checkpoints."""

import json
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from runners.cli.errors import user_errors

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
WHICH = click.option(
    "--which",
    default="latest",
    show_default=True,
    help="A step, latest, best or a name, if PATH holds several checkpoints.",
)


@click.group("ckpt")
def ckpt_group() -> None:
    """List, inspect or export the checkpoints of a run."""


@ckpt_group.command("ls")
@click.argument("directory", metavar="RUN_DIR")
@AS_JSON
def ls(directory: str, as_json: bool) -> None:
    """List the checkpoints of a run, or of a folder of checkpoints."""
    from runners.storage.checkpoints.files import checkpoints_folder, find_checkpoint

    with _user_errors():
        latest = find_checkpoint(directory)
        rows = _rows(checkpoints_folder(directory), latest)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    _print_table(
        [
            {
                "checkpoint": row["checkpoint"],
                "steps": f"{row['step']:,}",
                "metric": "" if row["metric"] is None else f"{row['metric']:.6g}",
                "size": _size(row["bytes"]),
                "": ", ".join(row["marks"]),
            }
            for row in rows
        ]
    )


@ckpt_group.command("inspect")
@click.argument("path")
@WHICH
@AS_JSON
def inspect(path: str, which: str, as_json: bool) -> None:
    """Show the contents of a checkpoint: every array, and the record of the run.

    PATH is a checkpoint, a run directory or its folder of checkpoints.
    """
    from runners.storage.checkpoints.files import find_checkpoint, read_record

    with _user_errors():
        found = find_checkpoint(path, _which(which))
        record = read_record(found)
    if as_json:
        click.echo(json.dumps({"path": str(found), **vars(record)}, indent=2))
        return
    metric = "none" if record.metric is None else f"{record.metric:.6g}"
    click.echo(f"{found}\nstep {record.step:,}, metric {metric}")
    sizes = {name: _bytes(*entry) for name, entry in record.entries.items()}
    rows = [
        {
            "entry": name,
            "shape": " x ".join(str(n) for n in shape) or "scalar",
            "dtype": dtype,
            "size": _size(sizes[name]),
        }
        for name, (shape, dtype) in record.entries.items()
    ]
    from paxenv.wording import counted

    _print_table(rows)
    click.echo(f"{counted(len(rows), 'entry')}, {_size(sum(sizes.values()))}")
    # What a run has gathered since its last row is for the run that goes on.
    meta = {key: value for key, value in record.meta.items() if key != "rows"}
    click.echo(f"meta: {json.dumps(meta, indent=2)}")


@ckpt_group.command("export")
@click.argument("path")
@click.argument("out")
@click.option("--player", default=1, show_default=True, help="The player of the agent.")
@click.option("--seed-index", default=0, show_default=True, help="The seed, from 0.")
@WHICH
def export(path: str, out: str, player: int, seed_index: int, which: str) -> None:
    """Write the weights of one agent to OUT.msgpack, which model_path loads.

    PATH is a checkpoint, a run directory or its folder of checkpoints.
    """
    from runners.session.models import export_weights
    from runners.storage.checkpoints.files import find_checkpoint
    from runners.storage.places import check_writable

    with _user_errors():
        check_writable(Path(out).parent)
        found = find_checkpoint(path, _which(which))
        file = export_weights(found, out, player=player, seed_index=seed_index)
    click.echo(f"weights of player {player} at {found.name}: {file}")


@contextmanager
def _user_errors() -> Iterator[None]:
    """Mistakes are messages; warnings are notes, on the error stream."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            with user_errors(every_value_error=True):
                yield
        finally:
            for warning in caught:
                if issubclass(warning.category, UserWarning):
                    click.secho(f"note: {warning.message}", fg="yellow", err=True)


def _which(word: str) -> int | str:
    return int(word) if word.isdecimal() else word


def _rows(folder: Path, latest: Path) -> list[dict[str, Any]]:
    from runners.storage.checkpoints import files

    best = files.best_step(folder)
    paths = [files.step_path(folder, step) for step in files.saved_steps(folder)]
    paths += [folder / files.NAMED / name for name in files.saved_names(folder)]
    rows = []
    for path in paths:
        record = files.read_record(path)
        is_best = best is not None and path == files.step_path(folder, best)
        rows.append(
            {
                "checkpoint": str(path.relative_to(folder)),
                "step": record.step,
                "metric": record.metric,
                "bytes": sum(f.stat().st_size for f in path.rglob("*") if f.is_file()),
                "marks": ["latest"] * (path == latest) + ["best"] * is_best,
            }
        )
    return rows


def _print_table(rows: list[dict[str, str]]) -> None:
    """Prints columns as wide as their longest cell; names are never cut."""
    titles = list(rows[0]) if rows else []
    lines = [titles, *(list(row.values()) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Returns the size of an array in memory."""
    import ml_dtypes
    import numpy as np

    if dtype.startswith("key<"):
        words = 2 if dtype == "key<fry>" else 4
        return math.prod(shape) * words * 4
    known = getattr(ml_dtypes, dtype, dtype)
    return math.prod(shape) * np.dtype(known).itemsize


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
