"""Strategies that never look: Random, Constant and ConstantLogits."""

import gymnasium
import jax
import numpy as np
import pytest

from paxenv.envs.infinite_matrix_game import InfiniteMatrixGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import PairingError, make_agent
from paxenv_agents.strategies.constant import Constant, ConstantLogits, Random

ANYTHING = gymnasium.spaces.Box(0, 1, (3,))
LOGITS = gymnasium.spaces.Box(-30, 30, (5,), np.float32)


def draws(agent, lanes, seed=0):
    state, memory = agent.batch_init(jax.random.key(seed), agent.init_hidden(lanes))
    action, _, after = jax.jit(agent.batch_policy)(state, memory.hidden, memory)
    return np.asarray(action), (memory, after)


@pytest.mark.parametrize("space", [gymnasium.spaces.Discrete(5, start=2)])
def test_random_is_uniform_over_discrete_actions(space):
    actions, _ = draws(Random(ANYTHING, space), 5000)
    counts = np.bincount(actions, minlength=7)
    assert counts[:2].tolist() == [0, 0]
    # Four standard deviations of a count of 5000 draws at 1/5 are 113.
    assert np.abs(counts[2:] - 1000).max() < 113


def test_random_is_uniform_over_a_box():
    space = gymnasium.spaces.Box(np.array([-1, 10, 0]), np.array([1, 30, 0]))
    actions, _ = draws(Random(ANYTHING, space), 4096)
    assert all(space.contains(action) for action in actions.astype(space.dtype))
    share = (actions[:, :2] - [-1, 10]) / [2, 20]
    # A uniform mean over 4096 has a standard error of 0.0045, and so has a variance
    # of about 0.0012; the correlation of two coordinates one of 0.016.
    np.testing.assert_allclose(share.mean(0), 0.5, atol=0.018)
    np.testing.assert_allclose(share.var(0), 1 / 12, atol=0.005)
    assert abs(np.corrcoef(share.T)[0, 1]) < 0.064


def test_random_differs_between_lanes_seeds_and_steps():
    """Neither every trial nor every opponent sees the same draws."""
    agent = make_agent("Random", IteratedMatrixGame(3))
    first, (before, after) = draws(agent, 64)
    assert set(first.tolist()) == {0, 1}
    assert (first != draws(agent, 64, seed=1)[0]).any()
    again = agent.batch_policy(
        agent.init_state(jax.random.key(0)), before.hidden, after
    )
    assert (first != np.asarray(again[0])).any()


def test_greedy_random_plays_the_first_action_or_the_middle():
    discrete = Random(ANYTHING, gymnasium.spaces.Discrete(5), greedy=True)
    assert draws(discrete, 8)[0].tolist() == [0] * 8
    box = Random(ANYTHING, gymnasium.spaces.Box(0, 4, (2,)), greedy=True)
    np.testing.assert_array_equal(draws(box, 2)[0], [[2, 2], [2, 2]])


def test_random_refuses_a_space_without_a_uniform_draw():
    unbounded = gymnasium.spaces.Box(0, np.inf, (1,))
    with pytest.raises(PairingError, match="finite bounds"):
        Random(ANYTHING, unbounded)
    with pytest.raises(PairingError, match="Discrete or Box"):
        Random(ANYTHING, gymnasium.spaces.MultiBinary(3))


def test_constant_action_must_be_one_of_two():
    env = IteratedMatrixGame(3)
    with pytest.raises(ValueError, match=r"action must be 0.*got 2"):
        Constant.from_env(env, action=2)
    with pytest.raises(PairingError, match=r"game of two actions"):
        Constant(ANYTHING, gymnasium.spaces.Discrete(5), action=0)


@pytest.mark.parametrize(
    ("name", "logits"),
    [
        ("HyperAltruistic", [20, 20, 20, 20, 20]),
        ("HyperDefect", [-20, -20, -20, -20, -20]),
        ("HyperTFT", [20, -20, 20, -20, 20]),
    ],
)
def test_hyper_strategies_play_their_logits(name, logits):
    agent = make_agent(name, InfiniteMatrixGame(3), player=1)
    actions, _ = draws(agent, 2)
    assert actions.dtype == np.float32
    assert actions.tolist() == [logits, logits]


def test_logits_are_clipped_to_the_action_space():
    narrow = gymnasium.spaces.Box(-10, 10, (5,), np.float32)
    agent = ConstantLogits(ANYTHING, narrow, logits=(20, -20, 3, 0, -3))
    assert draws(agent, 1)[0].tolist() == [[10, -10, 3, 0, -3]]


def test_logits_need_the_infinite_game():
    with pytest.raises(PairingError, match="infinite matrix game"):
        make_agent("HyperTFT", IteratedMatrixGame(3))
    with pytest.raises(ValueError, match="expected 5 logits"):
        ConstantLogits(ANYTHING, LOGITS, logits=(1, 2))
