"""One game with parts of rewards, native and of Gymnasium, for the runner of one agent.

Every step pays 1, of which velocity is 2 and energy -1; the height is the number of
steps so far. Time ends an episode.
"""

import dataclasses

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Discrete

from paxenv.environment import Environment
from paxenv.params import GameParams
from paxenv_agents import Agent, MemoryState, TrainingState

SMALL = {"n_steps": 3, "num_minibatches": 1, "num_epochs": 1, "hidden_sizes": (4,)}


@dataclasses.dataclass(frozen=True)
class Parts(Environment):
    """The native game; as many steps as `num_inner_steps`."""

    name = "Parts"

    @property
    def num_players(self):
        return 1

    @property
    def default_params(self):
        return GameParams()

    def make_observation_space(self, player):
        return Box(0.0, 100.0, (1,), np.float32)

    def make_action_space(self, player):
        return Discrete(2, dtype=np.int32)

    def reset_game(self, draws, params):
        return jnp.zeros(1), jnp.float32(0)

    def step_game(self, draws, game, actions, params):
        game = game + 1
        info = {
            "reward_components": {
                "velocity": jnp.float32(2),
                "energy": -1.0 + 0 * game,
            },
            "log": {"/robot/height_mean": game},
        }
        never = jnp.zeros((), bool)
        return game[None], game, jnp.float32(1), never, info


@dataclasses.dataclass(frozen=True)
class Counter(Agent):
    """A learner as users write them: options are fields, parameters one array.

    It plays action 0 and adds its rate to its only parameter at each update.
    """

    rate: float = 1.0

    learns = True

    def init_state(self, key):
        return TrainingState(params=jnp.zeros(1), timesteps=jnp.int32(0))

    def init_memory(self, key, hidden):
        extras = {"log_probs": jnp.float32(0), "values": jnp.float32(0)}
        return MemoryState(hidden=hidden, key=key, extras=extras)

    def policy(self, state, obs, memory):
        return jnp.int32(0), state, memory

    def update(self, traj, last_obs, state, memory):
        return state.replace(params=state.params + self.rate), memory, {}


class PartsEnv(gymnasium.Env):
    """The same for Gymnasium."""

    observation_space = Box(0.0, 100.0, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, length=5, as_time_out=False):
        self.length, self.as_time_out, self.steps = length, as_time_out, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == self.length
        info = {
            "reward_components": {"velocity": 2.0, "energy": -1.0},
            "log": {"/robot/height_mean": float(self.steps)},
            "time_outs": over,
        }
        terminated = over and self.as_time_out
        truncated = over and not self.as_time_out
        return np.full(1, self.steps, np.float32), 1.0, terminated, truncated, info
