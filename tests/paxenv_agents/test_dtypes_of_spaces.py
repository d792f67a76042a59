"""Games whose spaces have Gymnasium's own dtypes, which JAX lacks by default."""

import dataclasses
import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from paxenv import registry
from paxenv.adapters.vector_env import GymnasiumVectorEnv
from paxenv.environment import Environment
from paxenv.params import GameParams
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.engine.one_of import OneOf
from paxenv_agents.opponents import FromFunction
from paxenv_agents.registry import make_agent
from runners.engine.experiment import Experiment, train_chunk
from runners.engine.outer import Gradient
from runners.engine.population import used_by_policy


@dataclasses.dataclass(frozen=True)
class Wide(Environment):
    """Shows nothing of note; actions are int64 numbers, or float64 vectors."""

    continuous: bool = False
    name = "Wide"
    num_players = 2

    @property
    def default_params(self):
        return GameParams()

    def make_observation_space(self, player):
        if self.continuous:
            return Box(-np.ones(2), np.ones(2), dtype=np.float64)
        return Discrete(3)

    def make_action_space(self, player):
        if self.continuous:
            return Box(-np.ones(2), np.ones(2), dtype=np.float64)
        return Discrete(2)

    def reset_game(self, draws, params):
        return self._views(), ()

    def step_game(self, draws, game, actions, params):
        rewards = tuple(jnp.sum(a).astype(jnp.float32) for a in actions)
        return self._views(), (), rewards, jnp.zeros((), bool), {}

    def _views(self):
        return (jnp.zeros(2) if self.continuous else jnp.int32(0),) * 2


def make(**options):
    env = Wide(4, **options)
    return env, env.default_params


def still(obs, key):
    return jnp.zeros_like(obs)


@pytest.fixture
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("continuous", [False, True])
def test_a_learner_and_its_co_players_are_traced_without_a_warning(
    continuous, no_warnings
):
    env, params = make(continuous=continuous)
    learner = make_agent("PPO", env, n_steps=4, num_minibatches=1, hidden_sizes=(2,))
    members = (
        make_agent("Random", env, player=1),
        FromFunction.from_env(env, 1, function=still),
    )
    other = OneOf.from_env(env, 1, members=members)
    slots = (Slot(learner, (0,)), Slot(other, (1,)))
    experiment = Experiment(
        env=env, slots=slots, outer=Gradient(), num_games=2, chunk_size=1
    )
    key = jax.random.key(0)
    state = jax.eval_shape(experiment.init, key, params)
    chunk = functools.partial(train_chunk, experiment, num_iterations=1)
    assert jax.eval_shape(chunk, state)[1]
    assert any(used_by_policy(learner))
    memory = jax.eval_shape(members[0].make_initial_state, key, jnp.zeros(0))[1]
    obs = env.observation_space(1).sample()
    actions = jax.eval_shape(members[0].policy, None, obs, memory)[0]
    assert actions.dtype == (np.float32 if continuous else np.int32)


@pytest.mark.parametrize("continuous", [False, True])
def test_an_adapter_steps_such_a_game_without_a_warning(
    continuous, no_warnings, monkeypatch
):
    spec = registry.GameSpec("theirs/Wide-v0", f"{__name__}:make")
    monkeypatch.setattr(registry, "_GAMES", {spec.id: spec})
    for arrays, module in (("numpy", np), ("jax", jnp)):
        envs = GymnasiumVectorEnv(
            "theirs/Wide-v0", 2, continuous=continuous, arrays=arrays
        )
        envs.reset(seed=0)
        actions = module.ones((2, 2) if continuous else 2, module.int32)
        assert envs.step(actions)[1].tolist() == (
            [2.0] * 2 if continuous else [1.0] * 2
        )
