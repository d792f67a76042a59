"""The outer loop of the functional API, as values."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from paxenv import scalars
from paxenv.auto_reset import AutoResetWrapper
from paxenv.environment import native
from paxenv.paths import local_path
from paxenv.single_player import SinglePlayerParams
from runners.engine.devices import count
from runners.storage.places import not_empty

_COUNTS = (
    *("total_timesteps", "eval_every", "eval_episodes", "log_interval"),
    *("buffer_size", "num_envs", "fsdp_devices", "checkpoint_interval"),
    "max_checkpoints",
)
_FLAGS = ("resume", "overwrite", "plot", "change_rates", "progress")


@dataclasses.dataclass(frozen=True)
class RunnerConfig:
    """How long to train, how often to look, and on which devices.

    What belongs to an algorithm is in its own config. All intervals are in
    environment steps of all games together, and are due when they are crossed. A
    value out of range is a ValueError that names it.

    ===================  =======  ====================================================
    option               default  meaning
    ===================  =======  ====================================================
    total_timesteps      100_000  steps to train for
    eval_every           5_000    steps between evaluations
    eval_episodes        10       episodes of an evaluation
    log_interval         1_000    steps between rows of the log
    buffer_size          100_000  transitions that replay keeps (off-policy)
    warmup_steps         1_000    steps of random actions at first (off-policy)
    num_devices          None     devices to train on; None: all
    num_envs             1        games in parallel on each device
    fsdp_devices         1        devices that share large parameters; 1: none do
    seed                 0        seed of everything random, at least 0
    checkpoint_dir       None     folder of checkpoints; None: no checkpoints
    checkpoint_interval  5_000    steps between checkpoints
    max_checkpoints      5        recent checkpoints that are kept
    keep_period          None     steps between those that are kept for ever
    resume               False    go on from the latest checkpoint
    overwrite            False    delete what an earlier training has left there
    plot                 True     draw a reward curve after training
    change_rates         False    resume with other numbers of the algorithm
    progress             True     show a line of progress in a terminal or notebook
    ===================  =======  ====================================================
    """

    total_timesteps: int = 100_000
    eval_every: int = 5_000
    eval_episodes: int = 10
    log_interval: int = 1_000
    buffer_size: int = 100_000
    warmup_steps: int = 1_000
    num_devices: int | None = None
    num_envs: int = 1
    fsdp_devices: int = 1
    seed: int = 0
    checkpoint_dir: str | None = None
    checkpoint_interval: int = 5_000
    max_checkpoints: int = 5
    keep_period: int | None = None
    resume: bool = False
    overwrite: bool = False
    plot: bool = True
    change_rates: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        scalars.settle(self)
        for name in _COUNTS:
            count(name, getattr(self, name))
        count("warmup_steps", self.warmup_steps, least=0)
        for name in ("num_devices", "keep_period"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name))
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(
                    f"{name} must be True or False, got {getattr(self, name)!r}"
                )
        count("seed", self.seed, least=0)
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
