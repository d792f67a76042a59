"""Memory-one strategies: what each one does, and that only some of them draw."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv import spaces
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.envs.iterated_tensor_game import IteratedTensorGame
from paxenv_agents import PairingError, make_agent
from paxenv_agents.strategies.memory_one import GenerousTitForTat, MemoryOne

C, D = 0, 1

# What each strategy does after CC, CD, DC, DD (own action first) and at the start.
RULES = {
    "Altruistic": [C, C, C, C, C],
    "AllC": [C, C, C, C, C],
    "Defect": [D, D, D, D, D],
    "AllD": [D, D, D, D, D],
    "TitForTat": [C, D, C, D, C],
    "SuspiciousTitForTat": [C, D, C, D, D],
    "Grim": [C, D, D, D, C],
    "WinStayLoseShift": [C, D, D, C, C],
    "Alternator": [D, D, C, C, C],
}
STATES = jnp.arange(5, dtype=jnp.int32)


def actions_at(agent, states, key=0):
    """Returns the agent's action at each state, each in a lane of its own."""
    encoding = "index" if agent.observation_space.shape == () else "one_hot"
    obs = jax.vmap(lambda s: spaces.encode_state(s, 5, encoding))(states)
    state, memory = agent.batch_init(
        jax.random.key(key), agent.init_hidden(len(states))
    )
    return np.asarray(jax.jit(agent.batch_policy)(state, obs, memory)[0])


@pytest.mark.parametrize("observation", ["one_hot", "index"])
@pytest.mark.parametrize("name", RULES)
def test_strategy_follows_its_rule_in_every_state(name, observation):
    env = IteratedMatrixGame(3, observation=observation)
    assert actions_at(make_agent(name, env), STATES).tolist() == RULES[name]


@pytest.mark.parametrize("name", RULES)
def test_rule_of_zeros_and_ones_leaves_its_key_alone(name):
    """And it hands back the memory, not the training state."""
    env = IteratedMatrixGame(3)
    agent = make_agent(name, env)
    state, memory = agent.make_initial_state(jax.random.key(3), agent.init_hidden(1)[0])
    obs = spaces.encode_state(jnp.int32(4), 5, "one_hot")
    _, same_state, after = agent.policy(state, obs, memory)
    assert same_state == state
    assert jax.random.key_data(after.key).tolist() == (
        jax.random.key_data(memory.key).tolist()
    )


def test_probabilities_are_those_of_cooperating_in_each_state():
    env = IteratedMatrixGame(3)
    agent = MemoryOne.from_env(env, p=(0.9, 0.2, 0.7, 0.1), p0=0.5)
    lanes = 4096
    actions = actions_at(agent, jnp.repeat(STATES, lanes)).reshape(5, lanes)
    rates = (actions == C).mean(axis=1)
    # Four standard errors of a rate over 4096 lanes are at most 0.032.
    np.testing.assert_allclose(rates, [0.9, 0.2, 0.7, 0.1, 0.5], atol=0.032)


def test_lanes_and_seeds_draw_different_noise():
    """64 games that look alike are not played alike."""
    agent = MemoryOne.from_env(IteratedMatrixGame(3), p=(0.5,) * 4, p0=0.5)
    first, second = (actions_at(agent, jnp.full(64, 4), key=k) for k in (0, 1))
    assert 16 <= first.sum() <= 48  # four standard deviations about 32
    assert (first != second).any()


def test_next_draw_is_independent_of_the_last():
    agent = MemoryOne.from_env(IteratedMatrixGame(3), p=(0.5,) * 4, p0=0.5)
    obs = spaces.encode_state(jnp.int32(0), 5, "one_hot")
    state, memory = agent.make_initial_state(jax.random.key(0), agent.init_hidden(1)[0])

    def step(memory, _):
        action, _, memory = agent.policy(state, obs, memory)
        return memory, action

    actions = np.asarray(jax.lax.scan(step, memory, None, 4096)[1])
    # Four standard errors of a mean over 4096 fair draws are 0.031.
    assert abs(actions.mean() - 0.5) < 0.032
    assert abs((actions[1:] == actions[:-1]).mean() - 0.5) < 0.032


def test_greedy_rule_takes_the_likelier_action():
    env = IteratedMatrixGame(3)
    agent = MemoryOne.from_env(env, p=(0.9, 0.2, 0.5, 0.49), p0=0.6, greedy=True)
    assert actions_at(agent, STATES).tolist() == [C, D, C, D, C]


def test_generosity_is_the_chance_to_forgive():
    agent = GenerousTitForTat.from_env(IteratedMatrixGame(3), generosity=0.25)
    assert agent.vector == (1.0, 0.25, 1.0, 0.25, 1.0)
    default = make_agent("GenerousTitForTat", IteratedMatrixGame(3))
    assert default.vector == pytest.approx((1, 1 / 3, 1, 1 / 3, 1))


def test_alias_equals_the_strategy_that_it_names():
    env = IteratedMatrixGame(3)
    assert make_agent("AllC", env) == make_agent("Altruistic", env)
    assert make_agent("AllD", env) == make_agent("Defect", env)


def test_equal_rules_are_equal_and_hash_alike():
    ints = MemoryOne.from_env(IteratedMatrixGame(3), p=[1, 0, 1, 0], p0=1)
    tit_for_tat = make_agent("TitForTat", IteratedMatrixGame(7))
    assert ints == tit_for_tat
    assert hash(ints) == hash(tit_for_tat)
    assert ints != dataclasses.replace(ints, p0=0)


def test_automaton_exists_for_deterministic_rules_only():
    env = IteratedMatrixGame(3)
    automaton = make_agent("TitForTat", env).automaton
    assert automaton.outputs == (C, D, C, D, C)
    assert automaton.transitions == ((0, 1), (2, 3), (0, 1), (2, 3), (0, 1))
    assert automaton.initial == 4
    assert make_agent("GenerousTitForTat", env).automaton is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"p": (1, 0, 1.5, 0), "p0": 1}, r"in \[0, 1\], got .*1\.5"),
        ({"p": (1, 0, 1, 0), "p0": -0.1}, r"in \[0, 1\], got .*-0\.1"),
        ({"p": (1, 0, 1), "p0": 1}, r"four probabilities.*got \(1\.0, 0\.0, 1\.0\)"),
    ],
)
def test_vector_that_is_no_vector_of_probabilities_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        MemoryOne.from_env(IteratedMatrixGame(3), **config)


def test_two_players_of_a_tensor_game_are_a_seat_like_any_other():
    agent = make_agent("TitForTat", IteratedTensorGame(2, 3), player=1)
    assert actions_at(agent, STATES).tolist() == RULES["TitForTat"]
    three = IteratedTensorGame(3, 3)
    assert make_agent("AllD", three, player=2).action == D
    with pytest.raises(PairingError, match="last joint action as one of 5 states"):
        make_agent("TitForTat", three)


def test_seat_with_other_actions_or_observations_is_refused():
    wide = IteratedMatrixGame(3, num_actions=(2, 3))
    with pytest.raises(PairingError, match=r"last joint action as one of 5 states"):
        MemoryOne.from_env(wide, 0, p=(1, 0, 1, 0), p0=1)
    with pytest.raises(PairingError, match=r"two actions.*got .* Discrete\(3"):
        MemoryOne.from_env(wide, 1, p=(1, 0, 1, 0), p0=1)
