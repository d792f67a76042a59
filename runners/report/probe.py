"""A probe's response as a table and as a picture."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from runners.planning.plan import Plan
from runners.report import figures
from runners.session.probe import Response


def table(response: Response, plan: Plan, forced: int) -> Table:
    """Returns the rates step by step: `with` and `without` the forced action."""
    shown = Table(
        title=Text(
            f"{plan.title}, player {forced} is forced at step {response.at}",
            style="bold",
        ),
        caption="rate of action 0 (cooperation), with the forced action | without it; "
        "steps are counted from the forced one",
        title_justify="left",
        caption_justify="left",
        show_edge=False,
        pad_edge=False,
    )
    shown.add_column("step", justify="right")
    for player, agent in enumerate(plan.names, start=1):
        shown.add_column(f"player {player}\n{agent}", justify="right")
    with_it, without = response.forced.mean(0), response.free.mean(0)
    for offset, ours, theirs in zip(response.offsets, with_it, without, strict=True):
        cells = [f"{a:.2f} | {b:.2f}" for a, b in zip(ours, theirs, strict=True)]
        shown.add_row(f"{offset:+d}" if offset else "0", *cells)
    return shown


def draw(response: Response, plan: Plan, forced: int, path: Path) -> None:
    """Draws every player's rates; dotted grey without the forced action."""
    figure, axes = figures.new_figure()
    for p, agent in enumerate(plan.names):
        axes.plot(
            *(response.offsets, response.free[..., p].mean(0)),
            color=figures.GREY,
            linewidth=1.0,
            linestyle=":",
        )
        figures.draw_curve(
            *(axes, p, response.offsets, response.forced[..., p]),
            f"player {p + 1} ({agent})",
        )
    axes.axvline(0, color="#999999", linewidth=0.9)
    axes.set_ylim(-0.03, 1.05)
    axes.set_xlabel("steps after the forced action")
    axes.set_ylabel("rate of action 0")
    seeds = plan.config.num_seeds
    over = f"; mean over {seeds} seeds" if seeds > 1 else ""
    subtitle = (
        f"player {forced} is forced at step {response.at}; dotted: not forced{over}"
    )
    figures.set_titles(axes, plan.title, subtitle)
    figures.set_legend(figure)
    figures.save(figure, path)
