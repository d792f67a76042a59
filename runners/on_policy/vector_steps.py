"""One step of a Gymnasium vector environment, in every autoreset mode."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv


class Transition(NamedTuple):
    """What one call of a vector environment says of the step that was played.

    Attributes:
        obs: What is seen next, `[E, ...]`.
        final_obs: What the step led to, `[E, ...]`.
        rewards: `[E]`.
        terminated: Whether the rules ended the episode, bool `[E]`.
        truncated: Whether time did; never both.
        infos: As the environment gave them.
    """

    obs: Any
    final_obs: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: Mapping[str, Any]


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """Returns when a vector environment opens the next episode.

    Raises:
        ValueError: If it does not say so in `metadata["autoreset_mode"]`.
    """
    mode = (env.metadata or {}).get("autoreset_mode", AutoresetMode.NEXT_STEP)
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(
            f"{env} has the autoreset mode {mode!r}; known are "
            f"{', '.join(str(known) for known in AutoresetMode)}"
        ) from None


def as_vector_env(env: gymnasium.Env | VectorEnv) -> VectorEnv:
    """Returns a vector environment, of one game if a plain one is given."""
    if isinstance(env, VectorEnv):
        return env
    return gymnasium.vector.SyncVectorEnv([lambda: env])


def transition(env: VectorEnv, mode: AutoresetMode, actions: np.ndarray) -> Transition:
    """Plays one step of every game, and opens the next episodes if the mode is to."""
    obs, rewards, terminated, truncated, infos = env.step(actions)
    # A vector environment may use its arrays again.
    obs, ended = np.array(obs), terminated | truncated
    timed_out = np.asarray(infos.get("time_outs", False))
    if isinstance(infos.get("final_info"), Mapping):
        timed_out = timed_out | infos["final_info"].get("time_outs", False)
    timed_out = ended & timed_out
    final_obs = obs
    if mode == AutoresetMode.SAME_STEP and ended.any():
        final_obs = obs.copy()
        for i in np.flatnonzero(ended):
            final_obs[i] = infos["final_obs"][i]
    if mode == AutoresetMode.DISABLED and ended.any():
        obs = np.array(env.reset(options={"reset_mask": ended})[0])
    terminated = terminated & ~timed_out
    return Transition(
        obs=obs,
        final_obs=final_obs,
        rewards=np.array(rewards, np.float64),
        terminated=terminated,
        truncated=(truncated | timed_out) & ~terminated,
        infos=infos,
    )
