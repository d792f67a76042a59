"""The outcome of an outer loop as a table."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from paxenv.wording import counted
from runners.report.closing import closing_lines
from runners.session.outcome import OuterOutcome
from runners.storage.run_dir import RunDir

#: Statistics of an evaluation, and what they are called.
ROWS = {
    "mean_eval_reward": "mean return",
    "eval/std_reward": "deviation",
    "eval/min_reward": "lowest",
    "eval/max_reward": "highest",
    "eval/mean_length": "mean length",
}


def print_outcome(outcome: OuterOutcome, run_dir: RunDir) -> None:
    """Prints the evaluation, the results of a search, and the places of files."""
    console = Console(highlight=False)
    console.print(_table(outcome))
    for line in _captions(outcome):
        console.print(Text(line, style="dim"))
    best = outcome.train.get("best")
    if best is not None and best["values"]:
        console.print(_found(best, outcome.train["center"]))
    searched = "best" in outcome.train
    metric = "fitness/best" if searched else None
    notes = [("use", "models/player1.msgpack, the best individual")] * searched
    for line in closing_lines(outcome, run_dir, notes=notes, metric=metric):
        console.print(line, soft_wrap=True, markup=False)


def _table(outcome: OuterOutcome) -> Table:
    table = Table(
        title=Text(outcome.plan.title, style="bold"),
        title_justify="left",
        header_style="bold",
        show_edge=False,
        pad_edge=False,
    )
    columns: dict[str, dict[str, Any]] = {"agent": outcome.evaluation}
    if "best" in outcome.train:
        columns = {"best individual": outcome.evaluation}
        named = {"retrained": "trained again", "final_mean": "mean of the search"}
        for key, title in named.items():
            if key in outcome.evaluation:
                columns[title] = outcome.evaluation[key]
    table.add_column("", no_wrap=True)
    for title in columns:
        table.add_column(title, justify="right", no_wrap=True)
    for name, label in ROWS.items():
        table.add_row(label, *(f"{column[name]:.2f}" for column in columns.values()))
    return table


def _captions(outcome: OuterOutcome) -> list[str]:
    acting = "actions sampled" if outcome.plan.mode == "sampled" else "greedy actions"
    episodes = counted(outcome.plan.num_eval_games, "new episode")
    lines = [f"{episodes} without learning, {acting}"]
    best = outcome.train.get("best")
    if best is not None and best["generation"] is not None:
        lines.append(
            f"best of {counted(outcome.train['step'], 'generation')}: fitness "
            f"{best['fitness']:.2f} in generation {best['generation'] + 1}, where it "
            "may have been lucky"
        )
    return lines


def _found(best: dict[str, Any], center: dict[str, Any]) -> Table:
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    table.add_column("found", no_wrap=True)
    table.add_column("best", justify="right", no_wrap=True)
    table.add_column("mean of the search", justify="right", no_wrap=True)
    for name, value in best["values"].items():
        table.add_row(name, _shown(value), _shown(center["values"][name]))
    return table


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value)
