"""Payoffs of two-player games: how they are read, shown and checked against names.

In two-action games action 0 cooperates and action 1 defects, and a player's payoffs
are called R (reward, CC), S (sucker, CD), T (temptation, DC) and P (punishment, DD).
No JAX here: the command line starts with this module.
"""

import itertools
import re
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float64

from paxenv.payoff_parser import (
    PayoffError,
    labelled_rows,
    parse_table,
    read,
    shape_of,
    size,
)
from paxenv.payoff_presets import (
    PRESETS,
    Preset,
    find_preset,
    preset,
    role_payoffs,
    symmetric,
)
from paxenv.suggestions import OptionError

__all__ = [
    "PRESETS",
    "DilemmaWarning",
    "PayoffError",
    "Preset",
    "as_cells",
    "cell_names",
    "describe_payoff",
    "dilemma_notice",
    "donation_table",
    "named_payoff",
    "parse_payoff",
    "parse_table",
    "parse_tensor",
    "preset",
]

#: Rewards of a two-player game.
Payoff = Float64[np.ndarray, "A_0 A_1 2"]

JOINT_ACTIONS = ("CC", "CD", "DC", "DD")
FORM = (
    "one row for each of CC, CD, DC, DD and one column for each player, such as "
    "[[-1,-1],[-3,0],[0,-3],[-2,-2]] or CC=-1,-1 CD=-3,0 DC=0,-3 DD=-2,-2, "
    "or R,S,T,P of a symmetric game, such as -1,-3,0,-2, or a name such as IPD"
)


class DilemmaWarning(UserWarning):
    """A game named after a dilemma was given a payoff that is not one."""


def parse_payoff(value: Any, num_actions: tuple[int, int] | None = None) -> Payoff:
    """Returns the payoff of a two-player game, float64 `[A_0, A_1, 2]`.

    Args:
        value: One of

            * rows CC, CD, DC, DD of (player 1, player 2), `[A_0 * A_1, 2]`, or the
              tensor `[A_0, A_1, 2]`, as lists, an array, or JSON or YAML text;
            * labelled rows in any order, `"CC=-1,-1 CD=-3,0 DC=0,-3 DD=-2,-2"`, or a
              mapping from the four labels to rows;
            * four numbers R, S, T, P of player 1 in a symmetric game of two actions,
              `"-1,-3,0,-2"`;
            * the name of a preset, `"Chicken"`.
        num_actions: (A_0, A_1). By default read off the shape; a table of rows is
            then taken for a square game.

    Raises:
        PayoffError: If the value is none of these, or has another size.

    Example:
        >>> parse_payoff("-1,-3,0,-2").tolist()
        [[[-1.0, -1.0], [-3.0, 0.0]], [[0.0, -3.0], [-2.0, -2.0]]]
    """
    if num_actions is not None and np.shape(num_actions) != (2,):
        said = f"num_actions must be two whole numbers >= 1, got {num_actions!r}"
        raise OptionError(said, "num_actions")
    table = parse_table(_rows(value), form=FORM)
    actions = num_actions or _num_actions(table.shape)
    rows, tensor = (actions[0] * actions[1], 2), (*actions, 2)
    if table.shape == tensor or table.shape == rows:
        return table.reshape(tensor)
    raise PayoffError(
        f"payoff has {size(table.shape)}, but a game of {actions[0]} and {actions[1]} "
        f"actions needs {size(rows)}, or the tensor {tensor}; expected {FORM}"
    )


def parse_tensor(
    value: Any, num_actions: tuple[int, ...]
) -> Float64[np.ndarray, "..."]:
    """Returns the payoff of an N-player game, float64.

    Args:
        value: Lists, an array, or JSON or YAML text: the tensor
            `[A_0, ..., A_{N-1}, N]` or, for games of two actions each, the counts
            table `[N + 1, 2]`: the row is how many of all N players defect, the column
            the own action. The cells (0, D) and (N, C), which no play can reach, may
            hold anything and come back as 0.
        num_actions: The number of actions of each player.

    Raises:
        PayoffError: If the value is neither.
    """
    num_players = len(num_actions)
    nested = read(value)
    if set(num_actions) != {2} or len(shape_of(nested)) != 2:
        return parse_table(nested, (*num_actions, num_players))
    unused = np.zeros((num_players + 1, 2), bool)
    unused[0, 1] = unused[-1, 0] = True
    form = (
        "a row for each number of defectors and a column for each own action, C and D"
    )
    return parse_table(nested, unused.shape, form=form, unused=unused)


def named_payoff(
    value: Any, game: str | None, num_actions: tuple[int, int] | None = None
) -> Payoff:
    """Returns the payoff of a game that is named after a preset.

    Args:
        value: A payoff as `parse_payoff` reads it, or None for that of the preset.
        game: The preset's name, or None for a game without a name; its default is
            the prisoner's dilemma.
        num_actions: As in `parse_payoff`.

    Warns:
        DilemmaWarning: If the payoff is not the game that it is named after.
    """
    table = parse_payoff((game or "IPD") if value is None else value, num_actions)
    notice = dilemma_notice(game, table) if game else None
    if notice:
        # user -> paxenv.make -> the game's make, decorated -> here
        warnings.warn(notice, DilemmaWarning, stacklevel=5)
    return table


