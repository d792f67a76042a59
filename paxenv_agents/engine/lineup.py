"""Who plays whom: slots seat agents, and a lineup has a slot for every player."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from paxenv import keys, scalars
from paxenv.environment import Environment, native
from paxenv.single_player import SinglePlayerParams
from paxenv_agents.agent import Agent

CLOCKS = ("inner", "trial", "none")


@dataclasses.dataclass(frozen=True)
class Slot:
    """Seats one agent, with one training state, as one or more players.

    The callables are compared by identity, so pass module-level functions or equal
    frozen objects: a new lambda is a new experiment and compiles again.

    Attributes:
        agent: The agent.
        players: The players it plays, from 0.
        clock: When it learns: `"inner"` after every inner episode, `"trial"` after
            the trial, which it sees as one sequence, or `"none"`. In a trial of one
            inner episode `"inner"` means `"trial"`.
        per_opponent: Whether each opponent has a training state of its own; otherwise
            all share one.
        reset: When the slot gets a new training state: `"never"`, in every `"trial"`,
            or in every n-th trial.
        sampler: `sampler(key, hyper) -> hyper`, applied to every new training state.
        schedule: `schedule(hyper, k) -> hyper` before inner episode `k`, for as long
            as that episode lasts.
        observe: `observe(obs, params, game, player) -> obs`, what it sees of a game:
            `game` is the game's index among those it plays at once.
        self_play_players: Self-play: the agent takes the places of these players, who
            belong to other slots, in some of the games.
        self_play_prob: `self_play_prob(e)`, the probability of self-play in trial `e`,
            drawn independently for each game and each of these players.
    """

    agent: Agent
    players: tuple[int, ...] = (0,)
    clock: str = "trial"
    per_opponent: bool = False
    reset: str | int = "never"
    sampler: Callable[..., Any] | None = None
    schedule: Callable[..., Any] | None = None
    observe: Callable[..., Any] | None = None
    self_play_players: tuple[int, ...] = ()
    self_play_prob: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "players", tuple(self.players))
        scalars.settle(self)
        if not self.players or len(set(self.players)) != len(self.players):
            raise ValueError(
                f"a slot needs one or more different players, got {self.players}"
            )
        object.__setattr__(self, "self_play_players", tuple(self.self_play_players))
        if bool(self.self_play_players) != (self.self_play_prob is not None):
            raise ValueError(
                "self_play_players and self_play_prob belong together, got "
                f"self_play_players={self.self_play_players}, "
                f"self_play_prob={self.self_play_prob}"
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
        """Trials between two new training states, None for never."""
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
        others = [p for slot in self.slots for p in slot.self_play_players]
        own = any(
            set(slot.self_play_players) & set(slot.players) for slot in self.slots
        )
        if own or len(set(others)) != len(others) or not set(others) <= set(seats):
            raise ValueError(
                "self_play_players are players of other slots, each of them once over "
                f"all slots, got {others}"
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
    def state_axes(self) -> tuple[int | None, ...]:
        """For each slot the axis of opponents of its training state."""
        return tuple(0 if slot.per_opponent else None for slot in self.slots)

    @property
    def roles(self) -> tuple[tuple[int, int], ...]:
        """Pairs (slot, player): each player's own slot, then the slots of self-play."""
        own = tuple((self.slot_of(p), p) for p in range(self.num_players))
        return own + tuple(
            (i, p) for i, slot in enumerate(self.slots) for p in slot.self_play_players
        )

    def roles_of(self, index: int) -> tuple[int, ...]:
        """Returns indices of the roles of a slot: its own players, then self-play."""
        own = self.slots[index].players
        others = range(self.num_players, len(self.roles))
        return own + tuple(c for c in others if self.roles[c][0] == index)

    def active_roles(
        self, episode_keys: Key[Array, " games"], e: Int[Array, ""] | int
    ) -> Bool[Array, "games roles"] | None:
        """Returns which roles act in trial `e`, bool `[games, roles]`.

        For each player exactly one role acts: its own slot's, or that of self-play.
        None: there is no self-play, so every role acts.
        """
        if len(self.roles) == self.num_players:
            return None
        reset_keys = jax.vmap(keys.reset)(episode_keys)
        columns = [jnp.ones(self.num_games, bool)] * self.num_players
        for index, player in self.roles[self.num_players :]:
            prob = self.slots[index].self_play_prob
            assert prob is not None
            own_keys = jax.vmap(lambda k, p=player: keys.seating(k, 1 + p))(reset_keys)
            replaced = jax.vmap(jax.random.uniform)(own_keys) < prob(e)
            columns[player] = ~replaced
            columns.append(replaced)
        return jnp.stack(columns, axis=1)

    def slot_of(self, player: int) -> int:
        """Returns the index of the slot that plays a player."""
        return next(i for i, s in enumerate(self.slots) if player in s.players)

    def key_player(self, player: int) -> int:
        """Returns the number by which a player's keys are folded.

        It is the player's number in the whole game: `SinglePlayer` shows one player of
        a game whose other players fold keys too.
        """
        return getattr(self.env, "player", player)

    def observed(self, role: int, obs: PyTree, params: PyTree) -> PyTree:
        """Returns what the slot of a role sees of observations `[games, ...]`."""
        index, player = self.roles[role]
        observe = self.slots[index].observe
        if observe is None:
            return obs
        games = jnp.arange(self.num_games)
        return jax.vmap(observe, in_axes=(0, None, 0, None))(obs, params, games, player)


def game_params(params: PyTree) -> PyTree:
    """Returns a game's own numbers, where `params` also hold who plays in it."""
    return params.game if isinstance(params, SinglePlayerParams) else params
