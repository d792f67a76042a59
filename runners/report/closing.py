"""The end of a report: results of a search, steps played, commands to type next."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paxenv.wording import counted
from runners.engine.metric_names import label
from runners.engine.statistics import Estimate, estimate
from runners.report.table import number, print_whole
from runners.session.outcome import Ended, Outcome
from runners.session.training import BEST_METRIC
from runners.storage.jsonl import read_rows
from runners.storage.run_dir import RunDir

#: Where JAX keeps compiled programs, if it is told to.
CACHE = "JAX_COMPILATION_CACHE_DIR"


class SearchResult(NamedTuple):
    """One result of a search.

    Attributes:
        player: The searched player, from 1.
        name: The name of the result.
        reward: Reward per step of that player.
        weights: The path of the weights in the run directory.
        recommended: Whether these weights are recommended.
    """

    player: int
    name: str
    reward: Estimate
    weights: str
    recommended: bool


def search_results(
    outcome: Outcome, run: RunDir, rows: Sequence[Mapping[str, Any]]
) -> list[SearchResult]:
    """Returns the results of every search: three for each.

    The mean of a search and its best member have been played with the same keys, which
    chose neither, so the better one is recommended, and the mean if they are equal. The
    best evaluation during the search was the highest of several, and is never
    recommended.

    Args:
        outcome: What the evolution came to.
        run: Its directory.
        rows: The rows of its evaluations, as `jsonl.read_rows` returns them.
    """
    found = []
    for best in outcome.best_members:
        name = f"episode/reward_per_step/player_{best.player}"
        better = best.player in outcome.better_members
        found += [
            SearchResult(
                best.player,
                "mean of the search",
                outcome.evaluation[name],
                _in(run, run.model(best.player)),
                not better,
            ),
            SearchResult(
                best.player,
                "best member, played again",
                best.metrics[name],
                _in(run, run.best_model(best.player)),
                better,
            ),
        ]
        on_the_way = _best_on_the_way(outcome, rows, name)
        if on_the_way is not None:
            title = "mean in its best evaluation on the way"
            found.append(
                SearchResult(best.player, title, on_the_way, "checkpoints/best", False)
            )
    return found


def print_end(outcome: Outcome, run: RunDir, console: Console) -> None:
    """Prints the results of a search, and the last lines of a report."""
    notes = []
    found = []
    if outcome.best_members and outcome.evaluation:
        found = search_results(outcome, run, read_rows(run.eval_metrics))
        print_whole(_found_table(found), console)
    elif outcome.best_score is not None:
        notes = [("best", _best_line(outcome, run))]
    weights = [
        word
        for player in outcome.better_members[:1]
        for word in (
            *("--model-path", shown(run.best_model(player))),
            *("--player", str(player)),
        )
    ]
    notes += [
        ("use", f"{result.weights} for player {result.player}, the {result.name}")
        for result in found
        if result.recommended
    ]
    for line in closing_lines(outcome, run, notes=notes, weights=weights):
        console.print(line, soft_wrap=True, markup=False)


def closing_lines(
    outcome: Ended,
    run: RunDir,
    *,
    notes: Sequence[tuple[str, str]] = (),
    weights: Sequence[str] = (),
    metric: str | None = None,
) -> list[str]:
    """Returns the last lines of a report.

    There is one line each for the steps played, the place of the results, the command
    that compares the run with others, and the command to type next.

    Args:
        outcome: What the run came to.
        run: Its directory.
        notes: More lines, each a title and a text.
        weights: Options of `paxrun eval` that load other weights than those of
            `--run-dir`.
        metric: The metric for `paxrun plot`; None for its default.
    """
    lines = [("played", _played(outcome)), ("saved", _saved(run)), *notes]
    lines.append(("compare", _compare(outcome, run, metric)))
    following = _next(outcome, run, weights)
    if following:
        lines.append(("next", following))
    return [f"{f'{title}:':<9}{text}" for title, text in lines]


def shown(path: Path) -> str:
    """Returns a path as one types it: relative where it is below the working folder."""
    path, here = path.resolve(), Path.cwd().resolve()
    below = here in path.parents
    return shlex.quote(str(path.relative_to(here) if below else path))


def _best_on_the_way(
    outcome: Outcome, rows: Sequence[Mapping[str, Any]], name: str
) -> Estimate | None:
    """Returns a metric in the evaluation whose checkpoint is the best one."""
    prefix = f"eval/{outcome.mode}/"
    # The last evaluation of a run is of its end.
    before = rows[: -outcome.plan.config.num_seeds]
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for row in before:
        groups.setdefault(row["env_steps"], []).append(row)
    scores = {
        steps: float(np.mean([row.get(prefix + BEST_METRIC, np.nan) for row in group]))
        for steps, group in groups.items()
    }
    known = {steps: score for steps, score in scores.items() if np.isfinite(score)}
    if not known:
        return None
    group = groups[max(known, key=known.__getitem__)]
    return estimate([row.get(prefix + name, np.nan) for row in group])


def _in(run: RunDir, path: Any) -> str:
    return path.relative_to(run.path).as_posix()


def _found_table(found: Sequence[SearchResult]) -> Table:
    """Returns the results of the searches: reward per step, and where weights are."""
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    table.add_column("found by the search", no_wrap=True)
    table.add_column("reward per step", justify="right", no_wrap=True)
    table.add_column("weights", no_wrap=True)
    several = len({result.player for result in found}) > 1
    for result in found:
        whose = f", player {result.player}" if several else ""
        name = Text(f"{result.name}{whose}", style="bold" * result.recommended)
        table.add_row(name, number(result.reward), result.weights)
    return table


def _best_line(outcome: Outcome, run: RunDir) -> str:
    """Returns what there is to say of the best evaluation on the way."""
    return (
        f"{outcome.best_score:.1f} was the highest {label('return')} of player 1 in an "
        f"evaluation on the way; paxrun ckpt export {shown(run.path)} OUT --which best "
        "writes its weights"
    )


def _played(outcome: Ended) -> str:
    """Returns how much was played, and how much of the time was compilation."""
    steps, compiling = outcome.total_steps, outcome.compile_seconds
    playing = outcome.wall_seconds - (compiling or 0.0)
    text = f"{counted(steps, 'step')}{_at_most(outcome)} in {playing:.1f} s"
    if compiling is None:
        return f"{text}, compilation included"
    if playing > 0:
        text += f", {steps / playing:,.0f} a second"
    text += f", after {compiling:.1f} s of compilation"
    if compiling > playing and not os.environ.get(CACHE):
        text += f" (with {CACHE}=DIR the next run finds it compiled)"
    return text


def _at_most(outcome: Ended) -> str:
    """Returns words for a run of trials whose episodes end before their time.

    The steps of a run are counted as its budget counts them: whole trials.
    """
    plan, length = outcome.plan, outcome.measured.get("episode/length")
    early = length is not None and length.mean < plan.env.num_inner_steps - 1e-3
    return " at most" if early and not plan.config.kind.endless else ""


def _saved(run: RunDir) -> str:
    pictures = len(list(run.artifacts.glob("*.png")))
    drawn = f" and {counted(pictures, 'picture')}" if pictures else ""
    return f"{shown(run.path)}, with results.json{drawn} in artifacts"


def _compare(outcome: Ended, run: RunDir, metric: str | None) -> str:
    """Returns a command that shows the run beside others of its kind."""
    config = outcome.plan.config
    together = shown(run.path.parent if config.save_dir is None else run.path)
    if not config.kind.trains:
        return f"paxrun runs ls --exp-dir {together}"
    return f"paxrun plot {together}" + (f" --metric {metric}" if metric else "")


def _next(outcome: Ended, run: RunDir, weights: Sequence[str]) -> str:
    if outcome.interrupted:
        return f"paxrun resume {shown(run.path)}"
    if not outcome.plan.config.kind.trains:
        return ""
    return " ".join(["paxrun eval --run-dir", shown(run.path), *weights])
