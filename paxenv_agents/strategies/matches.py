"""Matches of two strategies: played natively, or solved exactly without playing."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree
from numpy.typing import ArrayLike

from paxenv import keys
from paxenv.environment import Environment
from paxenv_agents.agent import Agent
from paxenv_agents.engine.game_batch import GameBatch, open_games
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.step import play_step
from paxenv_agents.strategies.memory_one import Automaton

#: The states of a memory-one strategy seen from the other side: CD and DC swap.
MIRRORED = (0, 2, 1, 3)


class Match(NamedTuple):
    """What happened in T rounds.

    Attributes:
        actions: int32 `[T, players]`.
        rewards: float `[T, players]`.
    """

    actions: jax.Array
    rewards: jax.Array


def play_match(
    agents: Sequence[Agent], env: Environment, params: PyTree, key: Key[Array, ""]
) -> Match:
    """Plays one inner episode between freshly initialised agents, one for each seat.

    The same object may sit at several seats: each seat has its own memory.

    Args:
        agents: In player order.
        env: A game of one inner episode of `env.num_inner_steps` rounds.
        params: Its numbers.
        key: The key of the trial; only folded. A seat's draws depend on the key and
            on the seat alone, never on who sits at the others.

    Raises:
        ValueError: If the game has more than one inner episode, or ends at random.
    """
    if env.num_outer_steps != 1 or env.random_ends:
        raise ValueError(
            "a match is one inner episode of fixed length, got "
            f"num_outer_steps={env.num_outer_steps}, random_ends={env.random_ends}"
        )
    slots = tuple(Slot(a, (p,), clock="none") for p, a in enumerate(agents))
    lineup = Lineup(env, slots)
    states = tuple(a.init_state(keys.player(key, p)) for p, a in enumerate(agents))
    episode_keys = key[None]
    batch = open_games(lineup, params, states, episode_keys)

    def play_round(batch: GameBatch, _x: None) -> tuple[GameBatch, Match]:
        step_keys = jax.vmap(keys.step)(episode_keys, batch.env_state.t)
        step = play_step(lineup, params, states, batch, step_keys, env.step_inner)
        played = Match(jnp.concatenate(step.taken), jnp.concatenate(step.rewards))
        batch = batch.replace(
            env_state=step.env_state, obs=step.obs, memories=step.memories
        )
        return batch, played

    return jax.lax.scan(play_round, batch, None, env.num_inner_steps)[1]


def exact_totals(
    first: Automaton, second: Automaton, payoff: ArrayLike, num_rounds: int
) -> tuple[float, float]:
    """Returns both players' total rewards of a match between two automata.

    Two automata run into a cycle of at most as many rounds as they have joint states,
    so the cost does not grow with `num_rounds`.

    Args:
        first: Player 1's automaton.
        second: Player 2's.
        payoff: `[A_0, A_1, 2]`, or `[4, 2]` with the rows CC, CD, DC, DD.
        num_rounds: Rounds of the match, >= 0.
    """
    table = np.asarray(payoff, np.float64)
    table = table.reshape(2, 2, 2) if table.shape == (4, 2) else table
    joint = first.initial, second.initial
    visited: dict[tuple[int, int], int] = {}
    rewards: list[np.ndarray] = []
    while joint not in visited and len(rewards) < num_rounds:
        visited[joint] = len(rewards)
        actions = first.outputs[joint[0]], second.outputs[joint[1]]
        rewards.append(table[actions])
        joint = (
            first.transitions[joint[0]][actions[1]],
            second.transitions[joint[1]][actions[0]],
        )
    played = np.array(rewards).reshape(-1, 2)
    total = played.sum(0)
    if len(rewards) < num_rounds:
        cycle = played[visited[joint] :]
        laps, rest = divmod(num_rounds - len(rewards), len(cycle))
        total = total + laps * cycle.sum(0) + cycle[:rest].sum(0)
    return float(total[0]), float(total[1])


def discounted_values(
    first: Sequence[float], second: Sequence[float], payoff: ArrayLike, gamma: float
) -> tuple[float, float]:
    """Returns both players' normalised values, `(1 - gamma) sum_t gamma^t r_t`.

    Args:
        first: Player 1's P(cooperate) after CC, CD, DC, DD, START, own action first:
            the `vector` of a memory-one strategy.
        second: Player 2's, from its own side.
        payoff: `[4, 2]`, rows CC, CD, DC, DD.
        gamma: Discount in [0, 1).

    Raises:
        ValueError: If `gamma` is outside [0, 1).

    Source: Nowak & Sigmund (1990), equations 3 to 5, with a discount.
    """
    if not 0.0 <= gamma < 1.0:
        raise ValueError(f"gamma must be in [0, 1), got {gamma}")
    own = np.asarray(first, np.float64)
    other = np.asarray(second, np.float64)[[*MIRRORED, 4]]
    # Rows are the states CC, CD, DC, DD, START; columns the joint action that follows.
    joint = np.stack(
        [own * other, own * (1 - other), (1 - own) * other, (1 - own) * (1 - other)], 1
    )
    transition, opening = joint[:4], joint[4]
    visits = np.linalg.solve((np.eye(4) - gamma * transition).T, opening)
    values = (1 - gamma) * visits @ np.asarray(payoff, np.float64)
    return float(values[0]), float(values[1])
