"""Progress of an experiment, shown on standard error."""

from typing import Any

import click

from runners.planning.plan import Plan
from runners.session import progress
from runners.session.loop import Chunk, Observer
from runners.storage.run_dir import RunDir


def say(text: str) -> None:
    """Prints to standard error."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """Prints a notice to standard error."""
    click.secho(f"note: {text}", err=True, fg="yellow")


class ProgressObserver(Observer):
    """Shows a line about a run, which in pipes is written every ten seconds.

    Attributes:
        run_dir: The directory of the run; None before it exists.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.run_dir: RunDir | None = None
        self._line = progress.Line(plan.title, plan.num_iterations)

    def __enter__(self) -> "ProgressObserver":
        self._line.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        self._line.__exit__()

    def on_start(self, run_dir: RunDir) -> None:
        self.run_dir = run_dir
        self._line.interrupted(lambda: say(f"run directory: {run_dir.path}"))

    def on_notice(self, text: str) -> None:
        self._line.interrupted(lambda: warn(text))

    def on_compile(self, what: str) -> None:
        self._line.doing("compiling", what)

    def on_run(self, what: str) -> None:
        self._line.doing("running", what)

    def on_evaluate(self) -> None:
        self._line.doing("evaluating")

    def on_row(self, done: int, total: int, row: dict[str, float]) -> None:
        named = {
            "fitness": row.get("fitness/best"),
            "mean": row.get("fitness/mean"),
            "return": row.get("episode/return/player_1"),
        }
        note = ", ".join(f"{k} {v:.3f}" for k, v in named.items() if v is not None)
        self._line.advance(done, total, note)

    def on_chunk(self, chunk: Chunk) -> None:
        rewards = [
            chunk.rows[f"episode/reward_per_step/player_{p + 1}"][:, -1].mean()
            for p in range(self._plan.env.num_players)
        ]
        note = "reward per step " + ", ".join(f"{r:.3f}" for r in rewards)
        self._line.advance(chunk.last, note=note)
