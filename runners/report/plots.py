"""Pictures of a run: rewards, inner episodes, and cooperation by state."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runners.engine.metric_names import (
    COOPERATION,
    EPISODE_COUNT,
    VISITATION,
    Name,
    by_name,
    cooperation_title,
    state_order,
    states,
)
from runners.engine.statistics import Estimate, repetitions
from runners.planning.game import payoff_table
from runners.planning.plan import Plan
from runners.report import figures
from runners.session.outcome import Outcome

MAX_STATES = 16


def reward_curve(
    outcome: Outcome, rows: Sequence[Mapping[str, Any]], path: Path
) -> None:
    """Draws every player's reward per step over environment steps.

    The line is the mean over seeds, the band its 95 % confidence interval. Nothing is
    drawn where no episode has ended.

    Args:
        outcome: What the run came to.
        rows: Its logged rows, as `jsonl.read_rows` returns them.
        path: The picture.
    """
    from matplotlib.ticker import EngFormatter

    plan = outcome.plan
    steps, counts = _column(rows, EPISODE_COUNT)
    # Where a seed saw no episode end, there is nothing to draw.
    ended = (counts > 0).all(axis=0)
    if not ended.any():
        return
    figure, axes = figures.new_figure()
    for p, agent in enumerate(plan.names[: plan.env.num_players]):
        _, values = _column(rows, f"episode/reward_per_step/player_{p + 1}")
        figures.draw_curve(
            axes, p, steps[ended], values[:, ended], f"player {p + 1} ({agent})"
        )
    _reference_lines(axes, plan)
    axes.set_xlabel("environment steps of a seed")
    axes.set_ylabel("reward per step")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    _set_title(axes, outcome, "while training")
    figures.set_legend(figure)
    figures.save(figure, path)


def inner_episodes(curves: np.ndarray, plan: Plan, path: Path) -> None:
    """Draws reward per step over inner episodes; nothing for a single one.

    Lines are means, bands their 95 % confidence intervals over the `units`.

    Args:
        curves: `[seeds, opponents, K, players]`.
        plan: What was played.
        path: The picture.
    """
    values, unit = repetitions(curves)
    num_episodes = values.shape[1]
    if num_episodes == 1 or not len(values):
        return
    figure, axes = figures.new_figure()
    x = np.arange(1, num_episodes + 1)
    for p, agent in enumerate(plan.names[: values.shape[-1]]):
        figures.draw_curve(axes, p, x, values[..., p], f"player {p + 1} ({agent})")
    axes.set_xlabel("inner episode of the trial")
    axes.set_ylabel("reward per step")
    subtitle = f"{plan.mode} actions, {figures.mean_over(len(values), unit)}"
    figures.set_titles(axes, plan.title, subtitle)
    figures.set_legend(figure)
    figures.save(figure, path)


def _column(
    rows: Sequence[Mapping[str, Any]], name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns (environment steps `[rows]`, a metric `[seeds, rows]`, NaN if absent)."""
    seeds: dict[int, dict[int, float]] = {}
    for row in rows:
        seeds.setdefault(row["seed"], {})[row["env_steps"]] = row.get(name, np.nan)
    steps = sorted({step for values in seeds.values() for step in values})
    columns = [
        [values.get(step, np.nan) for step in steps] for values in seeds.values()
    ]
    return np.array(steps), np.array(columns, float)


def cooperation(outcome: Outcome, path: Path) -> None:
    """Draws P(cooperate | state) of every player; nothing for games without it.

    Bars are means over seeds with 95 % confidence intervals. Beneath each state stands,
    player by player, the share of that player's steps that begin in it.
    """
    plan = outcome.plan
    named = by_name(outcome.evaluation)
    players = range(1, len(plan.names) + 1)
    every = states(named, COOPERATION, state_order(plan.env))
    if len(every) > MAX_STATES:
        visited = [s for s in every if any(_share(named, p, s) for p in players)]
        every = visited[:MAX_STATES]
    if not every:
        return
    figure, axes = figures.new_figure((max(6.4, 0.95 * len(every) + 2.2), 4.2))
    for p in range(len(plan.names)):
        cells = [named.get(Name(COOPERATION, p + 1, state)) for state in every]
        _bars(axes, p, plan, cells)
    axes.set_xticks(range(len(every)), [_tick(named, players, s) for s in every])
    axes.set_ylim(0, 1.1)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.set_xlabel("state of a player, and the share of its steps that begin there")
    axes.set_ylabel(cooperation_title(named))
    trained = "after training, " if plan.config.kind.trains else ""
    _set_title(axes, outcome, f"{trained}{outcome.mode} actions")
    figures.set_legend(figure)
    figures.save(figure, path)


def _bars(axes: Any, p: int, plan: Plan, cells: list[Estimate | None]) -> None:
    """Draws one player's bars, and what each is worth or that it was not visited."""
    width = 0.8 / len(plan.names)
    places = np.arange(len(cells)) + (p - (len(plan.names) - 1) / 2) * width
    known = [(x, c) for x, c in zip(places, cells, strict=True) if c and c.count]
    halves = [cell.half_width or 0.0 for _, cell in known]
    # An interval of a probability ends at 0 and 1.
    low = [min(h, c.mean) for h, (_, c) in zip(halves, known, strict=True)]
    high = [min(h, 1 - c.mean) for h, (_, c) in zip(halves, known, strict=True)]
    axes.bar(
        [x for x, _ in known],
        [cell.mean for _, cell in known],
        width * 0.92,
        yerr=(low, high),
        color=figures.COLOURS[p % len(figures.COLOURS)],
        error_kw={"linewidth": 1.0, "capsize": 2.5, "ecolor": "#333333"},
        label=f"player {p + 1} ({plan.names[p]})",
    )
    for (x, cell), above in zip(known, high, strict=True):
        _note(axes, x, cell.mean + above, f"{cell.mean:.2f}")
    for x, cell in zip(places, cells, strict=True):
        if cell is None or not cell.count:
            _note(axes, x, 0.0, "never\nvisited")


