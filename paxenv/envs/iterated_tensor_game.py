"""The iterated matrix game of N players."""

import dataclasses
import math
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, PyTree

from paxenv import metrics, payoffs, spaces
from paxenv.environment import Environment, Frame
from paxenv.game import from_options, game, makes
from paxenv.params import GameParams, as_floats, from_numbers
from paxenv.rendering import tensor_game as pictures
from paxenv.types import Flag, Info, Picture, Reward, Rewards, Statistics

MAX_PLAYERS = 30
MAX_ONE_HOT = 2**16

Action = Int[Array, ""]
#: One-hot, or the index of a state.
Observation = Int8[Array, " states"] | Int[Array, ""]


class EnvParams(GameParams):
    """Numbers of an iterated tensor game.

    Attributes:
        payoff_table: Rewards, in one of two forms. Counts, `[N + 1, 2]`, for games of
            two actions in which only the number of defectors matters: the row is how
            many of all N players defect, the column the own action. Nothing reads the
            cells (0, D) and (N, C), which no play can reach. Or the payoff tensor,
            `[A_0, ..., A_{N-1}, N]`.
    """

    payoff_table: Float[Array, "..."]


@dataclasses.dataclass(frozen=True)
class _NumPlayers:
    # Fields of the last base come first: (num_players, num_inner_steps, ...).
    num_players: int = 3


