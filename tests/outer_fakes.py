"""A learner and a game in which what an individual is worth can be written down."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box

from paxenv.environment import Environment
from paxenv.options import Weight
from paxenv.params import GameParams
from paxenv_agents.learners.learner import Learner
from paxenv_agents.types import TrainingState


class Pay(GameParams):
    """What an action is worth."""

    unit: object = 1.0
    table: object = dataclasses.field(default_factory=lambda: jnp.ones((2, 2)))


@dataclasses.dataclass(frozen=True)
class Pays(Environment):
    """Every step pays `unit` times the action, which is any number."""

    name = "Pays"

    @property
    def num_players(self):
        return 1

    @property
    def default_params(self):
        return Pay()

    def make_observation_space(self, player):
        return Box(0, 1, (1,), np.float32)

    def make_action_space(self, player):
        return Box(-1e6, 1e6, (), np.float32)

    def reset_game(self, draws, params):
        return jnp.zeros(1), jnp.zeros(())

    def step_game(self, draws, game, actions, params):
        reward = params.unit * params.table.mean() * actions
        return jnp.zeros(1), game, reward, jnp.zeros((), bool), {}


@dataclasses.dataclass(frozen=True)
class ClimberConfig:
    """Options of a climber."""

    learning_rate: Weight = 0.25
    entropy_coeff: float = 0.01
    n_steps: int = 4
    batch_size: int = 1
    hidden_sizes: tuple[int, ...] = (2,)
    num_envs: int | None = None

    def __post_init__(self):
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be >= 1, got {self.batch_size}")


@dataclasses.dataclass(frozen=True)
class Climber(Learner):
    """Acts by its level, which every update raises by learning_rate * batch_size.

    The weights of `critic` are never used.
    """

    config: Any = ClimberConfig()
    config_class: ClassVar[Any] = ClimberConfig

    def rollout_length(self, num_games):
        return self.config.n_steps

    def initial_hyper(self):
        return self.traced("learning_rate", "entropy_coeff")

    def init_state(self, key):
        widths = self.config.hidden_sizes
        return TrainingState(
            params={"critic": jnp.zeros(widths), "level": jnp.zeros(())},
            opt_state=(),
            key=key,
            timesteps=jnp.zeros((), jnp.int32),
            hyper=self.initial_hyper(),
        )

    def policy(self, state, obs, memory):
        zero = jnp.zeros((), jnp.float32)
        memory = memory.replace(extras={"log_probs": zero, "values": zero})
        return state.params["level"] + 0.0 * obs[0], state, memory

    def update(self, traj, last_obs, state, memory):
        step = state.hyper["learning_rate"] * self.config.batch_size
        params = {**state.params, "level": state.params["level"] + step}
        steps = state.timesteps + traj.rewards.size
        learnt = state.replace(params=params, timesteps=steps)
        return learnt, memory, {"loss/total": -params["level"]}


def climber(**options):
    """Returns (climber, game, numbers); an episode has two steps."""
    env = Pays(2)
    config = ClimberConfig(**options)
    agent = Climber(env.observation_space(0), env.action_space(0), config)
    return agent, env, jax.tree.map(jnp.asarray, env.default_params)
