"""Many lanes of one seat of a game as a Stable-Baselines3 `VecEnv`."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode
from jaxtyping import Bool, Float, Num, PyTree

from paxenv.adapters import infos as infos_of
from paxenv.adapters.stream import as_space
from paxenv.adapters.vector_env import GymnasiumVectorEnv
from paxenv.types import Info

try:
    from stable_baselines3.common.monitor import (  # pyright: ignore
        Monitor,
    )
    from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore
except ImportError as error:
    raise ImportError(
        "Stable-Baselines3 is not installed: install the extra `sb3` of paxenv, with "
        "a CPU build of Torch before it if you have no GPU"
    ) from error


#: Lanes that are asked for; None: all of them.
Indices = int | Iterable[int] | None


class SB3VecEnv(VecEnv):
    """A vector environment in the form that Stable-Baselines3 trains on.

    At the end of a trial `infos[i]` holds `terminal_observation`,
    `TimeLimit.truncated`, `episode_metrics/...` and, as from a `Monitor`, `episode`
    with the return `r`, the length `l` and the seconds `t` since the environment was
    made.

    Args:
        venv: The vector environment, in mode `SAME_STEP` with NumPy arrays.
        seed: Seed of lane 0 at the next reset; lane i gets `seed + i`.

    Raises:
        ValueError: If `venv` is in another mode.
    """

    def __init__(self, venv: GymnasiumVectorEnv, seed: int = 0) -> None:
        same_step = venv.autoreset_mode is AutoresetMode.SAME_STEP
        if not same_step or venv.arrays != "numpy":
            raise ValueError(
                "Stable-Baselines3 needs autoreset_mode='SameStep' and arrays='numpy', "
                f"got {venv.autoreset_mode.value!r} and {venv.arrays!r}"
            )
        self.venv = venv
        # The spaces of `gymnasium.make`, so that a model goes from one to the other.
        super().__init__(
            venv.num_envs,
            as_space(venv.single_observation_space),
            as_space(venv.single_action_space),
        )
        self.metadata = venv.metadata
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, int)
        self._actions: Any = None
        self._started = time.perf_counter()
        self.seed(seed)

    def reset(self) -> PyTree:
        """Opens a trial in every lane and returns the observations."""
        obs, _ = self.venv.reset(seed=self._seeds[0])
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return self._seen(obs)

    def step_async(self, actions: Num[np.ndarray, "lanes ..."]) -> None:
        """Keeps the actions for `step_wait`."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[
        PyTree, Float[np.ndarray, " lanes"], Bool[np.ndarray, " lanes"], list[Info]
    ]:
        """Plays the kept actions and returns (obs, rewards, dones, infos)."""
        obs, rewards, terminated, truncated, info = self.venv.step(self._actions)
        rewards = rewards.astype(np.float32)
        dones = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        metrics = {k: v for k, v in info.get("final_info", {}).items() if _is_metric(k)}
        for i in np.flatnonzero(dones).tolist():
            infos[i] = {
                "terminal_observation": self._seen(info["final_obs"][i]),
                "TimeLimit.truncated": bool(truncated[i]),
                "episode": {
                    "r": round(float(self._returns[i]), 6),
                    "l": int(self._lengths[i]),
                    "t": round(time.perf_counter() - self._started, 6),
                },
                **infos_of.plain(infos_of.lane_of(metrics, i)),
            }
        self._returns[dones] = 0.0
        self._lengths[dones] = 0
        return self._seen(obs), rewards, dones, infos

    def _seen(self, obs: Any) -> Any:
        """Returns observations in the dtype of their space."""
        is_index = isinstance(self.observation_space, Discrete)
        return np.asarray(obs, np.int64) if is_index else obs

    def close(self) -> None:
        """Closes the vector environment."""
        self.venv.close()

    def get_images(self) -> Sequence[Any]:
        """Returns a picture of every lane."""
        return self.venv.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Returns an attribute of the vector environment, once for each lane asked."""
        value = getattr(self.venv, attr_name)
        return [value for _ in self._lanes(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Sets an attribute of the vector environment, which all lanes share."""
        if len(self._lanes(indices)) != self.num_envs:
            raise ValueError(f"all lanes share {attr_name!r}: set it without indices")
        setattr(self.venv, attr_name, value)

    def env_method(
        self, method_name: str, *args: Any, indices: Indices = None, **kwargs: Any
    ) -> list[Any]:
        """Calls a method of the vector environment once, for all lanes asked."""
        value = getattr(self.venv, method_name)(*args, **kwargs)
        return [value for _ in self._lanes(indices)]

    def env_is_wrapped(
        self, wrapper_class: type, indices: Indices = None
    ) -> list[bool]:
        """Returns True for `Monitor`, whose episode statistics are in our infos."""
        wrapped = issubclass(wrapper_class, Monitor)
        return [wrapped for _ in self._lanes(indices)]

    def _lanes(self, indices: Indices) -> list[int]:
        return list(self._get_indices(indices))


def make(id: str, num_envs: int, seed: int, **kwargs: Any) -> SB3VecEnv:
    """Makes a `SB3VecEnv`; see `paxenv.sb3_vec_env`."""
    venv = GymnasiumVectorEnv(
        id, num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **kwargs
    )
    return SB3VecEnv(venv, seed)


def _is_metric(name: str) -> bool:
    return name.partition("/")[0] == "episode_metrics"
