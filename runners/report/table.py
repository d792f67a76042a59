"""The final table of a run."""

import math
import re
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from paxenv.wording import counted
from runners.engine.metric_names import (
    COOPERATION,
    COUNTS,
    VISITATION,
    Name,
    by_name,
    cooperation_title,
    label,
    of_game,
    quantities,
    state_order,
    states,
)
from runners.engine.statistics import Estimate, robust
from runners.planning.plan import Plan
from runners.planning.seating import learns_within_a_trial
from runners.session.outcome import Outcome

MAX_STATES = 16
#: More players and the shares of steps would not fit a terminal.
MAX_WITH_SHARES = 2
NOTHING = "-"
#: Wider than any table.
WIDEST = 10_000
#: States of games of many players: C2D.
GROUPED = re.compile(r"[CD]\d+D")


def print_whole(table: Table, console: Console) -> None:
    """Prints a table whose columns do not wrap, also wider than the console is.

    Lines that a narrow terminal breaks can be read, numbers that are cut off cannot.
    """
    free = console.options.update(max_width=WIDEST)
    width = console.width
    console.width = max(width, console.measure(table, options=free).maximum)
    console.print(table)
    console.width = width


def print_report(outcome: Outcome, console: Console) -> None:
    """Prints the table of an outcome's evaluation, with captions."""
    print_whole(final_table(outcome), console)
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
    named = by_name(outcome.evaluation)
    whole = of_game(named, outcome.evaluation)
    table.add_column("", no_wrap=True)
    for player, agent in enumerate(plan.names, start=1):
        header = f"player {player}\n{agent}"
        table.add_column(header, justify="right", no_wrap=True)
    if whole:
        table.add_column("game", justify="right", no_wrap=True)
    players = range(1, len(plan.names) + 1)
    for quantity in quantities(named, of_players=True):
        cells = [_cell(named, Name(quantity, p)) for p in players]
        table.add_row(label(quantity), *cells)
    for quantity in whole:
        empty = [""] * len(plan.names)
        table.add_row(label(quantity), *empty, number(named[Name(quantity)]))
    known = state_order(plan.env)
    shown = _most_visited(named, states(named, COOPERATION, known))
    if shown:
        table.add_section()
        table.add_row(Text(cooperation_title(named), style="bold"))
    for state in shown:
        cells = [_state_cell(named, Name(COOPERATION, p, state)) for p in players]
        if len(plan.names) <= MAX_WITH_SHARES:
            cells = [_with_share(named, p, cells[p - 1], state) for p in players]
        table.add_row(f"  {state}", *cells)
    return table


def captions(outcome: Outcome) -> list[str]:
    """Returns the captions of the table, line by line."""
    plan, config = outcome.plan, outcome.plan.config
    named = by_name(outcome.evaluation)
    acting = "actions sampled" if outcome.mode == "sampled" else "greedy actions"
    steps = plan.env.num_inner_steps * plan.env.num_outer_steps
    each = f"of {counted(steps, 'step')}{_if_shorter(plan, named)}"
    games = f"{counted(plan.num_eval_games, 'game')} {each} {_who_learns(plan)}"
    if plan.evolves:
        learning = any(slot.learns for slot in plan.experiment.slots)
        whom = counted(plan.num_eval_opponents, "opponent") + " that learn" * learning
        games = (
            f"the mean of the search in {counted(plan.num_eval_games, 'trial')} {each} "
            f"against each of {whom}"
        )
    what = f"{games}, {acting}" + (
        f"; mean ± 95 % confidence interval over {counted(config.num_seeds, 'seed')}"
        if config.num_seeds > 1
        else "; one seed, so no interval (--num-seeds 8 gives one)"
    )
    whole = [
        f"{label(q)} {number(named[Name(q)])}"
        for q in quantities(named, of_players=False)
        if q in ("welfare", "equality") and len(plan.names) > 1
    ]
    lines = [what, *_robust_lines(plan, named), ", ".join(whole)]
    if any(name.quantity == COOPERATION for name in named):
        shares = "; in grey: the share of steps that begin there"
        lines.append(_legend(named) + shares * (len(plan.names) <= MAX_WITH_SHARES))
    return [line for line in lines if line]


def _robust_lines(plan: Plan, named: dict[Name, Estimate]) -> list[str]:
    """Returns interquartile means of the rewards, and which seeds failed."""
    found = {
        player: robust(named[name])
        for player in range(1, len(plan.names) + 1)
        if (name := Name("reward_per_step", player)) in named
    }
    known = {player: value for player, value in found.items() if value is not None}
    if not known:
        return []
    means = ", ".join(
        f"player {player} {value.mean:.3f} [{value.interval[0]:.3f}, "
        f"{value.interval[1]:.3f}]"
        for player, value in known.items()
    )
    failed = sorted({seed for value in known.values() for seed in value.failed})
    lines = [f"interquartile mean over seeds, with bootstrap interval: {means}"]
    if failed:
        lines.append(f"failed seeds: {', '.join(map(str, failed))}")
    return lines


def _who_learns(plan: Plan) -> str:
    """Returns whether anybody learns within the trials of an evaluation."""
    players = [
        str(player + 1)
        for slot in plan.experiment.slots
        if learns_within_a_trial(slot, plan.env)
        for player in slot.players
    ]
    if not players:
        return "without learning"
    who = "player" if len(players) == 1 else "players"
    verb = "learns" if len(players) == 1 else "learn"
    return f"in which {who} {' and '.join(players)} {verb} from episode to episode"


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
    return number(value)


def _state_cell(named: dict[Name, Estimate], name: Name) -> Text:
    value = named.get(name)
    if value is None or not value.count:
        return Text("not visited", style="dim")
    return Text(number(value))


def _with_share(
    named: dict[Name, Estimate], player: int, cell: Text, state: str
) -> Text:
    share = named.get(Name(VISITATION, player, state))
    if share is not None and share.mean > 0:
        cell.append(f"  {share.mean:6.1%}", style="dim")
    return cell


def _if_shorter(plan: Plan, named: Mapping[Name, Estimate]) -> str:
    """Returns what was played of a game's steps, if episodes ended before."""
    length = named.get(Name("length"))
    played = plan.env.num_outer_steps * length.mean if length else math.nan
    most = plan.env.num_inner_steps * plan.env.num_outer_steps
    return f" at most, {played:.1f} in the mean," if played < most - 1e-3 else ""


def number(value: Estimate) -> str:
    """Returns a mean with its interval, in about four digits."""
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


def _legend(names: Iterable[Name]) -> str:
    """Returns how the states of the table are read."""
    known = {name.state for name in names if name.quantity == COOPERATION}
    if any(name.quantity == "own_coins" for name in names):
        return (
            "Conventions: what the player and the other took last, C a coin of the own "
            "colour, D the other's, S none yet"
        )
    if "CD" in known:
        return (
            "States are the last actions, the player's own first: in CD it cooperated "
            "and the other defected"
        )
    if any(GROUPED.fullmatch(state) for state in known):
        return (
            "States are the player's last action and how many others defected: in C2D "
            "it cooperated and two defected"
        )
    return "States as the game names them"
