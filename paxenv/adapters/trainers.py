"""Environments for trainers that are optional packages: imported when used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paxenv.adapters.sb3_vec_env import SB3VecEnv


def sb3_vec_env(id: str, num_envs: int, *, seed: int = 0, **kwargs: Any) -> "SB3VecEnv":
    """Makes many games against opponents for Stable-Baselines3.

    Args:
        id: Id of the game, such as `"IPD-v0"`.
        num_envs: The number of lanes.
        seed: Seed of lane 0; lane i gets `seed + i`.
        **kwargs: `player`, `opponent`, `opponent_learns`, `info`, `max_episode_steps`,
            `render_mode` and options of the game.

    Raises:
        ImportError: If Stable-Baselines3 is not installed.

    Example:
        >>> env = paxenv.sb3_vec_env("IPD", num_envs=16, opponent="TitForTat")
        >>> PPO("MlpPolicy", env, seed=0).learn(40_000)
    """
    module = importlib.import_module("paxenv.adapters.sb3_vec_env")
    return module.make(id, num_envs, seed, **kwargs)
