"""What the functions `train_*` ask of a game: one player, and what was said of it."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from paxenv.auto_reset import AutoResetWrapper
from paxenv.environment import native
from paxenv.single_player import SinglePlayerParams
from runners.runner_config import RunnerConfig


def game_of(env: Any) -> Any:
    """Returns the one-player game, without the wrapper that resets it.

    The engine opens the next episode by itself, by the same keys.

    Raises:
        ValueError: If the game has more players, or is no native game.
    """
    game = native(env.env if isinstance(env, AutoResetWrapper) else env)
    if game.num_players != 1:
        raise ValueError(
            f"{game.name} has {game.num_players} players, and one agent is trained: "
            "SinglePlayer(env, player, co_players) makes a game of one player of it"
        )
    return game


def params_of(game: Any, params: Any) -> Any:
    """Returns the game's numbers; None stands for its own.

    Raises:
        ValueError: If they are those of another game.
    """
    own = game.default_params
    if params is None:
        return own
    fits = isinstance(params, type(own)) or not dataclasses.is_dataclass(own)
    if not fits:
        seated = isinstance(own, SinglePlayerParams)
        how = "SinglePlayer's make_params" if seated else "paxenv.make(...)"
        raise ValueError(
            f"env_params are {_kind(params)}, {game.name or type(game).__name__} takes "
            f"{_kind(own)}, which {how} gives; None stands for env.default_params"
        )
    return params


def _kind(params: Any) -> str:
    kind = type(params)
    return f"{kind.__module__}.{kind.__qualname__}"


def num_games(own: int | None, config: RunnerConfig) -> int:
    """Returns the games of one device: those of the algorithm's config, if it has any.

    Raises:
        ValueError: If both configs say different numbers.
    """
    if own is None:
        return config.num_envs
    if config.num_envs not in (1, own):
        raise ValueError(
            f"num_envs is {own} in the algorithm's config and {config.num_envs} in "
            "RunnerConfig: give it once"
        )
    return own


def check_spaces(
    game: Any,
    obs_shape: Sequence[int] | None = None,
    n_actions: int | None = None,
    action_dim: int | None = None,
) -> None:
    """Raises ValueError if what is given is not what the game has."""
    space = game.observation_space(0)
    found = space.shape or ()
    if obs_shape is not None and tuple(obs_shape) != found:
        raise ValueError(f"obs_shape={tuple(obs_shape)}, the game shows {found}")
    actions = game.action_space(0)
    if n_actions is not None and n_actions != getattr(actions, "n", None):
        raise ValueError(f"n_actions={n_actions}, the game takes {actions}")
    if action_dim is not None:
        is_box = isinstance(actions, gymnasium.spaces.Box)
        if not is_box or int(np.prod(actions.shape)) != action_dim:
            raise ValueError(f"action_dim={action_dim}, the game takes {actions}")
