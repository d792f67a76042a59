"""The seat that an agent is made for, in a native game or in one of Gymnasium."""

from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from paxenv.environment import native


class GymnasiumSeat:
    """The one seat of a Gymnasium environment, read as a native game's.

    What only a native game says is asked of the game inside, where there is one, as in
    the environments of this package.

    Attributes:
        name: What the environment is called.
        num_players: 1.
    """

    num_players = 1

    def __init__(self, env: gymnasium.Env | VectorEnv) -> None:
        if isinstance(env, VectorEnv):
            spaces = env.single_observation_space, env.single_action_space
        else:
            spaces = env.observation_space, env.action_space
        self._spaces = spaces
        self._native = getattr(env.unwrapped, "native", None)
        self.name = str(env)

    def observation_space(self, player: int = 0) -> gymnasium.Space:
        """Returns what the agent sees in one game."""
        del player
        return self._spaces[0]

    def action_space(self, player: int = 0) -> gymnasium.Space:
        """Returns what the agent does in one game."""
        del player
        return self._spaces[1]

    def __getattr__(self, name: str) -> Any:
        native = self.__dict__.get("_native")
        if native is None or name.startswith("__"):
            raise AttributeError(f"{self.__dict__.get('name')} has no {name}")
        return getattr(native[0], name)


def seated(env: Any) -> Any:
    """Returns what `from_env` reads a seat of: a native game is returned as it is.

    Args:
        env: A native game, or a plain or vector environment of Gymnasium.

    Raises:
        ValueError: If it is neither.
    """
    return GymnasiumSeat(env) if is_gymnasium(env) else native(env)


def is_gymnasium(env: Any) -> bool:
    """Returns whether an object is a plain or vector environment of Gymnasium."""
    return isinstance(env, gymnasium.Env | VectorEnv)


def num_players(env: Any) -> int:
    """Returns the players of a game, those that sit inside a one-player game too."""
    while env.num_players == 1 and hasattr(env, "env"):
        env = env.env
    return env.num_players
