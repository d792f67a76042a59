"""The outer loop of the functional API, as values."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import PyTree

import paxenv
from paxenv.auto_reset import AutoResetWrapper
from paxenv.environment import Environment, native
from paxenv.options import Count, Natural, check, documented, option
from paxenv.paths import local_path
from paxenv.single_player import SinglePlayer, SinglePlayerParams
from runners.storage.places import not_empty

#: A native game of one player, with or without the wrapper that resets it.
OnePlayerGame = Environment | SinglePlayer | AutoResetWrapper
#: Such a game, its id, or a pair of one of these and its numbers.
GameLike = OnePlayerGame | str | tuple[OnePlayerGame | str, PyTree]


@documented
@dataclasses.dataclass(frozen=True)
class RunnerConfig:
    """How long to train, how often to evaluate, log and save, and on which devices.

    Options of an algorithm are in its own config. All intervals count environment steps
    of all games together, and are due when they are crossed. A value out of range is a
    ValueError that names it.
    """

    total_timesteps: Count = option(100_000, "Steps to train for.")
    eval_every: Count = option(
        5_000, "Steps between evaluations; with more than the total there are none."
    )
    eval_episodes: Count = option(10, "Episodes of an evaluation.")
    log_interval: Count = option(1_000, "Steps between rows of the log.")
    buffer_size: Count = option(
        100_000, "Transitions that the replay buffer keeps (off-policy)."
    )
    warmup_steps: Natural = option(
        1_000, "Steps of random actions at first (off-policy)."
    )
    num_devices: Count | None = option(None, "Devices to train on; None: all.")
    num_envs: Count = option(1, "Games in parallel on each device.")
    fsdp_devices: Count = option(
        1, "Devices that share large parameters; must divide `num_devices`."
    )
    seed: Natural = option(0, "Seed of everything random.")
    checkpoint_dir: str | None = option(
        None, "Folder of checkpoints; None: no checkpoints."
    )
    checkpoint_interval: Count = option(5_000, "Steps between checkpoints.")
    max_checkpoints: Count = option(5, "Recent checkpoints that are kept.")
    keep_period: Count | None = option(
        None, "Steps between checkpoints that are never pruned."
    )
    resume: bool = option(
        False, "Go on from the latest checkpoint; needs `checkpoint_dir`."
    )
    overwrite: bool = option(
        False,
        "Delete what an earlier training left in `checkpoint_dir` and `run_dir`.",
    )
    plot: bool = option(True, "Draw a reward curve after training.")
    change_rates: bool = option(
        False,
        "Allow other hyperparameters than those of the checkpoint; needs `resume`.",
    )
    progress: bool = option(
        True, "Show a line of progress in a terminal or a notebook."
    )

    def __post_init__(self) -> None:
        check(self)
        self._check_devices()
        self._check_checkpoints()

    def _check_devices(self) -> None:
        if self.num_devices is not None and self.num_devices % self.fsdp_devices:
            raise ValueError(
                f"fsdp_devices={self.fsdp_devices} must divide "
                f"num_devices={self.num_devices}"
            )

    def _check_checkpoints(self) -> None:
        directory = self.checkpoint_dir
        if directory is not None:
            if not isinstance(directory, str | os.PathLike):
                raise ValueError(f"checkpoint_dir must be a path, got {directory!r}")
            not_empty("checkpoint_dir", directory)
            object.__setattr__(self, "checkpoint_dir", str(local_path(directory)))
        if self.resume and self.overwrite:
            raise ValueError(
                "resume and overwrite exclude each other: go on from the checkpoints "
                "in checkpoint_dir, or delete them"
            )
        if self.resume and directory is None:
            raise ValueError("resume=True needs checkpoint_dir, which is None")
        if self.change_rates and not self.resume:
            raise ValueError(
                "change_rates=True is about the checkpoint that a training goes on "
                "from: it needs resume=True"
            )


def game_of(env: OnePlayerGame) -> Environment:
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


def game_and_params(env: GameLike, params: PyTree = None) -> tuple[Environment, PyTree]:
    """Returns (game of one player, its numbers).

    Args:
        env: A native game, its id, or a pair of one of these and its numbers.
        params: Numbers that win over the pair's; None: its own.

    Raises:
        ValueError: If the game has several players, or is none.
    """
    if isinstance(env, tuple) and len(env) == 2:
        env, own = env
        params = own if params is None else params
    if isinstance(env, str):
        return game_and_params(paxenv.make(env), params)
    game = game_of(env)
    return game, params_of(game, params)


def params_of(game: Environment, params: PyTree) -> PyTree:
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
    game: Environment,
    obs_shape: Sequence[int] | None = None,
    n_actions: int | None = None,
    action_dim: int | None = None,
) -> None:
    """Raises ValueError if given shapes are not those of the game."""
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


def check_made_for(
    agent: Any, game: Any, form: Callable[[gymnasium.Space], Any] = lambda space: space
) -> None:
    """Raises ValueError if an agent sees or does something else than a game has.

    Args:
        agent: Made for some game.
        game: Of one player.
        form: What of a space has to be the same; all of it, unless it is said.
    """
    for what in ("observation_space", "action_space"):
        have, found = getattr(agent, what), getattr(game, what)(0)
        if form(have) != form(found):
            raise ValueError(
                f"the agent was made for the {what} {have}, {game.name} has {found}"
            )
