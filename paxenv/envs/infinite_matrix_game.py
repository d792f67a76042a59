"""The infinitely repeated matrix game between memory-one policies, exactly."""

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from paxenv import metrics, payoffs
from paxenv.environment import Environment, Frame
from paxenv.game import game, make_game, makes
from paxenv.params import GameParams, as_floats
from paxenv.rendering import policies as pictures
from paxenv.types import Flag, Info, Picture, Rewards, Statistics

STATES = ("CC", "CD", "DC", "DD", "START")
MAX_LOGIT = 20.0

#: Of cooperating after each of `STATES`.
Logits = Float[Array, "5"]
#: The own probabilities of cooperating, then the other's.
Policies = Float[Array, "10"]


class EnvParams(GameParams):
    """Numbers of an infinitely repeated matrix game.

    Attributes:
        payoff_matrix: Rewards, `[4, 2]` with rows CC, CD, DC, DD, or `[2, 2, 2]`.
        gamma: Discount in [0, 1). 1 is refused: the sum would be infinite.
    """

    payoff_matrix: Float[Array, "..."] = (
        (-1.0, -1.0),
        (-3.0, 0.0),
        (0.0, -3.0),
        (-2.0, -2.0),
    )  # type: ignore
    gamma: Float[Array, ""] = 0.96  # type: ignore[assignment]

    def __post_init__(self) -> None:
        # JAX rebuilds params with leaves of its own (axes, gradients, sizes), so only
        # what a person typed is judged here; arrays are judged when they are used.
        typed = isinstance(self.payoff_matrix, list | tuple | np.ndarray | jax.Array)
        if typed and isinstance(self.gamma, int | float):
            check_discount(self.gamma)
        super().__post_init__()


