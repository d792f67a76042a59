"""What every policy-gradient learner promises: seeds, old states, order of games."""

import functools

import bits
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from paxenv import keys
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import make_agent
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial
from paxenv_agents.learners.naive import Naive
from paxenv_agents.learners.ppo import PPO
from runners.engine.experiment import Experiment, train_chunk

ENV = IteratedMatrixGame(4, 2)
LEARNERS = {
    "Naive": {},
    "PPO": {"hidden_sizes": (8,), "num_epochs": 2, "num_minibatches": 2},
    "RecurrentPPO": {"gru_size": 8, "num_epochs": 2, "num_minibatches": 2},
}


@functools.cache
def experiment(name):
    agent = make_agent(name, ENV, **LEARNERS[name])
    slots = Slot(agent, (0,)), Slot(make_agent("TitForTat", ENV, player=1), (1,))
    return Experiment(ENV, slots, num_games=4, chunk_size=2)


def trained(name, seed):
    """Returns (state before, state after two iterations, metrics)."""
    start = experiment(name).init(jax.random.key(seed), ENV.default_params)
    return start, *train_chunk(experiment(name), start, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_seed_decides_everything(name):
    """Another seed changes what is played and learnt, an equal one not a bit."""
    _, first, rows = trained(name, 0)
    _, again, rows_again = trained(name, 0)
    _, other, other_rows = trained(name, 1)

    assert bits.equal((first, rows), (again, rows_again), equal_nan=True)
    assert not bits.equal(
        first.agents[0].params, other.agents[0].params, equal_nan=True
    )
    assert not bits.equal(rows, other_rows, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_an_old_state_is_readable_after_an_update(name):
    """Nothing that the caller holds is donated."""
    before, after, _ = trained(name, 0)

    assert not bits.equal(
        before.agents[0].params, after.agents[0].params, equal_nan=True
    )
    again, _ = train_chunk(experiment(name), before, 2)
    assert bits.equal(again, after, equal_nan=True)


# The order of games.


class Telling(nn.Module):
    """An actor whose first logit is a thousandth of what it sees."""

    num_actions: int

    def __call__(self, features):
        zeros = jnp.zeros((*features.shape[:-1], self.num_actions - 1))
        return jnp.concatenate([features / 1000, zeros], axis=-1)


class Echo(nn.Module):
    """A critic whose value is what it sees."""

    def __call__(self, features):
        return features[..., 0]


def hundreds(obs, params, game, player):
    """Shows 100 * game + player instead of the game."""
    return jnp.full((1,), 100 * game + player, jnp.float32)


SEEN = gymnasium.spaces.Box(0.0, 1000.0, (1,), np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("learner", [PPO, Naive])
def test_actor_and_critic_see_the_games_in_one_order(learner):
    """Obs = 100 * game + player, seats slower than games, in both networks."""
    agent = learner(SEEN, ENV.action_space(0), actor=Telling(2), critic=Echo())
    lineup = Lineup(ENV, (Slot(agent, (0, 1), observe=hundreds),), num_games=3)
    states = (agent.init_state(jax.random.key(0)),)

    trial = play_trial(
        lineup, ENV.default_params, states, keys.lanes(0, 3), jnp.int32(0)
    )

    experience = trial.experiences[0]
    assert experience is not None
    sample = experience.sample
    order = np.array([0, 100, 200, 1, 101, 201], np.float32)
    first = 1 / (1 + np.exp(-order / 1000))
    played = np.where(np.asarray(sample.actions) == 0, first, 1 - first)
    assert (sample.observations[..., 0] == order).all()
    assert (sample.behavior_values == order).all()
    assert (experience.last_obs[:, 0] == order).all()
    np.testing.assert_allclose(sample.behavior_log_probs, np.log(played), atol=1e-5)
    log_probs, values, _ = agent.evaluate(states[0], sample)
    assert (values == order).all()
    np.testing.assert_allclose(log_probs, np.log(played), atol=1e-5)


@pytest.mark.parametrize("name", LEARNERS)
def test_swapped_games_swap_outputs_and_nothing_else(name):
    """No number of a game depends on its place in the batch."""
    agent = experiment(name).slots[0].agent
    state, memory = agent.batch_init(jax.random.key(0), agent.init_hidden(4))
    observations = jnp.eye(5, dtype=jnp.int8)[jnp.array([0, 3, 1, 4])]
    swap = jnp.array([0, 2, 1, 3])

    def outputs(observations, memory):
        actions, _, after = agent.batch_policy(state, observations, memory)
        return actions, after.hidden, after.extras

    straight = outputs(observations, memory)
    swapped = outputs(observations[swap], jax.tree.map(lambda x: x[swap], memory))

    for a, b in zip(bits.leaves(straight), bits.leaves(swapped), strict=True):
        np.testing.assert_allclose(a[np.asarray(swap)], b, atol=1e-6)
    assert not np.allclose(straight[2]["values"][1], straight[2]["values"][2])
