"""A description of a game: its players, actions, observations and payoffs."""

import dataclasses
import inspect
import re

import numpy as np
from jaxtyping import PyTree

from paxenv.environment import Environment
from paxenv.payoffs import describe_payoff
from paxenv.registry import GameSpec
from paxenv.wording import counted
from runners.planning.game import payoff_table

SECTIONS = ("Description", "Observation", "Action", "Reward", "End")
SECTION = re.compile(r"([A-Z][A-Za-z ]*):")
TWO_ACTIONS = ("C, cooperate", "D, defect")
MAX_CELLS = 36


def description(spec: GameSpec, env: Environment, params: PyTree) -> list[str]:
    """Returns the lines that explain a game."""
    about = [] if spec.summary else introduction(type(env))
    lines = [f"{spec.id}: {spec.summary}".rstrip(": "), *about, ""]
    steps = counted(env.num_inner_steps, "step")
    trial = f", {env.num_outer_steps} of them in a trial"
    lines += [
        f"players: {env.num_players}",
        f"episode: {steps}{trial * (env.num_outer_steps > 1)}",
        *([f"usual opponent: {spec.opponent}"] if spec.opponent else []),
        "",
        *_actions(env),
        "",
        *_observations(env),
        "",
        *payoff_lines(env, params),
    ]
    sections = _docstring_sections(type(env))
    for title in SECTIONS:
        if title in sections:
            lines += ["", f"{title}:", *(f"  {line}" for line in sections[title])]
    numbers = _docstring_sections(type(params)).get("Attributes", [])
    if numbers:
        lines += ["", "Numbers:", *(f"  {line}" for line in numbers)]
    return lines


def introduction(described: object) -> list[str]:
    """Returns the lines of a docstring before its first section."""
    text = inspect.getdoc(described) or ""
    lines = text.splitlines()
    ends = [i for i, line in enumerate(lines) if SECTION.fullmatch(line)]
    return "\n".join(lines[: ends[0]] if ends else lines).strip().splitlines()


def summary(described: object) -> str:
    """Returns the first paragraph of a class's own docstring in one line, or ""."""
    own = vars(described).get("__doc__")
    paragraph = "\n".join(introduction(described) if own else []).split("\n\n")[0]
    return " ".join(paragraph.split())


def action_names(env: Environment, player: int) -> tuple[str, ...]:
    """Returns the names of a player's actions in order, () for continuous ones."""
    named = getattr(env, "action_names", None)
    if named is not None:
        return tuple(named(player))
    number = getattr(env.action_space(player), "n", None)
    if number is None:
        return ()
    return TWO_ACTIONS if int(number) == 2 else tuple(map(str, range(int(number))))


def _actions(env: Environment) -> list[str]:
    alike = all(
        env.action_space(p) == env.action_space(0) for p in range(env.num_players)
    )
    lines = []
    for player in range(1 if alike else env.num_players):
        names = action_names(env, player)
        who = "each player" if alike else f"player {player + 1}"
        if not names:
            lines.append(f"actions of {who}: {env.action_space(player)}")
            continue
        lines.append(f"actions of {who}: {len(names)}")
        lines += [f"  {i} = {name}" for i, name in enumerate(names)]
    return lines


def _observations(env: Environment) -> list[str]:
    space = env.observation_space(0)
    named = getattr(env, "state_names", None)
    if named is None:
        return [f"observation of each player: {space}"]
    names = tuple(named(0))
    lines = [
        f"observation of each player: the last joint action, one of {len(names)} "
        f"states, as {space}"
    ]
    for i, state in enumerate(names):
        lines.append(f"  {i} = {_state_meaning(state)}")
    if env.num_players == 2 and "CD" in names:
        lines.append(
            "  every player sees its own action first, so the second player sees DC "
            "where the first sees CD"
        )
    return lines


def _state_meaning(state: str) -> str:
    words = {"C": "cooperated", "D": "defected"}
    if state == "START":
        return "START: nothing has been played yet"
    if len(state) == 2 and set(state) <= set("CD"):
        own, other = (words[letter] for letter in state)
        return f"{state}: it {own}, the other {other}"
    return state


def payoff_lines(env: Environment, params: PyTree) -> list[str]:
    """Returns a game's payoff cell by cell."""
    payoff = payoff_table(params)
    if payoff is None:
        return [f"numbers: {_numbers(params)}"]
    num_actions = getattr(env, "num_actions", None)
    if isinstance(num_actions, tuple) and len(num_actions) == env.num_players == 2:
        cells = np.reshape(payoff, (*num_actions, 2))
        if cells.size <= 2 * MAX_CELLS:
            lines = ["payoff, for player 1's action then player 2's:"]
            return lines + [f"  {line}" for line in describe_payoff(cells).split("\n")]
    return ["payoff:", *(f"  {row}" for row in payoff.tolist())]


def _docstring_sections(game_class: type) -> dict[str, list[str]]:
    """Returns the sections of a class docstring, each as lines without indentation."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in (inspect.getdoc(game_class) or "").splitlines():
        title = SECTION.fullmatch(line)
        if title:
            current = sections.setdefault(title.group(1), [])
        elif line.startswith("    "):
            current.append(line[4:])
    return sections


def _numbers(params: PyTree) -> str:
    """Returns a game's numbers as one writes them."""
    values = {f.name: getattr(params, f.name) for f in dataclasses.fields(params)}
    flat = {name: np.asarray(value).tolist() for name, value in values.items()}
    return ", ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in flat.items()
    )