@game
class InfiniteMatrixGame(Environment):
    """Two players choose memory-one policies and are paid the exact discounted value.

    Description:
        One step is a whole infinitely repeated game of two actions (0 = cooperate, 1 =
        defect). Each player gives the probability of cooperating after every outcome
        of the last round and in the first one; the value of the pair has a closed
        form, differentiable in the policies, the payoff and the discount.

    Observation:
        `Box(0, 1, (10,), float32)`: the own five probabilities, then the other's, each
        as its owner sees the states (own action first) CC, CD, DC, DD, START. 0.5
        everywhere at the opening of an inner episode.

    Action:
        `Box(-20, 20, (5,), float32)`: logits of cooperating after CC, CD, DC, DD, as
        the player sees them, and at START. At 20 the probability is within 2.1e-9 of
        1. The native functions accept larger logits as they are.

    Reward:
        The normalised value `(1 - gamma) * sum_t gamma^t r_t`, in the payoff's unit.
        `discounted_value` is the sum without the factor.

    End:
        Only by time, or at random with `random_ends`.

    Versions:
        v0.

    Source:
        Foerster et al., LOLA (2018), section 4; Lu et al., M-FOS (2022), section 4.

    Differences from Pax:
        Each player's opening observation is 0.5 and not noise shared by both; the
        clock ends on the step that it counts; logits have a Box of logits.
    """

    num_inner_steps: int = 100

    name: ClassVar[str] = "InfiniteMatrixGame"
    reports_metrics: ClassVar[bool] = False

    @property
    def num_players(self) -> int:
        return 2

    @property
    def default_params(self) -> EnvParams:
        return EnvParams()

    def make_observation_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Box(0.0, 1.0, (2 * len(STATES),), np.float32)

    def make_action_space(self, player: int) -> gymnasium.Space:
        return gymnasium.spaces.Box(-MAX_LOGIT, MAX_LOGIT, (len(STATES),), np.float32)

    def reset_game(
        self, draws: Any, params: EnvParams
    ) -> tuple[tuple[Policies, Policies], tuple[()]]:
        check_discount(params.gamma)
        start = jnp.full((2 * len(STATES),), 0.5, jnp.float32)
        return (start, start), ()

    def step_game(
        self, draws: Any, game: Any, actions: tuple[Logits, Logits], params: EnvParams
    ) -> tuple[tuple[Policies, Policies], tuple[()], Rewards, Flag, Info]:
        check_discount(params.gamma)
        p, q = (jax.nn.sigmoid(logits) for logits in actions)
        visits = occupancy(p[:4], p[4], q[:4], q[4], params.gamma)
        values = visits @ payoffs.as_cells(as_floats(params.payoff_matrix), (2, 2))
        report = {
            "welfare": values.sum(),
            "cooperation": jnp.stack((visits[0] + visits[1], visits[0] + visits[2])),
        }
        own, other = jnp.concatenate((p, q)), jnp.concatenate((q, p))
        obs = own.astype(jnp.float32), other.astype(jnp.float32)
        return obs, (), (values[0], values[1]), jnp.zeros((), bool), report

    def discounted_value(
        self, actions: tuple[Logits, Logits], params: EnvParams
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Returns both players' un-normalised values; see `discounted_values`."""
        return discounted_values(*actions, params.payoff_matrix, params.gamma)

    def metrics_init(self) -> metrics.Accumulator:
        return metrics.Accumulator(
            totals={"cooperation": jnp.zeros(2), "steps": jnp.zeros((), jnp.int32)}
        )

    def metrics_update(
        self, acc: metrics.Accumulator, obs_before: PyTree, actions: PyTree, info: Info
    ) -> metrics.Accumulator:
        totals = {
            "cooperation": acc.totals["cooperation"] + info["metrics"]["cooperation"],
            "steps": acc.totals["steps"] + info["valid"],
        }
        return acc.replace(totals=totals)

    def metrics_final(self, acc: metrics.Accumulator) -> Statistics:
        rates = metrics.rate(acc.totals["cooperation"], acc.totals["steps"])
        return {f"cooperation_rate/player_{p + 1}": rates[p] for p in range(2)}

    def render_ansi(self, frame: Frame) -> str:
        return pictures.ansi(
            frame, STATES, (self.num_inner_steps, self.num_outer_steps)
        )

    def render_rgb(self, frame: Frame) -> Picture:
        return pictures.rgb(frame, STATES, (self.num_inner_steps, self.num_outer_steps))


def memory_one_values(
    p: Float[Array, "4"],
    p0: Float[Array, ""] | float,
    q: Float[Array, "4"],
    q0: Float[Array, ""] | float,
    payoff: Float[Array, "..."] | np.ndarray | Sequence,
    gamma: Float[Array, ""] | float,
) -> Float[Array, "2"]:
    """Returns both players' normalised values, `(1 - gamma) * sum_t gamma^t r_t`.

    Exact and differentiable in every argument; in the dtype of the arguments.

    Args:
        p: Player 1's probabilities of cooperating after CC, CD, DC, DD, its own
            action first.
        p0: Its probability of cooperating in the first round.
        q: The same for player 2, as player 2 sees the states.
        q0: Its probability of cooperating in the first round.
        payoff: `[4, 2]` with rows CC, CD, DC, DD, or `[2, 2, 2]`.
        gamma: Discount in [0, 1). Outside, a concrete number is refused and a traced
            one gives NaN.

    Raises:
        ValueError: If `gamma` is concrete and outside [0, 1).

    Example:
        >>> tit_for_tat, defect = jnp.array([1.0, 0, 1, 0]), jnp.zeros(4)
        >>> payoff = payoffs.preset("IPD").payoff
        >>> print(memory_one_values(tit_for_tat, 1, defect, 0, payoff, 0.96).round(2))
        [-2.04 -1.92]

    Source: Press & Dyson, Iterated prisoner's dilemma contains strategies that
    dominate any evolutionary opponent (2012); discounted as in Foerster et al., LOLA
    (2018), section 4.
    """
    check_discount(gamma)
    cells = payoffs.as_cells(as_floats(payoff), (2, 2))
    return occupancy(p, p0, q, q0, gamma) @ cells


def discounted_values(
    logits_1: Logits,
    logits_2: Logits,
    payoff: Float[Array, "..."] | np.ndarray | Sequence,
    gamma: Float[Array, ""] | float,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns both players' un-normalised values `sum_t gamma^t r_t` of two policies.

    Args:
        logits_1: Player 1's logits of cooperating after CC, CD, DC, DD, its own action
            first, and in the first round.
        logits_2: The same for player 2, as player 2 sees the states.
        payoff: `[4, 2]` or `[2, 2, 2]`.
        gamma: Discount in [0, 1).

    Raises:
        ValueError: If `gamma` is concrete and outside [0, 1).
    """
    p, q = jax.nn.sigmoid(logits_1), jax.nn.sigmoid(logits_2)
    values = memory_one_values(p[:4], p[4], q[:4], q[4], payoff, gamma)
    values = values / (1.0 - jnp.asarray(gamma))
    return values[0], values[1]


def occupancy(
    p: Float[Array, "4"],
    p0: Float[Array, ""] | float,
    q: Float[Array, "4"],
    q0: Float[Array, ""] | float,
    gamma: Float[Array, ""] | float,
) -> Float[Array, "4"]:
    """Returns the discounted shares of rounds spent in CC, CD, DC, DD; they sum to 1.

    With start distribution s and transition matrix M of the joint chain this is
    `(1 - gamma) * s (I - gamma M)^-1`. Arguments as in `memory_one_values`.
    """
    p, q = as_floats(p), as_floats(q)
    start = _joint(as_floats(p0), as_floats(q0))
    # What is CD to player 1 is DC to player 2.
    transition = _joint(p, jnp.stack((q[0], q[2], q[1], q[3])))
    gamma = as_floats(gamma)
    gamma = jnp.where((gamma >= 0) & (gamma < 1), gamma, jnp.nan)
    system = jnp.eye(4, dtype=transition.dtype) - gamma * transition
    return (1.0 - gamma) * _solved(system.T, start)


def check_discount(gamma: Any) -> None:
    """Raises ValueError if a discount is known by value and outside [0, 1)."""
    if isinstance(gamma, jax.core.Tracer) or gamma is None:
        return
    values = np.asarray(gamma)
    if not np.all((values >= 0) & (values < 1)):
        raise ValueError(
            f"gamma must be in [0, 1), got {gamma}: with 1 the sum of rewards over an "
            "infinite game is infinite; take a number such as 0.96"
        )


@makes(InfiniteMatrixGame, EnvParams)
def make(
    payoff: Any = None,
    *,
    game: str | None = None,
    payoff_matrix: Any = None,
    gamma: float = 0.96,
    **options: Any,
) -> tuple[InfiniteMatrixGame, EnvParams]:
    """Returns an infinitely repeated matrix game and its numbers.

    Args:
        payoff: The payoff of two actions each, in any form that
            `payoffs.parse_payoff` reads; default: that of the preset `game`.
        game: The preset that the game is named after; default: the prisoner's dilemma.
        payoff_matrix: Another name for `payoff`.
        gamma: Discount in [0, 1).
        **options: The options of every game (see `Environment`), where a step of an
            inner episode is a whole infinite game, and `continuation_prob`.

    Raises:
        ValueError: If an option is out of range.
        payoffs.PayoffError: If the payoff cannot be read; names row and column.
    """
    given = payoff if payoff_matrix is None else payoff_matrix
    table = payoffs.named_payoff(given, game, (2, 2))
    check_discount(float(gamma))
    given = {"payoff_matrix": table.reshape(4, 2), "gamma": float(gamma)}
    return make_game(InfiniteMatrixGame, EnvParams, options | given)


def _joint(p: jax.Array, q: jax.Array) -> jax.Array:
    """Returns the probabilities of CC, CD, DC, DD, as a new last axis."""
    return jnp.stack((p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)), axis=-1)


def _solved(system: jax.Array, right: jax.Array) -> jax.Array:
    """Returns x of `system @ x = right`, differentiable as often as one likes.

    For systems in which every column, or every row, is dominated by its diagonal, as
    in `I - gamma M` of transition probabilities M.
    """
    return jax.lax.custom_linear_solve(
        lambda x: system @ x,
        right,
        lambda _, b: _eliminated(system, b),
        lambda _, b: _eliminated(system.T, b),
    )


def _eliminated(system: jax.Array, right: jax.Array) -> jax.Array:
    """Returns x of `system @ x = right`, by elimination without pivots.

    Written out it is a few sums and products of all games at once. LAPACK takes games
    one by one, and on CPUs a batch of its calls waits for threads of the pool in which
    it runs.
    """
    num_rows = right.shape[0]
    rows = list(jnp.concatenate((system, right[:, None]), axis=1))
    for k in range(num_rows):
        for i in range(k + 1, num_rows):
            rows[i] = rows[i] - (rows[i][k] / rows[k][k]) * rows[k]
    solution: list[jax.Array] = []
    for k in reversed(range(num_rows)):
        known = sum(rows[k][num_rows - 1 - i] * x for i, x in enumerate(solution))
        solution.append((rows[k][-1] - known) / rows[k][k])
    return jnp.stack(solution[::-1])
