"""One seat of a game as a Gymnasium environment."""

from typing import Any

import gymnasium
from jaxtyping import PyTree

from paxenv import registry
from paxenv.adapters import infos, pictures
from paxenv.adapters.actions import checked_action
from paxenv.adapters.forking import StaysUnforked, check_not_forked
from paxenv.adapters.horizons import HasHorizon
from paxenv.adapters.stream import Stream, as_observation, as_space
from paxenv.types import Info, Picture


class GymnasiumEnv(  # pyright: ignore[reportIncompatibleVariableOverride]
    StaysUnforked, HasHorizon, gymnasium.Env
):
    """A game against opponents, in NumPy arrays and Python numbers.

    An episode is a trial: `num_outer_steps` inner episodes. Its trajectory is that of
    `paxenv.replay(*env.unwrapped.native, seed, 0, actions)`. A `reset` without a seed
    opens the next trial of the seed, also in the middle of a trial.

    `info` holds the entries of the native info, with `opponent_action` and all players'
    `rewards` where there are opponents; `info["valid"]` is False at a reset, where the
    rest is zeros. `info["inner_terminated"]` and `info["inner_truncated"]` say how the
    inner episode ended, `info["inner_done"]` that it did. The step that ends the trial
    adds `info["episode_metrics/..."]`: all players' `returns`, sums of the metrics, and
    the game's statistics (NaN: nothing was counted). Metrics of a single step are under
    `info["metrics/..."]`. With `info="nested"` both are dictionaries.

    Args:
        game_id: Id of the game, such as `"IPD"`.
        player: The seat that the caller plays, from 0.
        opponent: Who plays the other seats; see
            `paxenv_agents.opponents.make_single_player`.
        opponent_learns: Whether the opponent learns within the trial.
        info: `"flat"` for info without dictionaries inside, or `"nested"`.
        render_mode: None, `"rgb_array"` or `"ansi"`.
        **options: Options of the game; see `paxenv.make`.

    Raises:
        ValueError: If an argument is refused; the message names the value.
        RuntimeError: In a process forked from one that uses JAX; so do a reset, a
            step and a picture of an environment that was carried into one.
    """

    metadata = {**pictures.METADATA}

    def __init__(
        self,
        game_id: str,
        *,
        player: int = 0,
        opponent: Any = None,
        opponent_learns: bool = False,
        info: str = "flat",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_not_forked()
        self.render_mode = pictures.check_render_mode(render_mode)
        self.native = registry.import_agents("opponents").make_single_player(
            game_id, player, opponent, opponent_learns, **options
        )
        self._player = f"player {player}"
        env, params = self.native
        self.observation_space = as_space(env.observation_space(0))
        self.action_space = as_space(env.action_space(0))
        self._stream = Stream(env, params, info)

    @property
    def state(self) -> PyTree:
        """The native state, None before the first reset."""
        return self._stream.state

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[PyTree, Info]:
        """Opens a trial: trial 0 of `seed`, or the next one of the last seed.

        The first reset without a seed draws one; `np_random_seed` tells which.
        """
        del options
        obs, info = self._stream.open(seed)
        if self._np_random is None or seed is not None:
            super().reset(seed=self._stream.seed)
        return as_observation(obs), infos.plain(info)

    def step(self, action: Any) -> tuple[PyTree, float, bool, bool, Info]:
        """Plays one action.

        Raises:
            ValueError: If `action` is not in the action space; nothing changes.
            gymnasium.error.ResetNeeded: Before the first reset and after the end.
        """
        self._stream.check_open()
        action = checked_action(action, self.action_space, self._player)
        obs, reward, terminated, truncated, info = self._stream.play(action)
        ends = bool(terminated), bool(truncated)
        return as_observation(obs), float(reward), *ends, infos.plain(info)

    def render(self) -> Picture | str | None:
        """Returns the whole game: an image, uint8 `[height, width, 3]`, or text."""
        frame = self._stream.frame()
        return pictures.picture(self.native[0], frame, self.render_mode, self)


def make_env(game_id: str, **kwargs: Any) -> GymnasiumEnv:
    """Makes a `GymnasiumEnv`; Gymnasium's entry point.

    A function, so that Gymnasium leaves the check of the render mode to us.
    """
    return GymnasiumEnv(game_id, **kwargs)
