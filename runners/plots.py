"""Pictures of a run: the reward curve and who cooperates in which state."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runners.metric_names import (
    COOPERATION,
    VISITATION,
    Name,
    by_name,
    cooperation_title,
    state_order,
    states,
)
from runners.outcome import Outcome
from runners.plan import Plan, payoff_table
from runners.program import Chunk
from runners.summary import Estimate, t_quantile

# Blue, orange, green, purple, ...: told apart by colour-blind eyes and in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#8E5EA2", "#E69F00", "#56B4E9")
STYLES = ("-", "--", "-.", ":")
DPI = 150
MAX_STATES = 16


def reward_curve(outcome: Outcome, history: Sequence[Chunk], path: Path) -> None:
    """Draws every player's reward per step over environment steps.

    The line is the mean over seeds, the band its 95 % confidence interval.
    """
    from matplotlib.ticker import EngFormatter

    plan = outcome.plan
    figure, axes = _figure((7.0, 4.2))
    count = sum(chunk.length for chunk in history)
    steps = np.arange(1, count + 1) * plan.steps_per_iteration
    for p, agent in enumerate(plan.names):
        name = f"episode/reward_per_step/player_{p + 1}"
        values = np.concatenate([chunk.rows[name] for chunk in history], axis=1)
        mean, half = _band(values)
        colour = COLOURS[p % len(COLOURS)]
        axes.plot(
            *(steps, mean),
            color=colour,
            linestyle=STYLES[p % len(STYLES)],
            linewidth=1.8,
            label=f"player {p + 1} ({agent})",
            marker="o" if count == 1 else None,
        )
        axes.fill_between(
            steps, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0
        )
    _reference_lines(axes, plan)
    axes.set_xlabel("environment steps of a seed")
    axes.set_ylabel("reward per step")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    _set_title(axes, outcome, "while training")
    _legend(figure)
    _save(figure, path)


def cooperation(outcome: Outcome, path: Path) -> None:
    """Draws P(cooperate | state) of every player; nothing for games without it.

    Bars are means over seeds with 95 % confidence intervals. Beneath each state is the
    share of steps that begin in it, over the players.
    """
    plan = outcome.plan
    named = by_name(outcome.evaluation)
    every = states(named, COOPERATION, state_order(plan.env))
    if len(every) > MAX_STATES:
        every = [state for state in every if _share(named, state) > 0][:MAX_STATES]
    if not every:
        return
    figure, axes = _figure((max(6.4, 0.95 * len(every) + 2.2), 4.2))
    for p in range(len(plan.names)):
        cells = [named.get(Name(COOPERATION, p + 1, state)) for state in every]
        _bars(axes, p, plan, cells)
    ticks = [f"{state}\n{_share(named, state):.1%}" for state in every]
    axes.set_xticks(range(len(every)), ticks)
    axes.set_ylim(0, 1.1)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.set_xlabel("state, and the share of steps that begin in it")
    axes.set_ylabel(cooperation_title(named))
    trained = "after training, " if plan.config.runner == "rl" else ""
    _set_title(axes, outcome, f"{trained}{outcome.mode} actions")
    _legend(figure)
    _save(figure, path)


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
        color=COLOURS[p % len(COLOURS)],
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
        color="#555555",
    )


def _figure(size: tuple[float, float]) -> tuple[Any, Any]:
    """Returns a figure that needs no display, and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI)


def _band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns means and half-widths over seeds of values `[seeds, iterations]`."""
    seeds = values.shape[0]
    mean = values.mean(axis=0)
    if seeds == 1:
        return mean, np.zeros_like(mean)
    half = t_quantile(seeds - 1) * values.std(axis=0, ddof=1) / np.sqrt(seeds)
    return mean, half


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


def _share(named: dict[Name, Estimate], state: str) -> float:
    """Returns the share of steps that begin in a state, over the players."""
    shares = [
        value.mean
        for name, value in named.items()
        if (name.quantity, name.state) == (VISITATION, state) and value.count
    ]
    return float(np.mean(shares)) if shares else 0.0


def _set_title(axes: Any, outcome: Outcome, what: str) -> None:
    seeds = outcome.plan.config.num_seeds
    over = f", mean over {seeds} seeds with 95 % intervals" if seeds > 1 else ""
    axes.set_title(outcome.plan.title, loc="left", fontsize=11, pad=20)
    axes.text(
        *(0, 1.02, f"{what}{over}"),
        transform=axes.transAxes,
        fontsize=8.5,
        color="#555555",
    )


def _legend(figure: Any) -> None:
    figure.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=3)
