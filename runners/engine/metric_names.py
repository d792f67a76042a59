"""Parsing of metric names: `group/quantity/player_1/state`."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

#: Groups whose metrics are means over the episodes that ended.
EPISODE_GROUPS = frozenset({"episode", "env", "reward_components"})
#: Other metrics that are means over episodes.
MEANS_OVER_EPISODES = frozenset({"rollout/mean_episode_reward"})
#: The number of episodes that ended.
EPISODE_COUNT = "episode/count"
#: The number of gradient steps of a learner, where there may be none.
GRADIENT_STEPS = "/gradient_steps"

T = TypeVar("T")

PLAYER = re.compile(r"player_\d+")

COOPERATION = "cooperation_probability"
VISITATION = "state_visitation"

#: Sums over all games of an iteration, which are shown per episode.
COUNTS = ("own_coins", "other_coins")

#: Quantities that the engine measures in every episode.
OF_EPISODES = (
    *("count", "length", "truncated", "welfare", "equality", "mean_reward"),
    *("return", "return_min", "return_max", "reward_per_step", "reward_per_step_last"),
)

#: Prefix of a game's own metric where the engine has one of the same name.
OWN = "game's "

#: Quantities of single games, which are left out beside means.
EXTREMES = ("return_min", "return_max")

LABELS = {
    "reward_per_step": "reward per step",
    "mean_reward": "mean return of an episode",
    "reward_per_step_last": "reward per step, last episode",
    "return": "return of an episode",
    "return_last_100": "return of the last 100 episodes",
    "cooperation_rate": "cooperation rate",
    "own_coins": "own coins per episode",
    "other_coins": "other's coins per episode",
    "own_coin_fraction": "share of own coins",
    "welfare": "welfare (sum of returns)",
    "equality": "equality (1 = equal)",
    "length": "steps of an episode",
    "length_last_100": "steps of the last 100 episodes",
}

#: Groups of metrics in words; groups of play have no word.
GROUPS = {
    "train": "training",
    "rollout": "rollout",
    "eval": "evaluation",
    "time": "time",
}

#: Quantities in the order of display; the others follow.
ORDER = tuple(LABELS)


class Name(NamedTuple):
    """One metric name in parts.

    Attributes:
        quantity: The measured quantity.
        player: Its player, from 1; 0 for a quantity of the game.
        state: The state of the game in which it is measured; empty for all.
    """

    quantity: str
    player: int = 0
    state: str = ""


def group(name: str) -> str:
    """Returns the part of a metric's name before the first slash."""
    return name.partition("/")[0]


def is_of_episodes(name: str) -> bool:
    """Returns whether a metric is a mean over the episodes that ended."""
    if name == EPISODE_COUNT:
        return False
    return group(name) in EPISODE_GROUPS or name in MEANS_OVER_EPISODES


def parse(name: str) -> Name | None:
    """Returns the parts of a metric name, None for those of training and timing."""
    group, _, rest = name.partition("/")
    if group not in ("episode", "env") or not rest:
        return None
    if group == "env" and rest.partition("/")[0] in OF_EPISODES:
        # A game's own metric of that name is not the engine's.
        rest = f"{OWN}{rest}"
    parts = rest.split("/")
    for i, part in enumerate(parts):
        number = part.removeprefix("player_")
        if number != part and number.isdigit():
            quantity = "/".join(parts[:i])
            return Name(quantity, int(number), "/".join(parts[i + 1 :]))
    return Name(rest)


def by_name(metrics: Mapping[str, T]) -> dict[Name, T]:
    """Returns the metrics of play by their parsed names."""
    parsed = {parse(name): value for name, value in metrics.items()}
    return {name: value for name, value in parsed.items() if name is not None}


def quantities(names: Mapping[Name, object], *, of_players: bool) -> list[str]:
    """Returns the quantities without states and extremes, in the order of `ORDER`."""
    found = {
        name.quantity
        for name in names
        if not name.state
        and bool(name.player) == of_players
        and name.quantity not in EXTREMES
    }
    ranks = {quantity: i for i, quantity in enumerate(ORDER)}
    return sorted(found, key=lambda q: (ranks.get(q, len(ranks)), q))


def of_game(names: Mapping[Name, object], metrics: Iterable[str]) -> list[str]:
    """Returns the quantities of the game as a whole, not of a player."""
    own = {parse(metric) for metric in metrics if metric.startswith("env/")}
    return [q for q in quantities(names, of_players=False) if Name(q) in own]


def states(
    names: Mapping[Name, object], quantity: str, known: tuple[str, ...]
) -> list[str]:
    """Returns the states in which a quantity is known, those of `known` first."""
    found = {name.state for name in names if name.quantity == quantity and name.state}
    first = [state for state in known if state in found]
    return first + sorted(found - set(first))


def cooperation_title(names: Iterable[Name]) -> str:
    """Returns the meaning of `cooperation_probability` in this game, in words."""
    if any(name.quantity == "own_coins" for name in names):
        return "P(own coin | conventions)"
    return "P(cooperate | state)"


def label(quantity: str) -> str:
    """Returns a quantity in words."""
    return LABELS.get(quantity, quantity.replace("_", " ").replace("/", " "))


def words(metric: str) -> str:
    """Returns the name of any metric in words.

    Example:
        >>> words("eval/sampled/episode/reward_per_step/player_1")
        'reward per step of player 1 (evaluation, sampled actions)'
    """
    *groups, name = metric.split("/", 1)
    where = [GROUPS[group] for group in groups if group in GROUPS]
    if not where and groups and groups[0] not in ("episode", "env"):
        name = metric
    for mode in ("sampled", "greedy"):
        if name.startswith(f"{mode}/"):
            where.append(f"{mode} actions")
            name = name.removeprefix(f"{mode}/")
    for group in ("episode/", "env/"):
        name = name.removeprefix(group)
    parts = name.split("/")
    places = [i for i, part in enumerate(parts) if PLAYER.fullmatch(part)]
    whose = ""
    if places:
        place = places[0]
        whose = f" of {parts[place].replace('_', ' ')}"
        # `quantity/player_1/state`, or `player_1/loss/policy` of a training.
        state = parts[place + 1 :] if place else []
        whose += f" in {'/'.join(state)}" if state else ""
        parts = parts[:place] or parts[1:]
    about = f" ({', '.join(where)})" if where else ""
    return f"{label('/'.join(parts))}{whose}{about}"


def state_order(env: object) -> tuple[str, ...]:
    """Returns a game's state names in its own order, () if it names none."""
    named: Any = getattr(env, "state_names", None)
    return tuple(named(0)) if named is not None else ()