def _note(axes: Any, x: float, y: float, text: str) -> None:
    axes.annotate(
        text,
        (x, y),
        xytext=(0, 2),
        textcoords="offset points",
        ha="center",
        fontsize=7,
        color=figures.GREY,
    )


def _reference_lines(axes: Any, plan: Plan) -> None:
    """Marks mutual cooperation and defection of a symmetric two-action game."""
    payoff = payoff_table(plan.params)
    if payoff is None or payoff.size != 8:
        return
    cells = payoff.reshape(4, 2)
    for row, text in ((0, "both cooperate"), (3, "both defect")):
        first, second = cells[row]
        if first != second:
            continue
        axes.axhline(first, color="#999999", linewidth=0.9, linestyle=(0, (1, 2)))
        axes.annotate(
            text,
            (1.0, first),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color="#777777",
        )


def _tick(named: dict[Name, Estimate], players: Iterable[int], state: str) -> str:
    """Returns a state and below it each player's own share of steps."""
    shares = [f"player {p}: {_share(named, p, state):.1%}" for p in players]
    return "\n".join([state, *shares])


def _share(named: dict[Name, Estimate], player: int, state: str) -> float:
    """Returns the share of a player's steps that begin in a state, 0 if unknown."""
    share = named.get(Name(VISITATION, player, state))
    return share.mean if share is not None and share.count else 0.0


def _set_title(axes: Any, outcome: Outcome, what: str) -> None:
    seeds = outcome.plan.config.num_seeds
    over = f", {figures.mean_over(seeds)}" if seeds > 1 else ""
    figures.set_titles(axes, outcome.plan.title, f"{what}{over}")


#: Episodes of the moving mean.
WINDOW = 100


def draw(path: Path, episode_returns: list[float]) -> bool:
    """Draws the return of every episode in order, with their moving mean.

    Args:
        path: The file; its folder is made if it is missing.
        episode_returns: The returns.

    Returns:
        Whether there was anything to draw.
    """
    returns = np.array(episode_returns)
    if not returns.size:
        return False
    episodes = np.arange(1, returns.size + 1)
    _drawn(
        path,
        ("episode", episodes),
        ("return of an episode", returns),
        (f"mean of the last {WINDOW} episodes", trailing_mean(returns, WINDOW)),
    )
    return True


def draw_means(path: Path, steps: Any, means: Any) -> bool:
    """Draws the mean return of the episodes that ended in each update.

    Args:
        path: The file; its folder is made if it is missing.
        steps: Environment steps at the end of the updates in which episodes ended.
        means: The means.

    Returns:
        Whether there was anything to draw.
    """
    means = np.asarray(means)
    if not means.size:
        return False
    _drawn(
        path,
        ("environment steps", np.asarray(steps)),
        ("mean return of the episodes that ended in an update", means),
        (f"mean of the last {WINDOW} such updates", trailing_mean(means, WINDOW)),
    )
    return True


def trailing_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Returns the mean of the last `window` values at each of them; of fewer at first.

    Example:
        >>> trailing_mean(np.array([1.0, 3.0, 5.0]), 2).tolist()
        [1.0, 2.0, 4.0]
    """
    sums = np.cumsum(np.insert(values.astype(float), 0, 0.0))
    ends = np.arange(1, values.size + 1)
    begins = np.maximum(ends - window, 0)
    return (sums[ends] - sums[begins]) / (ends - begins)


def _drawn(
    path: Path,
    along: tuple[str, np.ndarray],
    single: tuple[str, np.ndarray],
    smooth: tuple[str, np.ndarray],
) -> None:
    """Draws two lines over one axis."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = figures.new_figure()
    (what, x), (label, y) = along, single
    figures.draw_line(axes, 0, x, y, label, alpha=0.3, linewidth=1.0)
    figures.draw_line(axes, 0, x, smooth[1], smooth[0])
    axes.set_xlabel(what)
    axes.set_ylabel("return")
    figures.set_legend(figure)
    figures.save(figure, path)


#: Curves, and what they are called.
CURVES = {
    "fitness/best": "best of a generation",
    "fitness/mean": "mean",
    "fitness/worst": "worst",
}


def draw_fitness(path: Path, rows: Sequence[Mapping[str, Any]], title: str) -> bool:
    """Draws the best, the mean and the worst fitness of every generation.

    Args:
        path: The picture.
        rows: The logged rows.
        title: What was searched.

    Returns:
        Whether there was anything to draw.
    """
    rows = [row for row in rows if "fitness/mean" in row]
    if not rows:
        return False
    figure, axes = figures.new_figure()
    generations = [row["iteration"] for row in rows]
    for number, (name, label) in enumerate(CURVES.items()):
        values = [row[name] for row in rows]
        figures.draw_line(axes, number, generations, values, label)
    axes.set_xlabel("generation")
    axes.set_ylabel("mean return of an evaluation")
    figures.set_titles(axes, title, "fitness of the individuals of each generation")
    figures.set_legend(figure)
    figures.save(figure, path)
    return True