@game
class IteratedTensorGame(Environment, _NumPlayers):
    """N players play the same normal-form game again and again.

    Description:
        In two-action games action 0 is "cooperate" and 1 is "defect".

    Observation:
        Each player sees the last joint action, rotated so that it comes first itself:
        player i sees (a_i, a_{i+1}, ..., a_{i-1}), read as a number whose leading digit
        is the own action (with two actions: 2^N states), or START, the last state, at
        the opening of an inner episode. One-hot int8 or an index, by `observation`;
        one-hot only up to 65,536 states.

    Action:
        `Discrete(A_i)`.

    Reward:
        From `params.payoff_table`, see `EnvParams`. Default: the donation game in
        which cooperating costs 1 and gives 2 to each other player.

    End:
        Only by time, or at random with `random_ends`.

    Versions:
        v0.

    Source:
        Lu et al., M-FOS (2022), and Souly et al., Leading the Pack: N-player Opponent
        Shaping (2023), for learning; the default payoff: `payoffs.donation_table`.

    Differences from Pax:
        int32 clocks, `done` true exactly once, an action space, the payoff tensor and
        more than two actions.

    Attributes:
        num_players: N, 2 to 30.
        num_inner_steps: Steps of an inner episode.
        num_actions: Actions of each player; default two each.
        observation: `"one_hot"` or `"index"`.
    """

    num_players: int = 3  # type: ignore[assignment]
    num_inner_steps: int = 100
    _: dataclasses.KW_ONLY
    num_actions: tuple[int, ...] = ()
    observation: str = "one_hot"

    name: ClassVar[str] = "IteratedTensorGame"
    reports_metrics: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        players = self.num_players
        if type(players) is not int or not 2 <= players <= MAX_PLAYERS:
            raise ValueError(
                f"num_players must be in 2, ..., {MAX_PLAYERS}, got {players!r}"
            )
        actions = tuple(self.num_actions or (2,) * players)
        object.__setattr__(self, "num_actions", actions)
        if len(actions) != players or any(type(n) is not int or n < 1 for n in actions):
            raise ValueError(
                f"num_actions must be a whole number >= 1 for each of {players} "
                f"players, got {actions}"
            )
        spaces.check_encoding(self.observation)
        limit = MAX_ONE_HOT if self.observation == "one_hot" else 2**31 - 2
        if self.num_states - 1 > limit:
            raise ValueError(
                f"{players} players of {actions} actions have {self.num_states - 1} "
                f"joint actions, observation={self.observation!r} shows {limit} at most"
                + (": use 'index'" if self.observation == "one_hot" else "")
            )

    @property
    def num_states(self) -> int:
        """The number of observations: every joint action, and START."""
        return math.prod(self.num_actions) + 1

    @property
    def default_params(self) -> EnvParams:
        if not self._two_actions:
            raise ValueError(
                f"a game of {self.num_actions} actions has no default payoff: pass "
                f"EnvParams(payoff_table=...) of shape {self._tensor_shape}"
            )
        table = payoffs.donation_table(self.num_players)
        return EnvParams(payoff_table=table)  # type: ignore[arg-type]

    def make_observation_space(self, player: int) -> gymnasium.Space:
        return spaces.state_space(self.num_states, self.observation)

    def make_action_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(self.num_actions[player], dtype=np.int32)

    def reset_game(
        self, draws: Any, params: EnvParams
    ) -> tuple[tuple[Observation, ...], tuple[()]]:
        start = self._observe(jnp.int32(self.num_states - 1))
        return (start,) * self.num_players, ()

    def step_game(
        self, draws: Any, game: Any, actions: tuple[Action, ...], params: EnvParams
    ) -> tuple[tuple[Observation, ...], tuple[()], Rewards, Flag, Info]:
        actions = tuple(
            jnp.clip(a, 0, n - 1)
            for a, n in zip(actions, self.num_actions, strict=True)
        )
        payoff = as_floats(params.payoff_table)
        if self._two_actions and payoff.shape == (self.num_players + 1, 2):
            rewards = count_rewards(payoff, actions)
        elif payoff.shape == self._tensor_shape:
            cell = payoff[actions]
            rewards = tuple(cell[p] for p in range(self.num_players))
        else:
            raise payoffs.PayoffError(
                f"payoff_table of shape {payoff.shape} does not fit {self.num_players} "
                f"players: expected {(self.num_players + 1, 2)} (rows: defectors, "
                f"columns: own action) or {self._tensor_shape}"
            )
        report = {"welfare": sum(rewards)}
        if self._two_actions:
            report["cooperation"] = (jnp.stack(actions) == 0).astype(jnp.float32)
        obs = tuple(
            self._observe(rotated_state(actions, self.num_actions, p))
            for p in range(self.num_players)
        )
        return obs, (), rewards, jnp.zeros((), bool), report

    def metrics_init(self) -> metrics.Accumulator:
        num_groups = len(self.group_names) if self._two_actions else 0
        return metrics.state_counts(self.num_players, num_groups)

    def metrics_update(
        self, acc: metrics.Accumulator, obs_before: PyTree, actions: PyTree, info: Info
    ) -> metrics.Accumulator:
        if not self._two_actions:
            return acc
        space = self.observation_space(0)
        numbers = jnp.arange(len(self.group_names))
        groups = [
            numbers == self._group(spaces.decode_state(obs, space))
            for obs in obs_before
        ]
        hits = [jnp.asarray(action) == 0 for action in actions]
        return metrics.count_step(acc, groups, hits, info["valid"])

    def metrics_final(self, acc: metrics.Accumulator) -> Statistics:
        if not self._two_actions:
            return {}
        names = (self.group_names,) * self.num_players
        return metrics.visitation(acc, names) | metrics.cooperation(acc, names)

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of groups of states: own action, number of others who defected."""
        others = range(self.num_players)
        return (*(f"{own}{k}D" for own in "CD" for k in others), "START")

    def render_ansi(self, frame: Frame) -> str:
        return pictures.ansi(
            frame, self.num_actions, (self.num_inner_steps, self.num_outer_steps)
        )

    def render_rgb(self, frame: Frame) -> Picture:
        return pictures.rgb(
            frame, self.num_actions, (self.num_inner_steps, self.num_outer_steps)
        )

    @property
    def _two_actions(self) -> bool:
        return self.num_actions == (2,) * self.num_players

    @property
    def _tensor_shape(self) -> tuple[int, ...]:
        return (*self.num_actions, self.num_players)

    def _group(self, state: jax.Array) -> jax.Array:
        """Returns the group of a state: own action, then how many others defected."""
        others = self.num_players - 1
        defectors = jax.lax.population_count(state & (2**others - 1))
        group = (state >> others) * self.num_players + defectors
        return jnp.where(state == self.num_states - 1, 2 * self.num_players, group)

    def _observe(self, state: jax.Array) -> jax.Array:
        return spaces.encode_state(state, self.num_states, self.observation)


def count_rewards(
    table: Float[Array, "rows 2"], actions: tuple[Action, ...]
) -> tuple[Reward, ...]:
    """Returns rewards of a two-action game in which only numbers matter.

    Args:
        table: `[N + 1, 2]`, see `EnvParams`. The cells that no play can reach are not
            even read, so whatever they hold reaches neither a reward nor a gradient.
        actions: One action in {0, 1} for each player, int32 scalars.
    """
    cooperator, defector = table[:-1, 0], table[1:, 1]
    total = sum(actions)
    return tuple(
        jnp.where(own == 0, cooperator[total - own], defector[total - own])
        for own in actions
    )


def rotated_state(
    actions: tuple[Action, ...], num_actions: tuple[int, ...], player: int
) -> Int[Array, ""]:
    """Returns the joint action as `player` numbers it, its own the leading digit."""
    state = jnp.zeros((), jnp.int32)
    for offset in range(len(actions)):
        p = (player + offset) % len(actions)
        state = state * num_actions[p] + actions[p]
    return state


@makes(IteratedTensorGame, EnvParams)
def make(
    payoff: Any = None, *, payoff_table: Any = None, **options: Any
) -> tuple[IteratedTensorGame, EnvParams]:
    """Returns an N-player game and its numbers.

    Args:
        payoff: Counts table `[N + 1, 2]` or tensor `[A_0, ..., A_{N-1}, N]`, as lists,
            an array, or JSON or YAML text; default: the donation game. The cells of a
            counts table that no play can reach may hold anything.
        payoff_table: Another name for `payoff`.
        **options: `num_players` (3 if not given), `num_actions`, `observation`, the
            options of every game (see `Environment`), and `continuation_prob`.

    Raises:
        ValueError: If an option is out of range.
        payoffs.PayoffError: If the payoff cannot be read; names row and column.
    """
    env, numbers = from_options(IteratedTensorGame, options)
    given = payoff if payoff_table is None else payoff_table
    table = (
        env.default_params.payoff_table
        if given is None
        else payoffs.parse_tensor(given, env.num_actions)
    )
    return env, from_numbers(EnvParams, numbers | {"payoff_table": table})
