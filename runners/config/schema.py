"""What an experiment is: frozen dataclasses, checked at construction."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from paxenv.registry import closest

#: Runners that train player 1 alone, in endless play.
ONE_LEARNER = ("sarl", "online", "es")
RUNNERS = ("rl", "sarl", "eval", "online", "es")
NON_FINITE = ("stop", "continue")
CLOCKS = ("trial", "inner")
WANDB_MODES = ("offline", "online")
MAX_SEED = 2**31
DEFAULT_LEARNER = "PPO"


class ConfigError(ValueError):
    """A mistake in a config, an override or an option; the message says the fix."""


@dataclasses.dataclass(frozen=True)
class EnvConfig:
    """Which game is played, and how.

    In YAML: `env: IPD`, or `env: {id: IPD, num_inner_steps: 100, payoff: ...}`.

    Attributes:
        id: A registered id; the namespace `pax/` and the version may be left out.
        options: Keyword arguments of `paxenv.make`.
    """

    id: str = "IPD"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """One agent and its seats.

    In YAML: `TitForTat`, or `{name: PPO, learning_rate: 0.01}`.

    Attributes:
        name: A registered name.
        players: The seats, counted from 1; empty means the first free one.
        clock: When a learner updates: after a trial, or after each inner episode.
        model_path: Weights to start from: a file of `models/` of a run.
        run_path: The Weights & Biases run that holds `model_path`.
        options: Options of the agent.
    """

    name: str
    players: tuple[int, ...] = ()
    clock: str = "trial"
    model_path: str | None = None
    run_path: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_member("clock", self.clock, CLOCKS)
        if any(player < 1 for player in self.players):
            raise ConfigError(f"players are counted from 1, got {list(self.players)}")
        if self.run_path and not self.model_path:
            raise ConfigError(
                "run_path names a Weights & Biases run: model_path must name the "
                "file in it"
            )


@dataclasses.dataclass(frozen=True)
class WandbConfig:
    """Weights & Biases, off unless asked for.

    Attributes:
        log: Whether metrics are also sent there.
        project: The project.
        entity: The account; None is the default one of the login.
        group: The group of the run. It, the tags and the name are also kept in the run
            directory, where `paxrun runs ls` finds them.
        tags: Tags of the run.
        name: The name of the run; None takes the run directory's.
        mode: `"offline"` keeps everything in the run directory, `"online"` sends it.
    """

    log: bool = False
    project: str = "paxenv"
    entity: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()
    name: str | None = None
    mode: str = "offline"

    def __post_init__(self) -> None:
        _check_member("wandb.mode", self.mode, WANDB_MODES)


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """Everything that decides what a run does.

    Attributes:
        name: The stored experiment, which also names the folder under `exp_dir`.
        description: What is played.
        expected: What comes out.
        source: Where the setting or the expectation comes from.
        runner: `"rl"` trains everybody who learns; `"sarl"` trains player 1, to whom
            the others, who do not learn, are a part of the game; `"online"` trains
            player 1 and evaluates it, and `"es"` searches by evolution around such
            training; `"eval"` plays without learning.
        env: The game.
        agents: One entry for each agent; empty means PPO for player 1. Players for
            whom nobody is named are played by the game's usual opponent.
        num_envs: Games played side by side against each opponent.
        num_opponents: Independent copies of the co-players that learn per opponent.
        total_timesteps: Environment steps of a seed, over all games; rounded up to
            whole iterations.
        seed: Seed of the run.
        num_seeds: Independent repetitions, trained at once.
        deterministic: Whether evaluations take the likeliest action.
        log_interval: Environment steps between two logged rows; 0 logs every
            iteration.
        eval_interval: Environment steps between two evaluations; 0 evaluates at the
            end only. The best evaluation is kept as a checkpoint.
        eval_episodes: Games of an evaluation; None: as many as `num_envs`, at least 32
            with `sarl`.
        checkpoint_interval: Environment steps between two checkpoints; 0 saves one at
            the end only.
        max_checkpoints: How many of the latest checkpoints are kept.
        keep_period: Environment steps between checkpoints that are kept for good.
        non_finite: Whether a run whose loss or parameters become NaN or infinite is to
            `"stop"` as failed, or to `"continue"` with a warning.
        plot: Whether pictures are drawn at the end.
        num_devices: Devices over which the games are spread; a CPU is divided into
            virtual ones.
        fsdp_devices: Devices that share large parameters; divides `num_devices`.
        chunk_size: Most iterations between two visits of the host.
        exp_dir: Where run directories are made.
        save_dir: The run directory itself, instead of a new one under `exp_dir`.
        tensorboard: Whether metrics are also written for TensorBoard.
        wandb: Weights & Biases.
        search: With `es`, the options of `runners.outer_loops.outer_config.ESConfig`
            that are not settings of the run. `total_timesteps` is the budget of an
            individual where `num_steps_per_iteration` is left out.
    """

    name: str = ""
    description: str = ""
    expected: str = ""
    source: str = ""
    runner: str = "rl"
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)
    agents: tuple[AgentConfig, ...] = ()
    num_envs: int = 100
    num_opponents: int = 1
    total_timesteps: int = 1_000_000
    seed: int = 0
    num_seeds: int = 1
    deterministic: bool = False
    log_interval: int = 0
    eval_interval: int = 0
    eval_episodes: int | None = None
    checkpoint_interval: int = 0
    max_checkpoints: int = 5
    keep_period: int | None = None
    non_finite: str = "stop"
    plot: bool = True
    num_devices: int = 1
    fsdp_devices: int = 1
    chunk_size: int = 64
    exp_dir: str = "exp"
    save_dir: str | None = None
    tensorboard: bool = True
    wandb: WandbConfig = dataclasses.field(default_factory=WandbConfig)
    search: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_member("runner", self.runner, RUNNERS)
        counts = (
            "num_envs",
            "num_opponents",
            "total_timesteps",
            "num_seeds",
            "chunk_size",
            "max_checkpoints",
            "num_devices",
            "fsdp_devices",
            "eval_episodes",
            "keep_period",
        )
        for field in counts:
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ConfigError(f"{field} must be >= 1, got {value}")
        for field in ("log_interval", "eval_interval", "checkpoint_interval"):
            if getattr(self, field) < 0:
                raise ConfigError(f"{field} must be >= 0, got {getattr(self, field)}")
        _check_member("non_finite", self.non_finite, NON_FINITE)
        if not 0 <= self.seed < MAX_SEED:
            raise ConfigError(f"seed must be in [0, 2**31), got {self.seed}")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown name: a suggestion, or a stop."""
    near = closest(str(name), list(known))
    return f"; did you mean {near[0]!r}?" if near else "."


def as_dict(config: ExperimentConfig) -> dict[str, Any]:
    """Returns a config as plain data; `build` of it gives an equal config."""
    data = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    data["env"] = {"id": config.env.id, **_plain(config.env.options)}
    data["agents"] = [_agent_dict(agent) for agent in config.agents]
    data["wandb"] = dataclasses.asdict(config.wandb)
    data["search"] = _plain(config.search)
    return data


def _agent_dict(agent: AgentConfig) -> dict[str, Any]:
    default = AgentConfig(agent.name)
    own = {
        field.name: _plain(getattr(agent, field.name))
        for field in dataclasses.fields(agent)
        if field.name != "options"
        and getattr(agent, field.name) != getattr(default, field.name)
    }
    return {"name": agent.name, **own, **_plain(agent.options)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _check_member(field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{field} must be one of {', '.join(known)}, got {value!r}")
