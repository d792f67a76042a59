"""An agent that is watched keeps the promises of agents."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Fixed, seated

import paxenv
from paxenv_agents import check_agent, make_agent
from runners.session.probe import Probed

ENV, PARAMS = paxenv.make("IPD-v0", num_inner_steps=4, num_outer_steps=2)
TINY = {"hidden_sizes": (), "num_minibatches": 1}


@dataclasses.dataclass(frozen=True)
class Informed(Fixed):
    """Remembers what mutual cooperation pays it."""

    def init_memory(self, key, hidden):
        return super().init_memory(key, hidden).replace(extras=jnp.float32(0))

    def observe_params(self, memory, params, player):
        return memory.replace(extras=params.payoff_matrix[0, player])


@pytest.mark.parametrize("at", [2, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("TitForTat", {}),
        pytest.param("Random", {}, marks=pytest.mark.slow),
        pytest.param("PPO", TINY, marks=pytest.mark.slow),
        pytest.param("Shaper", {**TINY, "context": "avg"}, marks=pytest.mark.slow),
        pytest.param("MFOS", TINY, marks=pytest.mark.slow),
    ],
)
def test_it_keeps_its_promises(name, options, at):
    check_agent(Probed.of(make_agent(name, ENV, **options), at=at), ENV)


@pytest.mark.slow
def test_it_is_greedy_where_its_agent_is():
    """With equal logits the greedy action is the first, whatever the key."""
    agent = make_agent("Naive", ENV, tabular=True)
    greedy = dataclasses.replace(agent, greedy=True)
    replaced = dataclasses.replace(Probed.of(agent), greedy=True)
    for probed, actions in (
        (Probed.of(agent), {0, 1}),
        (Probed.of(greedy), {0}),
        (replaced, {0}),
    ):
        state, memory = probed.batch_init(jax.random.key(0), probed.init_hidden(32))
        obs = jnp.tile(jnp.eye(5, dtype=jnp.int8)[4], (32, 1))
        chosen, _, _ = jax.jit(probed.batch_policy)(state, obs, memory)
        assert set(np.asarray(chosen).tolist()) == actions


def test_its_agent_is_told_the_game():
    probed = Probed.of(seated(Informed, ENV))
    _, memory = probed.batch_init(jax.random.key(0), probed.init_hidden(2))
    told = probed.batch_observe_params(memory, PARAMS, 0)
    assert told.extras["own"].extras.tolist() == [-1.0, -1.0]


def test_a_forced_action_is_one_of_the_seat():
    with pytest.raises(ValueError, match=r"must be in \[0, 2\), got 2"):
        Probed.of(seated(Fixed, ENV), at=0, action=2)
