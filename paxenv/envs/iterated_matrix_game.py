"""The iterated two-player matrix game."""

import dataclasses
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from paxenv import metrics, spaces
from paxenv.environment import Environment
from paxenv.params import GameParams, as_array

PRISONERS_DILEMMA = ((-1.0, -1.0), (-3.0, 0.0), (0.0, -3.0), (-2.0, -2.0))
MAX_SELECTED_CELLS = 16


class EnvParams(GameParams):
    """Numbers of an iterated matrix game.

    Attributes:
        payoff_matrix: Rewards, `[A_0 * A_1, 2]` with rows in the order of player 1's
            action, then player 2's (CC, CD, DC, DD), or `[A_0, A_1, 2]`. Default: the
            prisoner's dilemma -1, -3, 0, -2 in years of prison.
    """

    payoff_matrix: jax.Array = PRISONERS_DILEMMA  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True)
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

    _: dataclasses.KW_ONLY
    num_actions: tuple[int, int] = (2, 2)
    observation: str = "one_hot"

    name: ClassVar[str] = "IteratedMatrixGame"

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

    def reset_game(self, draws: Any, params: EnvParams) -> tuple[Any, tuple]:
        start = self._observe(jnp.asarray(self.num_states - 1, jnp.int32))
        return (start, start), ()

    def step_game(
        self, draws: Any, game: Any, actions: Any, params: EnvParams
    ) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        row, column = actions
        state = row * self.num_actions[1] + column
        mirrored = column * self.num_actions[0] + row
        rewards = stage_rewards(params.payoff_matrix, self.num_actions, row, column)
        report = {"welfare": rewards[0] + rewards[1]}
        if self.num_actions == (2, 2):
            report["cooperation"] = (jnp.stack(actions) == 0).astype(jnp.float32)
        obs = self._observe(state), self._observe(mirrored)
        return obs, (), rewards, jnp.zeros((), bool), report

    def metrics_init(self) -> metrics.Accumulator:
        zeros = jnp.zeros((2, self.num_states), jnp.int32)
        return metrics.Accumulator(totals={"visits": zeros, "cooperations": zeros})

    def metrics_update(
        self,
        acc: metrics.Accumulator,
        obs_before: Any,
        actions: Any,
        info: dict[str, Any],
    ) -> metrics.Accumulator:
        counts = [
            metrics.count_by_state(
                self.num_states,
                spaces.decode_state(obs_before[p], self.observation_space(p)),
                jnp.asarray(actions[p]) == 0,
                info["valid"],
            )
            for p in range(2)
        ]
        visits, cooperations = (jnp.stack(c) for c in zip(*counts, strict=True))
        totals = {
            "visits": acc.totals["visits"] + visits,
            "cooperations": acc.totals["cooperations"] + cooperations,
        }
        return acc.replace(totals=totals)

    def metrics_final(self, acc: metrics.Accumulator) -> dict[str, jax.Array]:
        visits, hits = acc.totals["visits"], acc.totals["cooperations"]
        named: dict[str, jax.Array] = {}
        for p in range(2):
            player = f"player_{p + 1}"
            share = metrics.rate(visits[p], visits[p].sum())
            rates = metrics.rate(hits[p], visits[p])
            for s, label in enumerate(self.state_names(p)):
                named[f"state_visitation/{player}/{label}"] = share[s]
            if self.num_actions != (2, 2):
                continue
            overall = metrics.rate(hits[p].sum(), visits[p].sum())
            named[f"cooperation_rate/{player}"] = overall
            for s, label in enumerate(self.state_names(p)):
                named[f"cooperation_probability/{player}/{label}"] = rates[s]
        return named

    def state_names(self, player: int) -> tuple[str, ...]:
        """Returns the names of a player's states: own action, then the other's."""
        own, other = self.num_actions[player], self.num_actions[1 - player]
        if self.num_actions == (2, 2):
            joint = tuple(a + b for a in "CD" for b in "CD")
        else:
            joint = tuple(f"{a},{b}" for a in range(own) for b in range(other))
        return (*joint, "START")

    def _observe(self, state: jax.Array) -> jax.Array:
        return spaces.encode_state(state, self.num_states, self.observation)


def stage_rewards(
    payoff: jax.Array, num_actions: tuple[int, int], row: jax.Array, column: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns both players' rewards for one joint action.

    Args:
        payoff: `[A_0 * A_1, 2]` or `[A_0, A_1, 2]`.
        num_actions: (A_0, A_1).
        row: Player 1's action, int32 scalar; out of range is clamped, not reported.
        column: Player 2's action.

    Raises:
        ValueError: At trace time, if `payoff` does not fit `num_actions`.
    """
    cells = num_actions[0] * num_actions[1]
    payoff = jnp.asarray(as_array(payoff))
    if payoff.shape not in ((cells, 2), (*num_actions, 2)):
        raise ValueError(
            f"payoff_matrix of shape {payoff.shape} does not fit {num_actions} "
            f"actions: expected {(cells, 2)} or {(*num_actions, 2)}"
        )
    table = payoff.reshape(cells, 2)
    row = jnp.clip(row, 0, num_actions[0] - 1)
    column = jnp.clip(column, 0, num_actions[1] - 1)
    cell = row * num_actions[1] + column
    if cells > MAX_SELECTED_CELLS:
        return table[cell, 0], table[cell, 1]
    # A select of the cells is about twice as fast as a gather on a CPU.
    return tuple(jax.lax.select_n(cell, *table[:, p]) for p in range(2))  # type: ignore
