"""What an experiment is: frozen dataclasses, checked at construction."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from paxenv import scalars
from paxenv.registry import closest
from runners.search.options import ESOptions

#: How high the layers lie on one another.
HEIGHTS = {"default": 0, "experiment": 1, "run": 1, "file": 2, "word": 3, "option": 3}


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where the value of a setting was written.

    Attributes:
        kind: `"default"`, a stored `"experiment"`, the config of a `"run"`, a `"file"`
            given by `--config`, a `"word"` `KEY=VALUE`, or an `"option"`.
        place: The file, the word or the option itself, as messages name it.
    """

    kind: str
    place: str

    @property
    def height(self) -> int:
        """How high its layer lies; words and options are one."""
        return HEIGHTS[self.kind]

    @property
    def typed(self) -> bool:
        """Whether the user wrote it for this very run."""
        return self.height >= HEIGHTS["file"]

    @property
    def on_command_line(self) -> bool:
        """Whether it is a word or an option."""
        return self.height == HEIGHTS["word"]

    def __str__(self) -> str:
        return self.place


DEFAULT = Origin("default", "default")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One value, and where it was written."""

    value: Any
    origin: Origin


#: Nested mappings whose leaves are settings: what one file, word or option says.
Layer = dict[str, Any]


def marked(value: Any, origin: Origin, path: tuple[str, ...] = ()) -> Any:
    """Returns plain data with a `Setting` for every value that is no mapping.

    A payoff and a distribution are one value, also where they are written as mappings.
    """
    whole = path == ("env", "payoff") or (len(path) == 3 and path[1] == "sample")
    if whole or not isinstance(value, dict) or not value:
        return Setting(value, origin)
    return {key: marked(v, origin, (*path, str(key))) for key, v in value.items()}


def plain(layer: Any) -> Any:
    """Returns the values of a layer without their origins."""
    if isinstance(layer, Setting):
        return layer.value
    return {key: plain(value) for key, value in layer.items()}


def leaves(layer: Layer, path: str = "") -> Iterator[tuple[str, Setting]]:
    """Yields every setting of a layer with its name, such as `agent1.gamma`."""
    for key, value in layer.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, Setting):
            yield name, value
        else:
            yield from leaves(value, name)


def typed_only(layer: Layer) -> Layer:
    """Returns what the user wrote of a layer for this very run."""
    kept: Layer = {}
    for key, value in layer.items():
        if isinstance(value, Setting):
            if value.origin.typed:
                kept[key] = value
        elif inner := typed_only(value):
            kept[key] = inner
    return kept


def written_at(origins: Mapping[str, Origin], name: str) -> str:
    """Returns ` (from PLACE)` for messages, nothing where the place is unknown."""
    origin = origins.get(name, DEFAULT)
    return "" if origin.kind == "default" else f" (from {origin})"


#: Runners that stand one level above training.
OUTER_LOOPS = ("online", "es")
#: Runners that train player 1 alone, in endless play.
ONE_LEARNER = ("sarl", *OUTER_LOOPS)
RUNNERS = ("rl", "evo", "eval", *ONE_LEARNER)
NON_FINITE = ("stop", "continue")
CLOCKS = ("trial", "inner")
RESETS = ("never", "trial")
UNIFORM_STOP = "uniform"
PAYOFF_KINDS = ("random", "dilemma", "noise")
WANDB_MODES = ("offline", "online")
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
        reset: When it starts afresh: `"never"`, every `"trial"`, or every n trials.
        learning: Whether it learns at all; otherwise it plays as it starts.
        stop_after: In how many inner episodes of a trial it learns: a number, or
            `"uniform"`, drawn from 1 to all whenever it starts afresh; None: in all.
        sample: Numbers of its learning that are drawn whenever it starts afresh, such
            as `{learning_rate: {log_uniform: [1e-5, 1]}}`.
        show_payoff: Whether it sees the game's payoff beside the observation.
        blind_games: In how many of the games it sees START instead of what is played.
        self_play_trials: It plays all other players too in the first trial, and with
            a probability that falls to 0 in so many trials; 0: never.
        model_path: Weights to start from: a file of `models/` of a run.
        run_path: The Weights & Biases run that holds `model_path`.
        es: With `evo`: that its parameters are searched, and what differs from the
            options of the run's `es`. If no agent has it, the first one is searched.
        options: Options of the agent.
    """

    name: str
    players: tuple[int, ...] = ()
    clock: str = "trial"
    reset: str | int = "never"
    learning: bool = True
    stop_after: int | str | None = None
    sample: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    show_payoff: bool = False
    blind_games: int = 0
    self_play_trials: int = 0
    model_path: str | None = None
    run_path: str | None = None
    es: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_member("clock", self.clock, CLOCKS)
        if isinstance(self.reset, str):
            _check_member("reset", self.reset, RESETS)
        elif self.reset < 1:
            raise ConfigError(
                f"reset must be never, trial or a number of trials, got {self.reset}"
            )
        if isinstance(self.stop_after, str):
            _check_member("stop_after", self.stop_after, (UNIFORM_STOP,))
        for field in ("blind_games", "self_play_trials"):
            if getattr(self, field) < 0:
                raise ConfigError(f"{field} must be >= 0, got {getattr(self, field)}")
        if any(player < 1 for player in self.players):
            raise ConfigError(f"players are counted from 1, got {list(self.players)}")
        if self.run_path and not self.model_path:
            raise ConfigError(
                "run_path names a Weights & Biases run: model_path must name the "
                "file in it"
            )


