"""Loops over an agent cycle, in the manner of Tianshou and RLlib."""

from typing import Any

import numpy as np
import pytest
from pettingzoo.utils import parallel_to_aec
from pettingzoo.utils.wrappers import (
    AssertOutOfBoundsWrapper,
    BaseWrapper,
    OrderEnforcingWrapper,
)

import paxenv


def cycle(wrap: Any = BaseWrapper) -> Any:
    return wrap(parallel_to_aec(paxenv.parallel_env("IPD", max_cycles=3)))


def played(env: Any, actions: dict[str, int]) -> tuple[dict[str, float], int, Any]:
    """Returns everyone's return, the number of turns, and the last infos."""
    totals: dict[str, float] = dict.fromkeys(env.possible_agents, 0.0)
    turns, infos = 0, {}
    for agent in env.agent_iter():
        _, reward, terminated, truncated, info = env.last()
        totals[agent] += reward
        infos[agent] = info
        env.step(None if terminated or truncated else actions[agent])
        turns += not (terminated or truncated)
    return totals, turns, infos


@pytest.mark.parametrize(
    "wrap",
    [
        BaseWrapper,
        OrderEnforcingWrapper,
        lambda env: AssertOutOfBoundsWrapper(OrderEnforcingWrapper(env)),
    ],
)
def test_the_loop_of_a_cycle_plays_whole_trials(wrap: Any) -> None:
    """Whoever is exploited gets -3 a step; a second reset begins a new trial."""
    env = cycle(wrap)
    for seed in (0, 2**40):
        env.reset(seed=seed)
        totals, turns, infos = played(env, {"player_0": 0, "player_1": 1})
        assert totals == {"player_0": -9.0, "player_1": 0.0}
        assert turns == 6
        assert infos["player_1"]["episode_metrics/welfare"] == -9.0


def test_who_acts_sees_the_last_joint_action_and_everyone_has_a_space() -> None:
    env = cycle(OrderEnforcingWrapper)
    env.reset(seed=0)
    assert env.agent_selection == "player_0"
    env.step(0)
    assert env.observe("player_0").tolist() == [0, 0, 0, 0, 1]
    env.step(1)
    assert env.observe("player_0").tolist() == [0, 1, 0, 0, 0]
    assert env.observe("player_1").tolist() == [0, 0, 1, 0, 0]
    np.testing.assert_array_equal(env.unwrapped.state(), [0, 1, 0, 0, 0, 0, 0, 1, 0, 0])
