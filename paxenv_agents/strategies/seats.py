"""Requirements of strategies for their seat, checked at construction."""

import gymnasium
import numpy as np

from paxenv import spaces
from paxenv_agents.registry import PairingError

MEMORY_ONE_STATES = 5


def require_two_actions(action_space: gymnasium.Space) -> None:
    """Raises PairingError unless the actions are 0, cooperate, and 1, defect."""
    if not isinstance(action_space, gymnasium.spaces.Discrete) or action_space.n != 2:
        raise PairingError(
            "it needs a game of two actions, 0 = cooperate and 1 = defect, got the "
            f"action space {action_space}"
        )


def require_last_joint_action(observation_space: gymnasium.Space) -> None:
    """Raises PairingError unless observations are CC, CD, DC, DD and START."""
    try:
        num_states = spaces.num_states(observation_space)
    except ValueError:
        num_states = 0
    if num_states != MEMORY_ONE_STATES:
        raise PairingError(
            "it needs a two-player game that shows the last joint action as one of "
            f"{MEMORY_ONE_STATES} states, got the observation space {observation_space}"
        )


def require_finite_box(space: gymnasium.spaces.Box) -> None:
    """Raises PairingError unless a Box is of floats between finite bounds."""
    finite = np.isfinite(space.low).all() and np.isfinite(space.high).all()
    if not np.issubdtype(space.dtype, np.floating) or not finite:
        raise PairingError(
            f"it needs a Box of floats with finite bounds to draw from, got {space}"
        )
