"""Ten-line games and players that make the protocol's behaviour visible."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Discrete

from paxenv import keys
from paxenv.environment import Environment
from paxenv.params import GameParams


class CountingParams(GameParams):
    """The game ends by its rules when the sum of all actions reaches `limit`."""

    limit: object = 3.0


@dataclasses.dataclass(frozen=True)
class Counting(Environment):
    """Each of `players` adds 0 or 1 to a sum and is paid 10 * action + its seat."""

    players: int = 2
    name = "Counting"

    @property
    def num_players(self):
        return self.players

    @property
    def default_params(self):
        return CountingParams()

    def make_observation_space(self, player):
        return Box(0, 1000, (2,), np.int32)

    def make_action_space(self, player):
        return Discrete(2, dtype=np.int32)

    def reset_game(self, draws, params):
        total = jnp.int32(0)
        return self._views(total), total

    def step_game(self, draws, game, actions, params):
        total = game + sum(actions)
        rewards = tuple(10.0 * a + p for p, a in enumerate(actions))
        return self._views(total), total, rewards, total >= params.limit, {"sum": total}

    def _views(self, total):
        return tuple(jnp.stack([total, jnp.int32(p)]) for p in range(self.players))


@dataclasses.dataclass(frozen=True)
class Dice(Environment):
    """Each step and opening throws a die; a step pays the last roll, by 1 doubled."""

    name = "Dice"

    @property
    def num_players(self):
        return 1

    @property
    def default_params(self):
        return GameParams()

    def make_observation_space(self, player):
        return Discrete(7, dtype=np.int32)

    def make_action_space(self, player):
        return Discrete(2, dtype=np.int32)

    def draw(self, key):
        return keys.words(key, 2)

    def reset_game(self, draws, params):
        roll = 1 + keys.below(draws[0], 6)
        return roll, roll

    def step_game(self, draws, game, actions, params):
        roll = 1 + keys.below(draws[1], 6)
        reward = (game * (1 + actions)).astype(jnp.float32)
        return roll, roll, reward, jnp.zeros((), bool), {"roll": roll}


@dataclasses.dataclass(frozen=True)
class Recall(Environment):
    """Shows 0 or 1 at the opening and 2 ever after; the action of the last step is paid
    1 if it is what was shown at first, and -1 if not.
    """

    name = "Recall"

    @property
    def num_players(self):
        return 1

    @property
    def default_params(self):
        return GameParams()

    def make_observation_space(self, player):
        return Discrete(3, dtype=np.int32)

    def make_action_space(self, player):
        return Discrete(2, dtype=np.int32)

    def draw(self, key):
        return keys.below(keys.words(key, 1)[0], 2)

    def reset_game(self, draws, params):
        return draws, (draws, jnp.int32(0))

    def step_game(self, draws, game, actions, params):
        cue, t = game
        last = t == self.num_inner_steps - 1
        reward = jnp.where(last, jnp.where(actions == cue, 1.0, -1.0), 0.0)
        return jnp.int32(2), (cue, t + 1), reward, jnp.zeros((), bool), {}
