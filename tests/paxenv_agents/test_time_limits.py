"""Play that only time ends is valued as if it went on, by every learner, in play."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv.environment import Environment
from paxenv.params import GameParams
from paxenv_agents import make_agent
from paxenv_agents.engine.lineup import Slot
from runners.engine.experiment import Experiment, train_chunk

GAMMA = 0.5


@dataclasses.dataclass(frozen=True)
class Paid(Environment):
    """Pays 1 for every step, whatever is done, and goes from one state to the other."""

    action: str = "discrete"
    name = "Paid"

    @property
    def num_players(self):
        return 1

    @property
    def default_params(self):
        return GameParams()

    def make_observation_space(self, player):
        return gymnasium.spaces.Discrete(2, dtype=np.int32)

    def make_action_space(self, player):
        if self.action == "box":
            return gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        return gymnasium.spaces.Discrete(2, dtype=np.int32)

    def draw(self, key):
        return jnp.zeros((), jnp.int32)

    def reset_game(self, draws, params):
        return draws, draws

    def step_game(self, draws, game, actions, params):
        return 1 - game, 1 - game, jnp.float32(1), jnp.zeros((), bool), {}


ON_POLICY = {
    "learning_rate": 0.03,
    "num_minibatches": 1,
    "gae_lambda": 0.5,
    "max_grad_norm": None,
}
OFF_POLICY = {
    "learning_rate": 0.03,
    "warmup_steps": 8,
    "buffer_size": 256,
    "batch_size": 32,
    "tau": 0.2,
}
#: The options of each learner; the games and steps of an update; the updates.
LEARNERS = {
    "Naive": (ON_POLICY, (8, 16), 200),
    "PPO": (ON_POLICY, (8, 16), 60),
    "RecurrentPPO": ({**ON_POLICY, "gru_size": 4}, (8, 16), 60),
    "DQN": (OFF_POLICY, (1, 1), 400),
    "SAC": ({**OFF_POLICY, "alpha": 1e-4}, (1, 1), 400),
}
#: One learner on its own play and one from replay; the others are looked at less often.
EACH = [
    name if name in ("PPO", "DQN") else pytest.param(name, marks=pytest.mark.slow)
    for name in LEARNERS
]


def learnt_values(name, length, **game):
    """Returns the learnt value at each of the `length` steps of an episode."""
    options, (num_games, num_steps), num_updates = LEARNERS[name]
    action = "box" if name == "SAC" else "discrete"
    env = Paid(action=action, num_inner_steps=length, **game)
    agent = make_agent(name, env, hidden_sizes=(8,), gamma=GAMMA, **options)
    experiment = Experiment(
        *(env, (Slot(agent),)),
        num_games=num_games,
        num_steps=num_steps,
        chunk_size=num_updates,
    )
    state = jax.jit(experiment.init)(jax.random.key(0), env.default_params)
    state, _ = train_chunk(experiment, state, num_updates)
    agent, (trained,) = experiment.slots[0].agent, state.agents
    _, memory = agent.batch_init(jax.random.key(0), agent.init_hidden(1))
    memory = jax.tree.map(lambda x: x[0], memory)
    value, policy = jax.jit(agent.value), jax.jit(agent.policy)
    values = []
    for t in range(length):
        view = jnp.int32(t % 2)
        values.append(float(value(trained, view, memory)))
        _, _, memory = policy(trained, view, memory)
    return values


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_a_game_cut_by_time_is_worth_what_it_would_go_on_to_pay(name):
    """R / (1 - gamma) = 2 at every step, though time always cuts at the same one.

    What a recurrent learner remembers after the cut is never played from, so its value
    there is a guess. After 8 steps it resembles one that is; after 2 it does not, and
    values come out up to 0.2 too high.
    """
    length = 8 if name == "RecurrentPPO" else 2
    values = learnt_values(name, length)
    np.testing.assert_allclose(values, [2.0] * length, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_game_that_ends_is_worth_what_it_pays_until_then(name):
    """The same play with an end: 1 + gamma = 1.5, then 1."""
    values = learnt_values(name, 2, horizon="terminate")
    np.testing.assert_allclose(values, [1.5, 1.0], atol=0.15)
