"""One lane on the host, as the environments of a single game step it."""

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.error import ResetNeeded
from jaxtyping import PyTree

from paxenv import keys
from paxenv.adapters import infos, lanes
from paxenv.adapters.forking import check_not_forked
from paxenv.adapters.packing import Packed
from paxenv.adapters.pictures import frame_of
from paxenv.environment import Frame
from paxenv.types import Info


class Stream:
    """A stream of trials of one game, with results in NumPy.

    Args:
        env: The game.
        params: Its numbers.
        form: How info is arranged, one of `infos.FORMS`.
        fixed: Whether info has the statistics of the trial at all times, 0 until it
            has ended.

    Attributes:
        seed: The seed of the lane, None before the first trial.
        over: Whether there is no trial to step: none was opened, or it has ended.
    """

    def __init__(
        self, env: lanes.Game, params: PyTree, form: str, *, fixed: bool = False
    ) -> None:
        self.env, self.params = env, params
        self.form = infos.check_form(form)
        self.seed: int | None = None
        self.over = True
        self._e = 0
        self._lane: Packed | None = None
        self._last: tuple[Any, Packed] | None = None
        self._info_shapes = lanes.info_shapes(env, params)
        self._unknown: dict[str, Any] = {}
        if fixed:
            shapes = lanes.statistics_shapes(env, params)
            unknown = {name: np.zeros(s.shape, s.dtype) for name, s in shapes.items()}
            self._unknown = {"episode_metrics": unknown}

    @property
    def state(self) -> PyTree:
        """The native state, None before the first trial."""
        return None if self._lane is None else lanes.unpack(self._lane).state

    @property
    def obs(self) -> PyTree:
        """What the players see, in fresh arrays.

        Raises:
            gymnasium.error.ResetNeeded: Before the first trial.
        """
        check_not_forked()
        if self._lane is None:
            raise ResetNeeded("there are no observations before the first reset")
        return jax.tree.map(np.array, lanes.unpack(self._lane).obs)

    def open(self, seed: int | None) -> tuple[PyTree, Info]:
        """Opens trial 0 of `seed`, or the next one of the last seed.

        The first trial of all draws its seed where none is given.

        Returns:
            (observations, info of zeros).

        Raises:
            ValueError: If `seed` is not a whole number >= 0; nothing changes.
        """
        check_not_forked()
        if seed is None and self.seed is None:
            seed = draw_seed()
        e = 0 if seed is not None else self._e + 1
        seed = self.seed if seed is None else keys.whole("seed", seed)
        assert seed is not None
        lane_key = keys.lane(seed)
        self._lane = lanes.open_one(self.env, lane_key, np.int32(e), self.params)
        self.seed, self._e, self._last, self.over = seed, e, None, False
        obs = self.obs
        info = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), self._info_shapes)
        return obs, infos.arranged({**info, **self._unknown}, self.form)

    def play(self, action: PyTree) -> lanes.Transition:
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
        info = {**transition.info, **self._unknown}
        if self.over:
            named = lanes.statistics_of_one(self.env, self._lane).read()
            info = {**info, "episode_metrics": named}
        return transition._replace(info=infos.arranged(info, self.form))

    def check_open(self) -> None:
        """Raises ResetNeeded if there is no trial to step."""
        check_not_forked()
        if self.over:
            when = "before the first reset" if self._lane is None else "after the end"
            raise ResetNeeded(f"step was called {when} of a trial: call reset first")

    def frame(self) -> Frame:
        """Returns what a picture of this moment shows.

        Raises:
            gymnasium.error.ResetNeeded: Before the first trial.
        """
        check_not_forked()
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


def joined_space(spaces: Sequence[gymnasium.Space]) -> gymnasium.spaces.Box:
    """Returns the space of all numbers of some spaces' members, in one vector.

    Raises:
        TypeError: If one of them is neither discrete, a Box, nor made of such.
    """
    lows, highs = zip(*(bounds for s in spaces for bounds in _bounds(s)), strict=True)
    low, high = np.concatenate(lows), np.concatenate(highs)
    return gymnasium.spaces.Box(low, high, dtype=low.dtype.type)


def as_observation(obs: PyTree) -> PyTree:
    """Returns an observation of NumPy arrays with indices as `np.int64`."""

    def convert(leaf: np.ndarray) -> Any:
        return np.int64(leaf) if leaf.ndim == 0 and leaf.dtype.kind in "iu" else leaf

    return convert(obs) if isinstance(obs, np.ndarray) else jax.tree.map(convert, obs)


def _bounds(space: gymnasium.Space) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns (low, high) of each array of a space's members, flattened."""
    if isinstance(space, gymnasium.spaces.Tuple):
        return [bounds for part in space.spaces for bounds in _bounds(part)]
    if isinstance(space, gymnasium.spaces.Dict):
        names = sorted(space.spaces)
        return [bounds for name in names for bounds in _bounds(space.spaces[name])]
    if isinstance(space, gymnasium.spaces.Discrete):
        first = int(space.start)
        ends = (first, first + int(space.n) - 1)
    elif isinstance(space, gymnasium.spaces.MultiDiscrete):
        ends = (space.start, space.start + space.nvec - 1)
    elif isinstance(space, gymnasium.spaces.Box):
        ends = (space.low, space.high)
    else:
        raise TypeError(f"observations in {space} have no place in a vector")
    low, high = (np.ravel(np.asarray(end, space.dtype)) for end in ends)
    return [(low, high)]
