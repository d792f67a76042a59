"""`paxrun runs`: lists runs, and shows one."""

import dataclasses
import json
from typing import Any

import click

from runners.cli.errors import user_errors

EXP_DIR = click.option(
    "--exp-dir",
    default="exp",
    show_default=True,
    help="The folder in which runs are looked for.",
)
#: A pipe has no width: there a run is one line.
PIPE_WIDTH = 500
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("runs")
def runs_group() -> None:
    """List runs, or look at one."""


@runs_group.command("ls")
@click.argument("folder", required=False, metavar="")
@EXP_DIR
@click.option("--experiment", metavar="NAME", help="Only this experiment or family.")
@click.option("--group", metavar="NAME", help="Only runs of this group.")
@click.option("--tag", metavar="NAME", help="Only runs with this tag.")
@click.option("--name", metavar="NAME", help="Only runs of this name.")
@click.option("--status", metavar="STATUS", help="Only runs of this status.")
@AS_JSON
def ls(folder: str | None, exp_dir: str, as_json: bool, **filters: str | None) -> None:
    """List runs, oldest first.

    STATUS is running, finished, interrupted, failed or killed.
    """
    from runners.report.overview import overviews
    from runners.storage.run_dir import STATUSES, find_runs

    if folder is not None:
        raise click.UsageError(f"a folder is named by --exp-dir {folder}")
    status = filters["status"]
    if status is not None and status not in STATUSES:
        raise click.BadParameter(
            f"{status!r} is none of {', '.join(STATUSES)}", param_hint="--status"
        )
    rows = overviews(find_runs(exp_dir, **filters))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    elif not rows:
        click.echo(f"no runs under {exp_dir}; --exp-dir DIR looks in another folder")
    else:
        _print_table(rows, exp_dir)


@runs_group.command("show")
@click.argument("run")
@EXP_DIR
@AS_JSON
def show(run: str, exp_dir: str, as_json: bool) -> None:
    """Show one run: its settings, how it ended, its numbers and files.

    RUN is its folder, or the end of its name.
    """
    from runners.report.overview import details, resolve_one

    with user_errors(every_value_error=True):
        data = details(resolve_one(run, exp_dir))
    if as_json:
        click.echo(json.dumps(data, indent=2))
    else:
        _print_details(data)


def _print_table(rows: list[Any], exp_dir: str) -> None:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from paxenv.wording import counted
    from runners.report.overview import in_words

    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("run", no_wrap=True)
    table.add_column("experiment", overflow="fold")
    table.add_column("status")
    for title in ("seeds", "steps", "number"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("of", overflow="fold")
    table.add_column("started (UTC)", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    differ = any(row.differs for row in rows)
    if differ:
        table.add_column("differs", overflow="fold")
    labelled = any(row.name or row.group or row.tags for row in rows)
    if labelled:
        table.add_column("name, group, tags", overflow="fold")
    for row in rows:
        labels = [row.name, row.group and f"@{row.group}", *(f"#{t}" for t in row.tags)]
        table.add_row(
            Path(row.run).name,
            row.experiment,
            row.status,
            _seeds(row.seed, row.num_seeds),
            "-" if row.env_steps is None else f"{row.env_steps:,}",
            "-" if row.value is None else f"{row.value:.3f}",
            row.metric or "-",
            row.started[:16].replace("T", " "),
            _duration(row.seconds),
            *([in_words(row.differs)] if differ else []),
            *([" ".join(label for label in labels if label)] if labelled else []),
        )
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(table)
    console.print(f"{counted(len(rows), 'run')} under {exp_dir}", soft_wrap=True)


def _print_details(data: dict[str, Any]) -> None:
    from rich.console import Console

    from runners.config.reading import dump

    console = Console(highlight=False, soft_wrap=True)
    took = _duration(data["seconds"])
    labels = {key: data[key] for key in ("name", "group", "tags") if data[key]}
    versions = ", ".join(f"{k} {v}" for k, v in (data["versions"] or {}).items() if v)
    lines = {
        "run": data["run"],
        "experiment": data["experiment"],
        "status": f"{data['status']} (started {data['started']}, took {took})",
        "seeds": _seeds(data["seed"], data["num_seeds"]),
        "env steps": "-" if data["env_steps"] is None else f"{data['env_steps']:,}",
        **{key: str(value) for key, value in labels.items()},
        "command": " ".join(["paxrun", *(data["argv"] or ())]),
        "device": data["device"] or "-",
        "versions": versions,
        "git": data["git_sha"] or "-",
    }
    for name, line in lines.items():
        console.print(f"{name + ':':<12}{line}", markup=False)
    console.print("\nconfig:", dump(data["config"]), sep="\n", end="", markup=False)
    for title, key in (("results", "results"), ("last metrics", "last_metrics")):
        if data[key]:
            console.print(f"\n{title}:")
            for name, value in data[key].items():
                shown = "not finite" if value is None else f"{value:.6g}"
                console.print(f"  {name:<56} {shown}", markup=False)
    console.print("\nfiles:")
    for name, size in data["files"].items():
        console.print(f"  {name:<56} {size:,} bytes", markup=False)


def _seeds(seed: int, num_seeds: int) -> str:
    return str(seed) if num_seeds == 1 else f"{seed} (x{num_seeds})"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
