"""Pictures of lanes, made on the host when somebody asks for one."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from paxenv.adapters import lanes
from paxenv.environment import Frame
from paxenv.single_player import SinglePlayer
from paxenv.types import Picture

RENDER_MODES = ["rgb_array", "ansi"]
#: What every environment says of its pictures.
METADATA = {"render_modes": RENDER_MODES, "render_fps": 4}


def check_render_mode(mode: str | None) -> str | None:
    """Returns `mode`.

    Raises:
        ValueError: If it is neither None nor one of `RENDER_MODES`; names them.
    """
    if mode is None or mode in RENDER_MODES:
        return mode
    raise ValueError(
        f"render_mode must be 'rgb_array' (an image) or 'ansi' (text), got {mode!r}; "
        "no window is opened"
    )


def frame_of(
    env: lanes.Game,
    lane: lanes.Lane,
    transition: lanes.Transition | None,
    action: PyTree,
    params: PyTree,
) -> Frame:
    """Returns what a picture shows of one lane.

    Args:
        env: The game.
        lane: The lane, unbatched.
        transition: Its last step, None if there is none in this trial.
        action: What we played in it.
        params: The game's numbers.
    """
    actions = rewards = None
    if transition is not None:
        actions, rewards = action, transition.rewards
        if isinstance(env, SinglePlayer):
            others = transition.info["opponent_action"]
            actions = env.joint_action(action, _in_player_order(others))
            rewards = tuple(transition.info["rewards"])
    return _to_host(Frame(lane.state, lane.obs, actions, rewards, params))


def picture(
    env: lanes.Game, frame: Frame, mode: str | None, owner: object
) -> Picture | str | None:
    """Returns a frame as an image or as text, or warns where `mode` is None."""
    if mode is None:
        return warn_of_no_mode(owner)
    return env.render_rgb(frame) if mode == "rgb_array" else env.render_ansi(frame)


def warn_of_no_mode(owner: object) -> None:
    """Warns that `render` shows nothing without a render mode."""
    gymnasium.logger.warn(
        f"{owner} was made without a render_mode, so render() shows nothing: pass "
        "render_mode='rgb_array' or render_mode='ansi' when you make it"
    )


def _in_player_order(others: Any) -> Any:
    """Returns several co-players' actions as a tuple, one co-player's as it is."""
    return tuple(others) if isinstance(others, np.ndarray) and others.ndim else others


def _to_host(frame: Frame) -> Frame:
    def read(leaf: Any) -> Any:
        is_key = jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
        return leaf if is_key else np.asarray(leaf)

    return jax.tree.map(read, frame)