def as_cells(payoff: Any, num_actions: tuple[int, int]) -> Any:
    """Returns a payoff array as rows of joint actions, `[A_0 * A_1, 2]`.

    Args:
        payoff: `[A_0 * A_1, 2]` or `[A_0, A_1, 2]`, of NumPy or of JAX.
        num_actions: (A_0, A_1).

    Raises:
        PayoffError: If the shape fits neither.
    """
    cells = num_actions[0] * num_actions[1]
    if payoff.shape not in ((cells, 2), (*num_actions, 2)):
        raise PayoffError(
            f"payoff_matrix of shape {payoff.shape} does not fit {num_actions} "
            f"actions: expected {(cells, 2)} (one row for each joint action, one "
            f"column for each player) or {(*num_actions, 2)}"
        )
    return payoff.reshape(cells, 2)


def cell_names(num_actions: tuple[int, int]) -> tuple[str, ...]:
    """Returns the names of the joint actions: CC, CD, DC, DD, or pairs of numbers."""
    if num_actions == (2, 2):
        return JOINT_ACTIONS
    rows, columns = num_actions
    return tuple(f"{row},{column}" for row in range(rows) for column in range(columns))


def describe_payoff(payoff: Any, num_actions: tuple[int, int] | None = None) -> str:
    """Returns a payoff, as `parse_payoff` reads it, as text: one line for each cell."""
    table = parse_payoff(payoff, num_actions)
    names = cell_names((table.shape[0], table.shape[1]))
    rewards = [[f"{x:.7g}" for x in cell] for cell in table.reshape(-1, 2)]
    width = max(len(text) for cell in rewards for text in cell)
    return "\n".join(
        f"{name}  player 1 gets {first:>{width}}  player 2 gets {second:>{width}}"
        for name, (first, second) in zip(names, rewards, strict=True)
    )


def dilemma_notice(name: str, payoff: Any) -> str | None:
    """Returns a warning if a payoff is not the game that it is named after, or None.

    Where it is that game once actions are renamed, the warning holds the payoff in
    the order that this package uses (0 = cooperate, 1 = defect).

    Args:
        name: A preset's name or id; for any other name there is nothing to say.
        payoff: The payoff, in any form that `parse_payoff` reads.
    """
    known = find_preset(name)
    if known is None:
        return None
    table = parse_payoff(payoff)
    if _is(known, table):
        return None
    notice = f"this payoff is not {known.name}, which needs {known.ordering}"
    if table.shape == (2, 2, 2):
        for player, own in enumerate(role_payoffs(table), start=1):
            pairs = zip("RSTP", own, strict=True)
            numbers = ", ".join(f"{letter}={x:.7g}" for letter, x in pairs)
            notice += f"; player {player} has {numbers}"
    notice += ". It is played as given."
    for relabelled in _relabellings(table):
        if _is(known, relabelled):
            return (
                f"{notice} With the action labels exchanged it is {known.name} (here "
                f"0 = cooperate, 1 = defect); reordered: {_as_text(relabelled)}"
            )
    return notice


def donation_table(
    num_players: int, benefit: float = 2.0, cost: float = 1.0
) -> Float64[np.ndarray, "rows 2"]:
    """Returns the counts table of an N-player donation game, float64 `[N + 1, 2]`.

    A player earns `benefit` for each other who cooperates, and `cost` for defecting.
    Row: how many of all N players defect; column: own action. The cells that cannot
    be reached, (0, D) and (N, C), are 0. With two players it is 2/0/3/1.

    Source: Hilbe et al., Cooperation and control in multiplayer social dilemmas
    (2014): the linear public goods game, shifted.
    """
    earned = benefit * (num_players - 1 - np.arange(num_players))
    table = np.zeros((num_players + 1, 2))
    table[:-1, 0] = earned
    table[1:, 1] = earned + cost
    return table


def _rows(value: Any) -> Any:
    """Returns nested lists for any way to write a payoff."""
    if isinstance(value, str) and _is_name(value):
        try:
            return preset(value).table
        except PayoffError as error:
            raise PayoffError(f"{error}; expected {FORM}") from None
    if not (isinstance(value, str) and "=" in value):
        value = read(value, hint=f"; expected {FORM}")
    value = labelled_rows(value, JOINT_ACTIONS)
    if isinstance(value, str):
        value = value.split(",")
    if _is_list(value) and len(value) == 4 and not any(map(_is_list, value)):
        return symmetric(*value)
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_name(text: str) -> bool:
    return bool(re.fullmatch(r"\s*(?!null\b)[A-Za-z][\w/-]*\s*", text))


def _num_actions(shape: tuple[int, ...]) -> tuple[int, int]:
    """Returns how many actions a payoff is of; the usual two if it fits no number."""
    if shape[-1] != 2:
        return 2, 2
    if len(shape) == 3:
        return shape[0], shape[1]
    side = round(shape[0] ** 0.5)
    return (side, side) if side * side == shape[0] else (2, 2)


def _is(known: Preset, payoff: np.ndarray) -> bool:
    return payoff.shape[:2] == known.num_actions and known.holds(payoff)


def _relabellings(payoff: np.ndarray) -> list[np.ndarray]:
    """Returns the payoff with actions renamed in every way, alike for both first."""
    rows, columns = (itertools.permutations(range(n)) for n in payoff.shape[:2])
    pairs = list(itertools.product(rows, columns))
    pairs.sort(key=lambda pair: pair[0] != pair[1])
    return [payoff[np.ix_(row, column)] for row, column in pairs]


def _as_text(payoff: np.ndarray) -> str:
    cells = (f"[{a:.7g},{b:.7g}]" for a, b in payoff.reshape(-1, 2))
    return f"[{','.join(cells)}]"
