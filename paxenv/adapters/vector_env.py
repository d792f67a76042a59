"""Many lanes of one seat of a game as a Gymnasium vector environment."""

import copy
import importlib
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import PyTree

from paxenv import keys, missing, registry, scalars, spaces
from paxenv.adapters import horizons, infos, lanes, pictures
from paxenv.adapters.actions import checked_actions
from paxenv.adapters.forking import StaysUnforked, check_not_forked
from paxenv.adapters.stream import draw_seed
from paxenv.types import Info

#: The kinds of arrays that it returns.
ARRAYS = ("numpy", "jax", "torch")


class GymnasiumVectorEnv(  # pyright: ignore[reportIncompatibleVariableOverride]
    StaysUnforked, horizons.HasHorizon, gymnasium.vector.VectorEnv
):
    """Many games against opponents, stepped by one compiled call.

    Lane i plays the trajectory of `paxenv.replay(*native, seed, i, actions)`, which is
    that of the single environment with seed `seed + i`. `info` is that of the single
    environment in Gymnasium's vector form: an array for each entry, and under the
    name with a leading underscore which lanes have it.

    Args:
        game_id: Id of the game, such as `"IPD"`.
        num_envs: The number of lanes.
        player: The seat that the caller plays, from 0.
        opponent: Who plays the other seats; see
            `paxenv_agents.opponents.make_single_player`.
        opponent_learns: Whether the opponent learns within the trial.
        autoreset_mode: When the next trial is opened, as an `AutoresetMode` or its
            value: in the step after the end (`"NextStep"`), whose action is ignored;
            in the step of the end (`"SameStep"`), with the last observation and info
            under `final_obs` and `final_info`; or by
            `reset(options={"reset_mask": mask})` alone (`"Disabled"`).
        arrays: `"numpy"` for writable copies; `"jax"` or `"torch"` for arrays that
            stay on the device, where `final_obs`, `final_info` and `episode_metrics`
            are whole arrays and their masks tell which lanes count.
        info: `"flat"` for info without dictionaries inside, or `"nested"`.
        max_episode_steps: Steps of a trial, another name of `num_inner_steps`.
        render_mode: None, `"rgb_array"` or `"ansi"`.
        **options: Options of the game; see `paxenv.make`.

    Raises:
        ValueError: If an argument is refused; the message names the value.
        RuntimeError: In a process forked from one that uses JAX; so do a reset, a
            step and a picture of an environment that was carried into one.
    """

    metadata = {**pictures.METADATA, "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        game_id: str,
        num_envs: int = 1,
        *,
        player: int = 0,
        opponent: Any = None,
        opponent_learns: bool = False,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        arrays: str = "numpy",
        info: str = "flat",
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_not_forked()
        self.num_envs = _checked_num_envs(num_envs)
        self.autoreset_mode = _checked_mode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.arrays = check_arrays(arrays)
        self.form = infos.check_form(info)
        self.render_mode = pictures.check_render_mode(render_mode)
        options = horizons.with_max_episode_steps(game_id, max_episode_steps, options)
        self.native = registry.import_agents("opponents").make_single_player(
            game_id, player, opponent, opponent_learns, **options
        )
        self._player = f"player {player}"
        env, params = self.native
        self.single_observation_space = copy.deepcopy(env.observation_space(0))
        self.single_action_space = copy.deepcopy(env.action_space(0))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._info_shapes = lanes.info_shapes(env, params)
        self._lanes: lanes.Lane | None = None
        self._last: tuple[Any, Any] | None = None

    @property
    def state(self) -> PyTree:
        """The native states, `[num_envs, ...]`, None before the first reset."""
        return None if self._lanes is None else self._lanes.state

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[PyTree, Info]:
        """Opens a trial in every lane, or in those of `options["reset_mask"]`.

        Lane i opens trial 0 of `seed + i`, or without a seed the next trial of its
        last seed. The first reset without a seed draws one; `np_random_seed` tells
        which.

        Raises:
            ValueError: If `seed` is not a whole number >= 0, or the mask is no bool
                array of one entry for each lane.
            gymnasium.error.ResetNeeded: If the first reset has a mask.
        """
        check_not_forked()
        mask = _checked_mask((options or {}).get("reset_mask"), self.num_envs)
        if mask is not None and self._lanes is None:
            raise ResetNeeded(
                "the first reset must be of all lanes: pass no reset_mask"
            )
        if seed is None and self._lanes is None:
            seed = draw_seed()
        env, params = self.native
        if seed is not None:
            seed = keys.whole("seed", seed)
            lane_keys = keys.lanes(seed, self.num_envs)
            e = np.zeros(self.num_envs, np.int32)
            super().reset(seed=seed)
        else:
            assert self._lanes is not None
            lane_keys, e = self._lanes.key, self._lanes.e + 1
        opened = lanes.open_many(env, lane_keys, e, params)
        if mask is not None:
            opened = lanes.choose(mask, opened, self._lanes)
        self._lanes, self._last = opened, None
        return self._own_obs(), self._opening_info(mask)

    def step(self, actions: Any) -> tuple[PyTree, Any, Any, Any, Info]:
        """Plays one action in every lane.

        Args:
            actions: `[num_envs, ...]`; not read in lanes that open a trial instead.

        Raises:
            ValueError: If an action is not in the action space; nothing changes.
            gymnasium.error.ResetNeeded: Before the first reset, and with autoreset
                disabled if a lane is over.
        """
        check_not_forked()
        actions = self._checked(actions)
        play = self._play_in_numpy if self.arrays == "numpy" else self._play_on_device
        obs, rewards, terminated, truncated, info = play(actions)
        return obs, rewards, terminated, truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """Returns a picture of every lane."""
        check_not_forked()
        if self._lanes is None:
            raise ResetNeeded("render was called before the first reset")
        if self.render_mode is None:
            return pictures.warn_of_no_mode(self)
        return tuple(self._picture(i) for i in range(self.num_envs))

    def _checked(self, actions: Any) -> Any:
        if self._lanes is None:
            raise ResetNeeded("step was called before the first reset")
        values, inside = checked_actions(
            actions, self.single_action_space, self.num_envs, self._player
        )
        disabled = self.autoreset_mode is AutoresetMode.DISABLED
        if inside.all() and not disabled:
            return self._as_input(actions, values)
        over = np.asarray(self._lanes.over)
        if disabled and over.any():
            raise ResetNeeded(
                f"lanes {np.flatnonzero(over).tolist()} are over and autoreset is "
                'disabled: call reset(options={"reset_mask": mask}) first'
            )
        for lane in np.flatnonzero(~inside & ~over):
            raise ValueError(
                f"{self._player}'s action {values[lane]!r} in lane {lane} is not in "
                f"{self.single_action_space}; nothing was changed"
            )
        return self._as_input(actions, values)

    def _as_input(self, actions: Any, values: np.ndarray) -> Any:
        """Returns actions in the space's dtype, those on a JAX device unmoved."""
        dtype = spaces.dtype_of(self.single_action_space)
        source = actions if isinstance(actions, jax.Array) else values
        return source.astype(dtype)

    def _play_in_numpy(self, actions: Any) -> lanes.Transition:
        env, params = self.native
        assert self._lanes is not None
        self._lanes, packed, ending = lanes.play_many(
            env, self.autoreset_mode, self._lanes, actions, params
        )
        self._last = actions, packed
        transition = packed.read()
        shown = infos.arranged(transition.info, self.form)
        info = infos.at(np.ones(self.num_envs, bool), shown)
        done = transition.terminated | transition.truncated
        if done.any():
            info |= self._endings(done, ending)
        return transition._replace(info=info)

    def _endings(self, done: np.ndarray, ending: lanes.Ending | None) -> dict[str, Any]:
        """Returns the entries of lanes whose trial this step has ended."""
        assert self._lanes is not None
        totals = lanes.totals_of(self._lanes, ending)
        named = lanes.statistics_of_many(self.native[0], totals).read()
        named = infos.arranged({"episode_metrics": named}, self.form)
        metrics = infos.at(done, named)
        if ending is None:
            return metrics
        obs, last_info = convert((ending.obs, ending.info), "numpy")
        finals = {
            "final_obs": infos.objects(obs, done),
            "final_info": infos.at(done, infos.arranged(last_info, self.form))
            | metrics,
        }
        return finals | {f"_{name}": done.copy() for name in finals}

    def _play_on_device(self, actions: Any) -> lanes.Transition:
        env, params = self.native
        assert self._lanes is not None
        flag = missing.stops_at_nan()
        self._lanes, transition = lanes.play_many_on_device(
            env, self.autoreset_mode, self.form, flag, self._lanes, actions, params
        )
        if flag:
            info = missing.on_device(transition.info)
            transition = transition._replace(info=info)
        self._last = actions, transition
        return convert(transition, self.arrays)

    def _own_obs(self) -> Any:
        """Returns observations that share no memory with our state."""
        assert self._lanes is not None
        if self.arrays == "torch":
            return convert(jax.tree.map(jnp.copy, self._lanes.obs), "torch")
        return convert(self._lanes.obs, self.arrays)

    def _opening_info(self, mask: np.ndarray | None) -> dict[str, Any]:
        n = self.num_envs
        zeros = jax.tree.map(
            lambda s: np.zeros((n, *s.shape), s.dtype), self._info_shapes
        )
        zeros = infos.arranged(zeros, self.form)
        opened = np.ones(n, bool) if mask is None else mask
        if self.arrays == "numpy":
            return infos.at(opened, zeros)
        on_device = jax.tree.map(jnp.asarray, infos.at(opened, zeros))
        return convert(on_device, self.arrays)

    def _picture(self, i: int) -> Any:
        env, params = self.native
        lane = jax.tree.map(lambda x: x[i], self._lanes)
        action = transition = None
        if self._last is not None:
            actions, transition = self._last
            unpacked = transition.read() if self.arrays == "numpy" else transition
            transition = jax.tree.map(lambda x: np.asarray(x)[i], unpacked)
            action = np.asarray(actions)[i]
            if not transition.info["valid"]:
                action = transition = None
        frame = pictures.frame_of(env, lane, transition, action, params)
        return pictures.picture(env, frame, self.render_mode, self)


def check_arrays(arrays: str) -> str:
    """Returns `arrays`.

    Raises:
        ValueError: If it is not one of `ARRAYS`.
        ModuleNotFoundError: If it is `"torch"` and Torch is not installed.
    """
    if arrays not in ARRAYS:
        raise ValueError(f"arrays must be one of {ARRAYS}, got {arrays!r}")
    if arrays == "torch":
        importlib.import_module("torch")
    return arrays


def convert(tree: PyTree, arrays: str) -> PyTree:
    """Returns a pytree of JAX arrays as one of the kind asked for.

    NumPy arrays are writable copies; Torch tensors share the memory of the JAX arrays,
    on the same device.
    """
    if arrays == "jax":
        return tree
    if arrays == "numpy":
        return jax.tree.map(np.array, tree)
    from_dlpack = importlib.import_module("torch").from_dlpack
    return jax.tree.map(from_dlpack, tree)


def _checked_num_envs(num_envs: Any) -> int:
    number = scalars.whole(num_envs)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"num_envs must be a whole number >= 1, got {num_envs!r}")
    return number


def _checked_mode(mode: AutoresetMode | str) -> AutoresetMode:
    names = {m.value: m for m in AutoresetMode} | {m.name: m for m in AutoresetMode}
    if isinstance(mode, AutoresetMode):
        return mode
    if mode not in names:
        values = [m.value for m in AutoresetMode]
        raise ValueError(f"autoreset_mode must be one of {values}, got {mode!r}")
    return names[mode]


def _checked_mask(mask: Any, num_envs: int) -> np.ndarray | None:
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape != (num_envs,):
        raise ValueError(
            f"reset_mask must be a bool array of shape ({num_envs},), got "
            f"{mask.dtype} of shape {mask.shape}"
        )
    return mask
