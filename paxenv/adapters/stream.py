"""One lane on the host, as the environments of a single game step it."""

import copy
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.error import ResetNeeded

from paxenv import keys
from paxenv.adapters import lanes
from paxenv.adapters.packing import Packed
from paxenv.adapters.pictures import frame_of
from paxenv.environment import Frame


class Stream:
    """A stream of trials of one game, with results in NumPy.

    Args:
        env: The game.
        params: Its numbers.

    Attributes:
        seed: The seed of the lane, None before the first trial.
        over: Whether there is no trial to step: none was opened, or it has ended.
    """

    def __init__(self, env: Any, params: Any) -> None:
        self.env, self.params = env, params
        self.seed: int | None = None
        self.over = True
        self._e = 0
        self._lane: Packed | None = None
        self._last: tuple[Any, Packed] | None = None
        self._info_shapes = lanes.info_shapes(env, params)

    @property
    def state(self) -> Any:
        """The native state, None before the first trial."""
        return None if self._lane is None else lanes.unpack(self._lane).state

    def open(self, seed: int | None) -> tuple[Any, dict[str, Any]]:
        """Opens trial 0 of `seed`, or the next one of the last seed.

        The first trial of all draws its seed where none is given.

        Returns:
            (observations, info of zeros).

        Raises:
            ValueError: If `seed` is not a whole number >= 0; nothing changes.
        """
        if seed is None and self.seed is None:
            seed = draw_seed()
        e = 0 if seed is not None else self._e + 1
        seed = self.seed if seed is None else keys.whole("seed", seed)
        assert seed is not None
        lane_key = keys.lane(seed)
        self._lane = lanes.open_one(self.env, lane_key, np.int32(e), self.params)
        self.seed, self._e, self._last, self.over = seed, e, None, False
        obs = jax.tree.map(np.array, lanes.unpack(self._lane).obs)
        info = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), self._info_shapes)
        return obs, info

    def play(self, action: Any) -> lanes.Transition:
        """Plays one checked action; the end of a trial adds its statistics to info.

        Raises:
            gymnasium.error.ResetNeeded: If there is no trial to step.
        """
        self.check_open()
        assert self._lane is not None
        self._lane, packed = lanes.play_one(self.env, self._lane, action, self.params)
        self._last = action, packed
        transition = packed.read()
        self.over = bool(transition.terminated or transition.truncated)
        if self.over:
            named = lanes.statistics_of_one(self.env, self._lane).read()
            transition.info["episode_metrics"] = named
        return transition

    def check_open(self) -> None:
        """Raises ResetNeeded if there is no trial to step."""
        if self.over:
            when = "before the first reset" if self._lane is None else "after the end"
            raise ResetNeeded(f"step was called {when} of a trial: call reset first")

    def frame(self) -> Frame:
        """Returns what a picture of this moment shows.

        Raises:
            gymnasium.error.ResetNeeded: Before the first trial.
        """
        if self._lane is None:
            raise ResetNeeded("render was called before the first reset")
        action, packed = self._last or (None, None)
        transition = None if packed is None else packed.read()
        lane = lanes.unpack(self._lane)
        return frame_of(self.env, lane, transition, action, self.params)


def draw_seed() -> int:
    """Returns a seed from the operating system's entropy; 31 bits, for all tools."""
    return int(np.random.SeedSequence().generate_state(1)[0] >> 1)


def as_space(space: gymnasium.Space) -> gymnasium.Space:
    """Returns a copy of a space, as spaces carry a random state; Discrete in int64."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return gymnasium.spaces.Discrete(int(space.n), start=int(space.start))
    return copy.deepcopy(space)


def as_observation(obs: Any) -> Any:
    """Returns an observation of NumPy arrays with indices as `np.int64`."""

    def convert(leaf: np.ndarray) -> Any:
        return np.int64(leaf) if leaf.ndim == 0 and leaf.dtype.kind in "iu" else leaf

    return convert(obs) if isinstance(obs, np.ndarray) else jax.tree.map(convert, obs)


def as_info(info: dict[str, Any]) -> dict[str, Any]:
    """Returns a dictionary of NumPy arrays with scalars as Python numbers."""
    return {
        name: as_info(value) if isinstance(value, dict) else _plain(value)
        for name, value in info.items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    return value.item() if value.ndim == 0 else value