@dataclasses.dataclass(frozen=True)
class PayoffSamplerConfig:
    """Payoffs that are drawn anew for every trial.

    Attributes:
        kind: `"random"` entries; strict symmetric prisoner's `"dilemma"`s; or the
            game's payoff with `"noise"` added.
        low: The lower bound of what is drawn.
        high: The upper bound.
        players: Whose payoff is drawn, counted from 1; empty: everybody's.
        shared: Whether all opponents get the same draw.
    """

    kind: str
    low: float
    high: float
    players: tuple[int, ...] = ()
    shared: bool = False

    def __post_init__(self) -> None:
        _check_member("payoff_sampler.kind", self.kind, PAYOFF_KINDS)
        if any(player < 1 for player in self.players):
            raise ConfigError(
                f"payoff_sampler.players are counted from 1, got {list(self.players)}"
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
        bands: What comes out in numbers: for each metric the lowest and the highest
            mean over seeds, compared by `paxrun parity`.
        runner: `"rl"` trains everybody who learns; `"evo"` searches the parameters of
            player 1, or of several, by evolution, against others who may learn within
            each trial; `"sarl"` trains player 1, to whom the others, who do not learn,
            are a part of the game; `"online"` trains player 1 and evaluates it, and
            `"es"` searches by evolution around such training; `"eval"` plays without
            learning.
        env: The game.
        agents: One entry for each agent; empty means PPO for player 1. Players for
            whom nobody is named are played by the game's usual opponent.
        shuffle_players: Whether the agents' seats in the game are drawn for every
            trial; `players` are roles then.
        payoff_sampler: Payoffs that are drawn for every trial; None: the game's own.
        num_envs: Games played side by side against each opponent.
        num_opponents: Independent copies of the co-players that learn per opponent.
        total_timesteps: Environment steps of a seed, over all games and all members;
            rounded up to whole iterations. With `evo`, `es.num_generations` wins.
        es: Options of the evolution, for the runner `evo`.
        seed: Seed of the run.
        num_seeds: Independent repetitions, trained at once.
        deterministic: Whether evaluations take the likeliest action.
        log_interval: Environment steps between two logged rows; 0 logs every
            iteration.
        eval_interval: Environment steps between two evaluations; 0 evaluates at the
            end only, with `evo` about twenty times. The best evaluation is kept as a
            checkpoint.
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
        seeds_apart: Whether TensorBoard and Weights & Biases show every seed by
            itself, beside or instead of means over seeds.
        wandb: Weights & Biases.
        search: With `es`, the options of `runners.search.outer_options.ESConfig`
            that are not settings of the run. `total_timesteps` is the budget of an
            individual where `num_steps_per_iteration` is left out.
        origins: Where each value was written, by the setting's name, such as
            `agent1.gamma`; those that nobody wrote are left out. Two configs that
            differ in it alone are equal.
    """

    name: str = ""
    description: str = ""
    expected: str = ""
    source: str = ""
    bands: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    runner: str = "rl"
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)
    agents: tuple[AgentConfig, ...] = ()
    shuffle_players: bool = False
    payoff_sampler: PayoffSamplerConfig | None = None
    num_envs: int = 100
    num_opponents: int = 1
    total_timesteps: int = 1_000_000
    es: ESOptions = dataclasses.field(default_factory=ESOptions)
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
    seeds_apart: bool = False
    wandb: WandbConfig = dataclasses.field(default_factory=WandbConfig)
    search: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    origins: Mapping[str, Origin] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        scalars.settle(self)
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
        for metric, (low, high) in self.bands.items():
            if not low <= high:
                raise ConfigError(
                    f"bands.{metric} must be [low, high], got {low, high}"
                )
        if self.seed < 0:
            raise ConfigError(f"seed must be >= 0, got {self.seed}")

    def origin(self, name: str) -> Origin:
        """Returns where a setting was written; of a default that it is one."""
        return self.origins.get(name, DEFAULT)


#: Fields of a config that are no settings.
NOT_WRITTEN = ("origins",)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown name: a suggestion, or a stop."""
    near = closest(str(name), list(known))
    return f"; did you mean {near[0]!r}?" if near else "."


def as_dict(config: ExperimentConfig) -> dict[str, Any]:
    """Returns a config as plain data; `build` of it gives an equal config."""
    names = [field.name for field in dataclasses.fields(config)]
    data = {name: getattr(config, name) for name in names if name not in NOT_WRITTEN}
    data["env"] = {"id": config.env.id, **_plain(config.env.options)}
    data["bands"] = {metric: list(band) for metric, band in config.bands.items()}
    data["agents"] = [_agent_dict(agent) for agent in config.agents]
    data["wandb"] = dataclasses.asdict(config.wandb)
    es = data.pop("es")
    if config.runner == "evo" or es != ESOptions():
        own = {f.name: getattr(es, f.name) for f in dataclasses.fields(es)}
        options = own.pop("options")
        data["es"] = {**own, **options}
    if config.payoff_sampler is not None:
        data["payoff_sampler"] = _plain(dataclasses.asdict(config.payoff_sampler))
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
