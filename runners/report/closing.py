"""What stands beneath a table: what was played, where it lies, what to do next."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from paxenv.wording import counted
from runners.session.outcome import Ended
from runners.storage.run_dir import RunDir

#: Where JAX keeps compiled programs, if it is told to.
CACHE = "JAX_COMPILATION_CACHE_DIR"


def closing_lines(
    outcome: Ended,
    run: RunDir,
    *,
    notes: Sequence[tuple[str, str]] = (),
    weights: Sequence[str] = (),
    metric: str | None = None,
) -> list[str]:
    """Returns the last lines of a report.

    One line each for what was played, where everything lies, how to compare the run
    with others, and how to go on with it.

    Args:
        outcome: What the run came to.
        run: Its directory.
        notes: More lines, each a title and a text.
        weights: Options of `paxrun eval` that load other weights than those of
            `--run-dir`.
        metric: What `paxrun plot` is to draw; None where it knows by itself.
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
