"""A match of a person against agents, line by line."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paxenv import keys
from paxenv.environment import Frame
from paxenv.registry import GameSpec, find
from paxenv.single_player import SinglePlayer
from paxenv.wording import counted
from paxenv_agents.registry import make_agent
from runners.config import ConfigError
from runners.config.reading import game_options
from runners.planning.game import make_game
from runners.report.description import action_names, payoff_lines

QUIT = ("q", "quit", "exit")


@dataclasses.dataclass(frozen=True)
class Match:
    """One person and the agents at the other seats.

    Attributes:
        spec: The game's registry entry.
        env: The game of all players.
        params: Its numbers.
        view: The game as the person sees it.
        co_player: The name of the agent at the other seats.
        seed: Seed of the trial, as of lane 0 of an adapter.
    """

    spec: GameSpec
    env: Any
    params: Any
    view: SinglePlayer
    co_player: str
    seed: int

    @property
    def player(self) -> int:
        """The person's seat, from 0."""
        return self.view.player

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the person's actions."""
        return action_names(self.env, self.player)


def open_match(
    game: str,
    words: Sequence[str] = (),
    *,
    against: str | None = None,
    player: int = 1,
    seed: int = 0,
    payoff: str | None = None,
) -> Match:
    """Returns a match that is ready to be played.

    Args:
        game: A game's id.
        words: Options of the game as `KEY=VALUE`.
        against: The agent at the other seats; None: the game's usual opponent.
        player: The person's seat, from 1.
        seed: Seed of the trial.
        payoff: The game's payoff, as in `paxrun rl`.

    Raises:
        ValueError: If a name is unknown or anything does not fit.
    """
    spec = find(game)
    options = game_options(words) | ({} if payoff is None else {"payoff": payoff})
    env, params, _ = make_game(spec, options)
    if not 1 <= player <= env.num_players:
        raise ConfigError(f"player must be in 1 to {env.num_players}, got {player}")
    name = against or spec.opponent
    others = [p for p in range(env.num_players) if p != player - 1]
    agents = tuple(make_agent(name, env, player=p) for p in others)
    view = SinglePlayer(env, player - 1, agents)
    match = Match(spec, env, params, view, name, seed)
    if not match.names:
        raise ConfigError(
            f"{spec.id} has continuous actions; play is for games of named actions"
        )
    keys.lane(seed)
    return match


def play_match(
    match: Match, lines: Iterable[str], show: Callable[[str], Any], *, prompts: bool
) -> tuple[float, ...]:
    """Plays one trial with the actions in `lines`; returns the totals of all players.

    Args:
        match: The match.
        lines: One action each, by name, first letter or number; `q` stops.
        show: Called with each text to print.
        prompts: Whether to ask before each line.
    """
    view, totals = match.view, np.zeros(match.env.num_players)
    params = view.make_params(match.params)
    episode_key = keys.episode(keys.lane(match.seed), 0)
    step = jax.jit(view.step)
    obs, state = jax.jit(view.reset)(keys.reset(episode_key), params)
    show(_opening(match))
    _show_picture(match, state, obs, None, None, show)
    reader = iter(lines)
    done, played = False, 0
    while not done:
        if prompts:
            show(f"step {played + 1} of {_num_steps(match)}, your action?")
        action = _read_action(match, reader, show)
        if action is None:
            break
        key = keys.step(episode_key, state.t)
        obs, state, _, done, info = step(key, state, jnp.int32(action), params)
        rewards = np.asarray(info["rewards"], float)
        totals += rewards
        played += 1
        actions = _joint(match, action, info)
        show(_step_line(match, played, actions, rewards, totals))
        _show_picture(match, state, obs, actions, rewards, show)
        if info["inner_done"] and not done:
            show("The episode is over; the next one begins.")
    show(_closing(match, played, totals))
    return tuple(totals.tolist())


def _opening(match: Match) -> str:
    choices = ", ".join(f"{i} = {name}" for i, name in enumerate(match.names))
    return "\n".join(
        [
            f"{match.spec.id}: you are player {match.player + 1} against "
            f"{match.co_player}, {counted(_num_steps(match), 'step')}.",
            *payoff_lines(match.env, match.params),
            f"Your actions: {choices}. q stops.",
        ]
    )


def _closing(match: Match, played: int, totals: np.ndarray) -> str:
    if not played:
        return "Nothing was played."
    per_step = totals / played
    words = [
        f"{_who(match, p)} {totals[p]:g} ({per_step[p]:.3f} a step)"
        for p in range(len(totals))
    ]
    return f"After {counted(played, 'step')}: {', '.join(words)}."


def _read_action(match: Match, reader: Any, show: Callable[[str], Any]) -> int | None:
    """Returns the next legal action, None when the person stops or the input ends."""
    for line in reader:
        word = line.strip()
        if not word:
            continue
        if word.lower() in QUIT:
            return None
        action = read_action(word, match.names)
        if action is not None:
            return action
        show(f"{word!r} is no action: type one of {', '.join(match.names)}, or q.")
    return None


def read_action(word: str, names: Sequence[str]) -> int | None:
    """Returns the action that a word means: its number, its name or how that begins."""
    if word.isdecimal():
        return int(word) if int(word) < len(names) else None
    folded = [name.lower() for name in names]
    matches = [
        i
        for i, name in enumerate(folded)
        if any(part.strip().startswith(word.lower()) for part in name.split(","))
    ]
    return matches[0] if len(matches) == 1 else None


def _joint(match: Match, action: int, info: Any) -> tuple[int, ...]:
    others = np.reshape(np.asarray(info["opponent_action"]), -1).tolist()
    others.insert(match.player, action)
    return tuple(int(a) for a in others)


def _step_line(
    match: Match,
    played: int,
    actions: tuple[int, ...],
    rewards: np.ndarray,
    totals: np.ndarray,
) -> str:
    moves = []
    for p, action in enumerate(actions):
        name = action_names(match.env, p)[action].partition(",")[0]
        moves.append(f"{_who(match, p)} {name} ({rewards[p]:+g})")
    total = ", ".join(f"{_who(match, p)} {t:g}" for p, t in enumerate(totals))
    return f"{played:3}. {', '.join(moves)}; totals: {total}"


def _who(match: Match, player: int) -> str:
    if player == match.player:
        return "you"
    many = match.env.num_players > 2
    return match.co_player + (f" {player + 1}" if many else "")


def _show_picture(
    match: Match,
    state: Any,
    obs: Any,
    actions: Any,
    rewards: Any,
    show: Callable[[str], Any],
) -> None:
    """Shows the board of a game that has one; matrix games are told in words."""
    if not jax.tree.leaves(state.env.game):
        return
    frame = Frame(state.env, state.observations, actions, rewards, match.params)
    try:
        picture = match.env.render_ansi(jax.device_get(frame))
    except NotImplementedError:
        return
    show(picture)


def _num_steps(match: Match) -> int:
    return match.env.num_inner_steps * match.env.num_outer_steps
