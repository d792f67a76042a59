"""The outer loop of the functional API, as values."""

import dataclasses
import os

from paxenv import scalars
from paxenv.paths import local_path
from runners.counts import count
from runners.places import not_empty

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
