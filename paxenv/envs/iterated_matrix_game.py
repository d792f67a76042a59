"""The iterated two-player matrix game."""

import dataclasses
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, Num, PyTree

from paxenv import metrics, payoffs, spaces
from paxenv.environment import Environment, Frame
from paxenv.game import game, make_game, makes
from paxenv.params import GameParams, as_floats
from paxenv.rendering import matrix_game as pictures
from paxenv.types import Flag, Info, Picture, Reward, Rewards, Statistics

PRISONERS_DILEMMA = ((-1.0, -1.0), (-3.0, 0.0), (0.0, -3.0), (-2.0, -2.0))
MAX_SELECTED_CELLS = 16

Action = Int[Array, ""]
#: One-hot, or the index of a state.
Observation = Int8[Array, " states"] | Int[Array, ""]


class EnvParams(GameParams):
    """Numbers of an iterated matrix game.

    Attributes:
        payoff_matrix: Rewards, `[A_0 * A_1, 2]` with rows in the order of player 1's
            action, then player 2's (CC, CD, DC, DD), or `[A_0, A_1, 2]`. Default: the
            prisoner's dilemma -1, -3, 0, -2 in years of prison.
    """

    payoff_matrix: Float[Array, "..."] = PRISONERS_DILEMMA  # type: ignore[assignment]


@game
class IteratedMatrixGame(Environment):
    """Two players play the same matrix game again and again.

    Description:
        Any two-player normal-form game, symmetric or not, square or not. In two-action
        games action 0 is "cooperate" and 1 is "defect".

    Observation:
        Each player sees the last joint action from its own side, as one of
        `A_0 * A_1` states with its own action as the leading digit (CC, CD, DC, DD:
        in CD it cooperated and the other defected), or START, the last state, at the
        opening of an inner episode. One-hot int8 or an index, by `observation`.

    Action:
        `Discrete(A_0)` and `Discrete(A_1)`.

    Reward:
        The cell of `params.payoff_matrix` that the joint action picks.

    End:
        Only by time, or at random with `random_ends`.

    Versions:
        v0.

    Source:
        Axelrod, The Evolution of Cooperation (1984); learning in the iterated
        prisoner's dilemma: Foerster et al., LOLA (2018).

    Differences from Pax:
        int32 clocks, an action space of the right size, `done` true exactly once, the
        last joint action of an inner episode in `info["final_obs"]`.
    """

    num_inner_steps: int = 100
    _: dataclasses.KW_ONLY
    num_actions: tuple[int, int] = (2, 2)
    observation: str = "one_hot"

    name: ClassVar[str] = "IteratedMatrixGame"
    reports_metrics: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "num_actions", tuple(self.num_actions))
        if len(self.num_actions) != 2 or any(
            isinstance(n, bool) or not isinstance(n, int) or n < 1
            for n in self.num_actions
        ):
            raise ValueError(
                f"num_actions must be two whole numbers >= 1, got {self.num_actions!r}"
            )
        spaces.check_encoding(self.observation)

    @property
    def num_players(self) -> int:
        return 2

    @property
    def num_states(self) -> int:
        """The number of observations: every joint action, and START."""
        return self.num_actions[0] * self.num_actions[1] + 1

    @property
    def default_params(self) -> EnvParams:
        if self.num_actions != (2, 2):
            raise ValueError(
                f"a game of {self.num_actions} actions has no default payoff: pass "
                "EnvParams(payoff_matrix=...) of shape "
                f"{(*self.num_actions, 2)}"
            )
        return EnvParams()

    def make_observation_space(self, player: int) -> gymnasium.Space:
        return spaces.state_space(self.num_states, self.observation)

    def make_action_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(self.num_actions[player], dtype=np.int32)

    def reset_game(
        self, draws: Any, params: EnvParams
    ) -> tuple[tuple[Observation, Observation], tuple[()]]:
        start = self._observe(jnp.int32(self.num_states - 1))
        return (start, start), ()

    def step_game(
        self, draws: Any, game: Any, actions: tuple[Action, Action], params: EnvParams
    ) -> tuple[tuple[Observation, Observation], tuple[()], Rewards, Flag, Info]:
        row = jnp.clip(actions[0], 0, self.num_actions[0] - 1)
        column = jnp.clip(actions[1], 0, self.num_actions[1] - 1)
        state = row * self.num_actions[1] + column
        mirrored = column * self.num_actions[0] + row
        rewards = stage_rewards(params.payoff_matrix, self.num_actions, row, column)
        report = {"welfare": rewards[0] + rewards[1]}
        if self.num_actions == (2, 2):
            report["cooperation"] = (jnp.stack((row, column)) == 0).astype(jnp.float32)
        obs = self._observe(state), self._observe(mirrored)
        return obs, (), rewards, jnp.zeros((), bool), report

    def metrics_init(self) -> metrics.Accumulator:
        return metrics.state_counts(2, self.num_states)

    def metrics_update(
        self, acc: metrics.Accumulator, obs_before: PyTree, actions: PyTree, info: Info
    ) -> metrics.Accumulator:
        states = [
            spaces.state_mask(obs, self.observation_space(p))
            for p, obs in enumerate(obs_before)
        ]
        hits = [jnp.asarray(action) == 0 for action in actions]
        return metrics.count_step(acc, states, hits, info["valid"])

    def metrics_final(self, acc: metrics.Accumulator) -> Statistics:
        names = self.state_names(0), self.state_names(1)
        named = metrics.visitation(acc, names)
        if self.num_actions == (2, 2):
            named |= metrics.cooperation(acc, names)
        return named

    def state_names(self, player: int) -> tuple[str, ...]:
        """Returns the names of a player's states: own action, then the other's."""
        own, other = self.num_actions[player], self.num_actions[1 - player]
        if self.num_actions == (2, 2):
            joint = tuple(a + b for a in "CD" for b in "CD")
        else:
            joint = tuple(f"{a},{b}" for a in range(own) for b in range(other))
        return (*joint, "START")

    def render_ansi(self, frame: Frame) -> str:
        return pictures.ansi(
            frame, self.num_actions, (self.num_inner_steps, self.num_outer_steps)
        )

    def render_rgb(self, frame: Frame) -> Picture:
        return pictures.rgb(
            frame, self.num_actions, (self.num_inner_steps, self.num_outer_steps)
        )

    def _observe(self, state: jax.Array) -> jax.Array:
        return spaces.encode_state(state, self.num_states, self.observation)


