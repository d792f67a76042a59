"""TitForTat among many: strategies of games of two actions and any number of players.

With two players each of them is TitForTat. They cooperate at the opening of an inner
episode.
"""

import abc
import dataclasses
from typing import Any, Self

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from paxenv import spaces
from paxenv.environment import Environment
from paxenv_agents import agent
from paxenv_agents.agent import Agent
from paxenv_agents.registry import PairingError
from paxenv_agents.strategies.memory_one import require_two_actions
from paxenv_agents.types import Acted, MemoryState, TrainingState


@dataclasses.dataclass(frozen=True)
class TitForTatAmongMany(Agent):
    """A rule of the own last action and of how many others defected.

    Raises:
        PairingError: If the seat has not two actions, or does not show the last joint
            action of players of two actions, own action first.

    Source: Axelrod, The Evolution of Cooperation (1984), for two players; Willi et al.,
    Pax: Scalable Opponent Shaping in JAX (2023), for three and more.
    """

    def __post_init__(self) -> None:
        require_two_actions(self.action_space)
        num_players(self.observation_space)

    @classmethod
    def for_seat(cls, env: Environment, player: int, **fields: Any) -> Self:
        """Refuses a game that does not show the actions of all its players."""
        observation_space = env.observation_space(player)
        require_two_actions(env.action_space(player))
        seen, seats_taken = num_players(observation_space), agent.num_players(env)
        if seen != seats_taken:
            raise PairingError(
                f"it needs to see two actions of each of {seats_taken} players, "
                f"got {observation_space}"
            )
        return super().for_seat(env, player, **fields)

    @abc.abstractmethod
    def reply(
        self, own: Int[Array, ""], defectors: Int[Array, ""], others: int
    ) -> Int[Array, ""] | Bool[Array, ""]:
        """Returns the next action, a bool or 0 and 1.

        Args:
            own: The own last action.
            defectors: How many of the others defected.
            others: How many others there are.
        """

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        others = num_players(self.observation_space) - 1
        seen = spaces.decode_state(obs, self.observation_space)
        defectors = jax.lax.population_count(seen & (2**others - 1))
        action = self.reply(seen >> others, defectors, others)
        opens = seen == 2 ** (others + 1)
        action = jnp.where(opens, 0, action).astype(jnp.int32)
        return action, state, memory


class StrictStay(TitForTatAmongMany):
    """Does what the others did if they all did the same, else what it did itself."""

    def reply(
        self, own: Int[Array, ""], defectors: Int[Array, ""], others: int
    ) -> Int[Array, ""] | Bool[Array, ""]:
        agree = (defectors == 0) | (defectors == others)
        return jnp.where(agree, defectors > 0, own)


class StrictSwitch(TitForTatAmongMany):
    """Does what the others did if they all did the same, else not what it did."""

    def reply(
        self, own: Int[Array, ""], defectors: Int[Array, ""], others: int
    ) -> Int[Array, ""] | Bool[Array, ""]:
        agree = (defectors == 0) | (defectors == others)
        return jnp.where(agree, defectors > 0, 1 - own)


class UnlessAllDefect(TitForTatAmongMany):
    """Defects only after all the others did."""

    def reply(
        self, own: Int[Array, ""], defectors: Int[Array, ""], others: int
    ) -> Int[Array, ""] | Bool[Array, ""]:
        del own
        return defectors == others


class IfAllCooperate(TitForTatAmongMany):
    """Cooperates only after all the others did."""

    def reply(
        self, own: Int[Array, ""], defectors: Int[Array, ""], others: int
    ) -> Int[Array, ""] | Bool[Array, ""]:
        del own, others
        return defectors > 0


class Majority(TitForTatAmongMany):
    """Defects after more than half of the others did."""

    def reply(
        self, own: Int[Array, ""], defectors: Int[Array, ""], others: int
    ) -> Int[Array, ""] | Bool[Array, ""]:
        del own
        return 2 * defectors > others


def num_players(observation_space: gymnasium.Space) -> int:
    """Returns how many players of two actions a state space shows.

    Raises:
        PairingError: If it does not show the last joint action of such players.
    """
    try:
        joint_actions = spaces.num_states(observation_space) - 1
    except ValueError:
        joint_actions = 0
    count = joint_actions.bit_length() - 1
    if count < 2 or joint_actions != 2**count:
        raise PairingError(
            "it needs a game that shows the last joint action of two or more players "
            f"of two actions, got the observation space {observation_space}"
        )
    return count
