"""The final table, as a person reads it."""

import math
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runners.metric_names import (
    COOPERATION,
    COUNTS,
    VISITATION,
    Name,
    by_name,
    label,
    quantities,
    state_order,
    states,
)
from runners.outcome import Outcome
from runners.summary import Estimate

MAX_STATES = 16
NOTHING = "-"


def print_report(outcome: Outcome, console: Console) -> None:
    """Prints the table of an outcome's evaluation, and what its numbers are."""
    console.print(final_table(outcome))
    for line in captions(outcome):
        console.print(Text(line, style="dim"))


def final_table(outcome: Outcome) -> Table:
    """Returns the table of an evaluation: a column for each player."""
    plan = outcome.plan
    table = Table(
        title=Text(plan.title, style="bold"),
        title_justify="left",
        header_style="bold",
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("")
    for player, agent in enumerate(plan.names, start=1):
        table.add_column(f"player {player} ({agent})", justify="right", no_wrap=True)
    named = by_name(outcome.evaluation)
    players = range(1, len(plan.names) + 1)
    for quantity in quantities(named, of_players=True):
        cells = [_cell(named, Name(quantity, p)) for p in players]
        table.add_row(_row_label(quantity), *cells)
    known = state_order(plan.env)
    shown = _most_visited(named, states(named, COOPERATION, known))
    if shown:
        table.add_section()
        table.add_row(Text(_state_title(plan.env), style="bold"))
    for state in shown:
        table.add_row(f"  {state}", *(_state_cell(named, p, state) for p in players))
    return table


def captions(outcome: Outcome) -> list[str]:
    """Returns what the numbers of the table are, line by line."""
    plan, config = outcome.plan, outcome.plan.config
    named = by_name(outcome.evaluation)
    acting = "actions sampled" if outcome.mode == "sampled" else "greedy actions"
    steps = plan.env.num_inner_steps * plan.env.num_outer_steps
    what = f"{config.num_envs} games of {steps} steps without learning, {acting}" + (
        f"; mean ± 95 % confidence interval over {config.num_seeds} seeds"
        if config.num_seeds > 1
        else "; one seed, so no interval (--num-seeds 8 gives one)"
    )
    whole = [
        f"{label(q)} {_number(named[Name(q)])}"
        for q in quantities(named, of_players=False)
        if q in ("welfare", "equality")
    ]
    lines = [what, ", ".join(whole)]
    if any(name.quantity == COOPERATION for name in named):
        lines.append(_legend(plan.env))
    return [line for line in lines if line]


def scaled(value: Estimate, factor: float) -> Estimate:
    """Returns an estimate in another unit."""
    half = None if value.half_width is None else value.half_width * abs(factor)
    values = tuple(v * factor for v in value.values)
    return Estimate(value.mean * factor, half, value.count, values)


def _cell(named: dict[Name, Estimate], name: Name) -> str:
    if name not in named:
        return NOTHING
    value = named[name]
    if name.quantity in COUNTS:
        value = scaled(value, 1 / named[Name("count")].mean)
    return _number(value)


def _state_cell(named: dict[Name, Estimate], player: int, state: str) -> Text | str:
    value = named.get(Name(COOPERATION, player, state))
    if value is None or not value.count:
        return Text("not visited", style="dim")
    share = named.get(Name(VISITATION, player, state))
    text = Text(_number(value))
    if share is not None and share.count:
        text.append(f"  {share.mean:6.1%}", style="dim")
    return text


def _number(value: Estimate) -> str:
    if not value.count:
        return NOTHING
    digits = _digits(value.mean)
    text = f"{value.mean:.{digits}f}"
    if value.half_width is not None:
        text += f" ± {value.half_width:.{digits}f}"
    return text


def _digits(mean: float) -> int:
    """Returns how many decimals show about four leading digits."""
    size = math.floor(math.log10(abs(mean))) if mean else 0
    return max(0, min(3, 3 - size)) if size > 0 else 3


def _most_visited(named: dict[Name, Estimate], every: list[str]) -> list[str]:
    """Returns the states that somebody visited, at most `MAX_STATES` of them."""

    def visits(state: str) -> float:
        shares = [v.mean for k, v in named.items() if k[::2] == (VISITATION, state)]
        return sum(share for share in shares if not math.isnan(share))

    shares = {state: visits(state) for state in every}
    ranked = sorted(every, key=shares.__getitem__, reverse=True)[:MAX_STATES]
    return [state for state in every if state in ranked and shares[state] > 0]


def _row_label(quantity: str) -> str:
    return label(quantity)


def _state_title(env: Any) -> str:
    return "P(cooperate | state)"


def _legend(env: Any) -> str:
    if "START" in state_order(env):
        return (
            "States are the last actions, the player's own first: in CD it cooperated "
            "and the other defected. In grey: the share of steps that begin there"
        )
    return (
        "States are what the player and the other took last: C its own coin, D the "
        "other's, S none yet. In grey: the share of steps that begin there"
    )
