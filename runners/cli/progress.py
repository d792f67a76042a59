"""What a person sees while an experiment runs: on standard error, quiet in pipes."""

import textwrap
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from runners.loop import Chunk
from runners.observer import Observer
from runners.plan import Plan
from runners.run_dir import RunDir


def say(text: str, indent: int = 0) -> None:
    """Prints to standard error."""
    click.echo(textwrap.indent(text, " " * indent), err=True)


def warn(text: str) -> None:
    """Prints a notice to standard error."""
    click.secho(f"note: {text}", err=True, fg="yellow")


class ProgressObserver(Observer):
    """Shows a progress bar on a terminal; elsewhere only where the run is kept."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task(
            "preparing", total=plan.num_iterations, note=""
        )

    def __enter__(self) -> "ProgressObserver":
        self._progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._progress.stop()

    def on_start(self, run_dir: RunDir) -> None:
        say(f"run directory: {run_dir.path}")

    def on_notice(self, text: str) -> None:
        warn(text)

    def on_compile(self, what: str) -> None:
        self._progress.update(self._task, description=f"compiling {what}")

    def on_row(self, done: int, total: int, row: dict[str, float]) -> None:
        named = {
            "fitness": row.get("fitness/best"),
            "mean": row.get("fitness/mean"),
            "return": row.get("episode/return/player_1"),
        }
        note = ", ".join(f"{k} {v:.3f}" for k, v in named.items() if v is not None)
        self._progress.update(
            self._task,
            description=self._plan.title,
            completed=done,
            total=total,
            note=note,
        )

    def on_chunk(self, chunk: Chunk) -> None:
        rewards = [
            chunk.rows[f"episode/reward_per_step/player_{p + 1}"][:, -1].mean()
            for p in range(self._plan.env.num_players)
        ]
        self._progress.update(
            self._task,
            description=self._plan.title,
            completed=chunk.first + chunk.length,
            note="reward per step " + ", ".join(f"{r:.3f}" for r in rewards),
        )