@makes(IteratedMatrixGame, EnvParams)
def make(
    payoff: Any = None,
    *,
    game: str | None = None,
    payoff_matrix: Any = None,
    num_actions: tuple[int, int] | None = None,
    **options: Any,
) -> tuple[IteratedMatrixGame, EnvParams]:
    """Returns a matrix game and its numbers.

    Args:
        payoff: The payoff in any form that `payoffs.parse_payoff` reads; default:
            that of the preset `game`.
        game: The preset that the game is named after; a payoff that is not that game
            is played as given, with a `payoffs.DilemmaWarning`. Default: no name, and
            the prisoner's dilemma.
        payoff_matrix: Another name for `payoff`.
        num_actions: (A_0, A_1), where the payoff's shape leaves it open.
        **options: `observation`, the options of every game (see `Environment`), and
            `continuation_prob`.

    Raises:
        ValueError: If an option is out of range.
        payoffs.PayoffError: If the payoff cannot be read; names row and column.
    """
    given = payoff if payoff_matrix is None else payoff_matrix
    table = payoffs.named_payoff(given, game, num_actions)
    actions, cells = table.shape[:2], table.reshape(-1, 2)
    given = {"num_actions": actions, "payoff_matrix": cells}
    return make_game(IteratedMatrixGame, EnvParams, options | given)


def stage_rewards(
    payoff: Num[Array, "..."] | np.ndarray,
    num_actions: tuple[int, int],
    row: Action,
    column: Action,
) -> tuple[Reward, Reward]:
    """Returns both players' rewards for one joint action.

    Args:
        payoff: `[A_0 * A_1, 2]` or `[A_0, A_1, 2]`; whole numbers are taken as floats.
        num_actions: (A_0, A_1).
        row: Player 1's action in [0, A_0), int32 scalar.
        column: Player 2's action.

    Raises:
        payoffs.PayoffError: At trace time, if `payoff` does not fit `num_actions`.
    """
    table = payoffs.as_cells(as_floats(payoff), num_actions)
    cell = row * num_actions[1] + column
    if len(table) > MAX_SELECTED_CELLS:
        return table[cell, 0], table[cell, 1]
    # A select of the cells is about twice as fast as a gather on a CPU.
    return tuple(jax.lax.select_n(cell, *table[:, p]) for p in range(2))  # type: ignore
