"""Who sits where: slots seat agents at players, a lineup fills a game's table."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from paxenv import keys, scalars
from paxenv.environment import Environment, native
from paxenv.single_player import SinglePlayer
from paxenv_agents.agent import Agent

CLOCKS = ("inner", "trial", "none")


@dataclasses.dataclass(frozen=True)
class Slot:
    """Seats one agent, with one training state, at one or more players.

    The callables are compared by identity, so pass module-level functions or equal
    frozen objects: a new lambda is a new experiment and compiles again.

    Attributes:
        agent: The agent.
        players: The players it plays, from 0.
        clock: When it learns: `"inner"` after every inner episode, `"trial"` after
            the trial, which it sees as one sequence, or `"none"`. In a trial of one
            inner episode `"inner"` means `"trial"`.
        per_opponent: Whether each opponent axis entry has a training state of its own;
            otherwise all share one.
        reset: When its training state starts afresh: `"never"`, `"trial"`, or every n
            trials.
        sampler: `sampler(key, hyper) -> hyper`, applied whenever it starts afresh.
        schedule: `schedule(hyper, k) -> hyper` before inner episode `k`, for as long
            as that episode lasts.
        observe: `observe(obs, params, game, player) -> obs`, what it sees of a game:
            `game` is the game's index among those it plays at once.
        borrows: Players of other slots that it plays in some games instead of them:
            self-play.
        share: `share(e) -> probability` of that in trial `e`, for each game and
            borrowed player by itself.
    """

    agent: Agent
    players: tuple[int, ...] = (0,)
    clock: str = "trial"
    per_opponent: bool = False
    reset: str | int = "never"
    sampler: Callable[..., Any] | None = None
    schedule: Callable[..., Any] | None = None
    observe: Callable[..., Any] | None = None
    borrows: tuple[int, ...] = ()
    share: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "players", tuple(self.players))
        scalars.settle(self)
        if not self.players or len(set(self.players)) != len(self.players):
            raise ValueError(
                f"a slot needs one or more different players, got {self.players}"
            )
        object.__setattr__(self, "borrows", tuple(self.borrows))
        if bool(self.borrows) != (self.share is not None):
            raise ValueError(
                f"a slot that borrows players needs a share, and the other way round, "
                f"got borrows={self.borrows}, share={self.share}"
            )
        if self.clock not in CLOCKS:
            raise ValueError(f"clock must be one of {CLOCKS}, got {self.clock!r}")
        whole = isinstance(self.reset, int) and not isinstance(self.reset, bool)
        if self.reset not in ("never", "trial") and not (whole and self.reset >= 1):  # type: ignore[operator]
            raise ValueError(
                f"reset must be 'never', 'trial' or a number of trials, "
                f"got {self.reset!r}"
            )

    @property
    def learns(self) -> bool:
        """Whether this slot ever updates its agent."""
        return self.agent.learns and self.clock != "none"

    @property
    def reset_interval(self) -> int | None:
        """Trials between two fresh starts, None for never."""
        if self.reset == "never":
            return None
        return 1 if self.reset == "trial" else int(self.reset)


@dataclasses.dataclass(frozen=True)
class Lineup:
    """A game with every seat taken, played in `num_games` copies at once.

    Attributes:
        env: The game.
        slots: The slots; together they seat every player exactly once.
        num_games: Games played at once against the same co-players.
    """

    env: Environment
    slots: tuple[Slot, ...]
    num_games: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", tuple(map(self._grouped, self.slots)))
        seats = sorted(p for slot in self.slots for p in slot.players)
        if seats != list(range(native(self.env).num_players)):
            raise ValueError(
                f"{self.env.name} has players 0 to {self.env.num_players - 1}, each to "
                f"be seated once; the slots seat {seats}"
            )
        lent = [p for slot in self.slots for p in slot.borrows]
        own = any(set(slot.borrows) & set(slot.players) for slot in self.slots)
        if own or len(set(lent)) != len(lent) or not set(lent) <= set(seats):
            raise ValueError(
                f"a player is borrowed once, of another slot; the slots borrow {lent}"
            )
        if self.num_games < 1:
            raise ValueError(f"num_games must be >= 1, got {self.num_games}")
        for i, slot in enumerate(self.slots):
            several = self.env.num_outer_steps > 1 and self.clock(i) == "trial"
            if slot.agent.privileges and several:
                raise ValueError(
                    f"{type(slot.agent).__name__} looks at the next inner episode, and "
                    f"a trial has {self.env.num_outer_steps}: set clock='inner' for "
                    f"players {slot.players}, or num_outer_steps=1"
                )

    def _grouped(self, slot: Slot) -> Slot:
        agent = slot.agent.grouped(self.num_games)
        return slot if agent is slot.agent else dataclasses.replace(slot, agent=agent)

    @property
    def num_players(self) -> int:
        """The number of players of the game."""
        return self.env.num_players

    def clock(self, index: int) -> str:
        """The clock on which a slot learns, `"none"` for agents that do not learn."""
        slot = self.slots[index]
        if not slot.learns:
            return "none"
        return "trial" if self.env.num_outer_steps == 1 else slot.clock

    @property
    def chairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs (slot, player): every player's own slot, then those that borrow it."""
        own = tuple((self.seat(p), p) for p in range(self.num_players))
        return own + tuple(
            (i, p) for i, slot in enumerate(self.slots) for p in slot.borrows
        )

    def chairs_of(self, index: int) -> tuple[int, ...]:
        """Returns the chairs of a slot, its own players' first, in their order."""
        own = self.slots[index].players
        borrowed = range(self.num_players, len(self.chairs))
        return own + tuple(c for c in borrowed if self.chairs[c][0] == index)

    def seating(self, episode_keys: jax.Array, e: jax.Array) -> jax.Array | None:
        """Returns which chairs act in trial `e`, bool `[games, chairs]`.

        A player's own chair acts wherever nobody has borrowed it. None: nobody
        borrows, so all do.
        """
        if len(self.chairs) == self.num_players:
            return None
        reset_keys = jax.vmap(keys.reset)(episode_keys)
        columns = [jnp.ones(self.num_games, bool)] * self.num_players
        for index, player in self.chairs[self.num_players :]:
            share = self.slots[index].share
            assert share is not None
            own_keys = jax.vmap(lambda k, p=player: keys.seating(k, 1 + p))(reset_keys)
            borrowed = jax.vmap(jax.random.uniform)(own_keys) < share(e)
            columns[player] = ~borrowed
            columns.append(borrowed)
        return jnp.stack(columns, axis=1)

    def seat(self, player: int) -> int:
        """The index of the slot that seats a player."""
        return next(i for i, s in enumerate(self.slots) if player in s.players)

    def key_seat(self, player: int) -> int:
        """The seat by which a player's keys are folded: that in the whole game.

        `SinglePlayer` shows one seat of a game whose other seats fold keys too.
        """
        return getattr(self.env, "player", player)

    def game_params(self, params: Any) -> Any:
        """The numbers of the whole game, where `params` also hold who plays in it."""
        return game_params(self.env, params)

    def observed(self, chair: int, obs: Any, params: Any) -> Any:
        """Returns what a chair's slot sees of observations `[games, ...]`."""
        index, player = self.chairs[chair]
        observe = self.slots[index].observe
        if observe is None:
            return obs
        games = jnp.arange(self.num_games)
        return jax.vmap(observe, in_axes=(0, None, 0, None))(obs, params, games, player)


def game_params(env: Any, params: Any) -> Any:
    """Returns the numbers of the whole game, also for a seat that is shown alone."""
    return params.game if isinstance(env, SinglePlayer) else params
