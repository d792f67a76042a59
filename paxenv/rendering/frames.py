"""What pictures of all games say alike: the clock, actions and rewards in words."""

from typing import SupportsFloat, SupportsInt

import numpy as np

from paxenv.environment import Frame


def check_single(frame: Frame) -> None:
    """Raises ValueError if a frame holds many games: one picture shows one game."""
    batch = np.shape(frame.state.inner_t)
    if batch:
        raise ValueError(
            f"this state holds a batch of games of shape {batch}; pick one by index, "
            "for instance jax.tree.map(lambda x: x[0], state)"
        )


def clock(frame: Frame, num_inner_steps: int, num_outer_steps: int) -> str:
    """Returns steps taken and the inner episode's number, such as STEP 3/100."""
    text = f"step {int(frame.state.inner_t)}/{num_inner_steps}"
    if num_outer_steps == 1:
        return text
    episode = min(int(frame.state.outer_t) + 1, num_outer_steps)
    return f"{text}  episode {episode}/{num_outer_steps}"


def action_name(action: SupportsInt, num_actions: int) -> str:
    """Returns C or D in games of two actions, else the action's number."""
    return "CD"[int(action)] if num_actions == 2 else str(int(action))


def number(value: SupportsFloat) -> str:
    """Returns a reward in at most four digits."""
    return f"{float(value):.4g}"
