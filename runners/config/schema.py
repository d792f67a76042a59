"""Configs of experiments: frozen dataclasses that are checked at construction."""

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Annotated, Any

from paxenv.options import (
    Count,
    Natural,
    Rule,
    check,
    documented,
    hints,
    is_count,
    one_of,
    option,
)
from paxenv.registry import closest
from runners import kinds
from runners.kinds import KINDS, RunnerKind
from runners.search.options import ESOptions

UNIFORM_STOP = "uniform"

Reset = Annotated[
    str | int,
    Rule(
        lambda x: x in ("never", "trial") or is_count(x),
        "never, trial or a number of trials",
    ),
]
Stop = Annotated[
    str | int,
    Rule(
        lambda x: x == UNIFORM_STOP or isinstance(x, int),
        f"{UNIFORM_STOP} or a number of inner episodes",
    ),
]
Players = tuple[int, ...]


class ConfigError(ValueError):
    """A mistake in a config, an override or an option; the message names the fix.

    Attributes:
        setting: The setting whose value is wrong, such as `agent1.gamma`; empty if
            there is no such one, or the message says where it was written.
    """

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


def _check_type(name: str, value: object, kind: Any, claim: str) -> None:
    if not isinstance(value, kind):
        raise ConfigError(f"{name} must be {claim}, got {value!r}")


#: The heights of layers; the setting of the highest layer wins.
HEIGHTS = {
    **{"default": 0, "experiment": 1, "run": 1, "file": 2, "whole file": 2},
    **{"word": 3, "option": 3},
}


@dataclasses.dataclass(frozen=True)
class Origin:
    """The place where the value of a setting was written.

    Attributes:
        kind: `"default"`, a stored `"experiment"`, the config of a `"run"`, a `"file"`
            given by `--config`, a `"whole file"` that holds every setting, a `"word"`
            `KEY=VALUE`, or an `"option"`.
        place: The file, the word or the option itself, as messages name it.
    """

    kind: str
    place: str

    @property
    def height(self) -> int:
        """The height of its layer; words and options have the same."""
        return HEIGHTS[self.kind]

    @property
    def typed(self) -> bool:
        """Whether the user wrote it for this run."""
        return self.height >= HEIGHTS["file"]

    @property
    def chosen(self) -> bool:
        """Whether the user wrote it because it should take effect.

        A whole file says everything, also what its runner does not read.
        """
        return self.typed and self.kind != "whole file"

    @property
    def on_command_line(self) -> bool:
        """Whether it is a word or an option."""
        return self.height == HEIGHTS["word"]

    @property
    def said(self) -> str:
        """` (from PLACE)` for messages, nothing for a default."""
        return "" if self.kind == "default" else f" (from {self})"

    def __str__(self) -> str:
        return self.place


DEFAULT = Origin("default", "default")


@contextlib.contextmanager
def placed(origins: Mapping[str, Origin]) -> Iterator[None]:
    """Adds to an error about a setting where the setting was written.

    An entry of a list is where the list is, and a section where its settings are.

    Args:
        origins: The places of settings, by name.
    """
    try:
        yield
    except ValueError as error:
        setting = getattr(error, "setting", "")
        if setting:
            error.setting = ""  # type: ignore[attr-defined]
            error.args = (f"{error}{_said(setting, origins)}",)
        raise


@contextlib.contextmanager
def about(setting: str) -> Iterator[None]:
    """Makes any ValueError one about a setting, such as `agent1.name`.

    Its message begins with the section of the setting.
    """
    try:
        yield
    except ValueError as error:
        error.args = (f"{setting.rpartition('.')[0]}: {error}",)
        error.setting = setting  # type: ignore[attr-defined]
        raise


def _said(setting: str, origins: Mapping[str, Origin]) -> str:
    name = re.sub(r"\[\d+\]", "", setting)
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        found = origins.get(".".join(parts[:n]))
        if found is not None:
            return found.said
    within = [o.said for key, o in origins.items() if key.startswith(f"{name}.")]
    return " and".join(dict.fromkeys(filter(None, within)))


@documented
@dataclasses.dataclass(frozen=True)
class EnvConfig:
    """The game and its options.

    In YAML: `env: IPD`, or `env: {id: IPD, num_inner_steps: 100, payoff: ...}`.
    """

    id: str = option(
        "IPD", "A registered id; the namespace `pax/` and the version may be left out."
    )
    options: Mapping[str, Any] = option(
        help="Keyword arguments of `paxenv.make`.", factory=dict
    )

    def __post_init__(self) -> None:
        _check_type("env.id", self.id, str, "a text")
        _check_type("env.options", self.options, Mapping, "a mapping")


@documented
@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """One agent and its seats.

    In YAML: `TitForTat`, or `{name: PPO, learning_rate: 0.01}`.
    """

    name: str = option(help="A registered name.")
    players: Players = option(
        (), "The players that it plays, counted from 1; empty: the first free one."
    )
    clock: Annotated[str, one_of("trial", "inner")] = option(
        "trial", "When a learner updates: after a trial, or after each inner episode."
    )
    reset: Reset = option(
        "never",
        'When the agent gets a new training state: `"never"`, in every `"trial"`, or '
        "in every n-th trial.",
    )
    learning: bool = option(
        True, "Whether the agent learns; otherwise it plays with its first weights."
    )
    stop_after: Stop | None = option(
        None,
        "Inner episodes of a trial in which the agent learns, from the first one on: a "
        'number, or `"uniform"`, which draws the number, from 1 to all, at every reset '
        "of the agent; None: all.",
    )
    sample: Mapping[str, Any] = option(
        help="Hyperparameters of the agent that are drawn at each of its resets, such "
        "as `{learning_rate: {log_uniform: [1e-5, 1]}}`.",
        factory=dict,
    )
    show_payoff: bool = option(
        False, "Whether the agent observes the game's payoff too."
    )
    blind_games: Natural = option(
        0, "Number of games in which it observes START in place of the last actions."
    )
    self_play_trials: Natural = option(
        0,
        "Self-play: in the first trial the agent plays all other players too, and "
        "then with a probability that falls linearly to 0 over this number of trials; "
        "0: never.",
    )
    model_path: str | None = option(
        None, "The weights from which it starts: a file in `models/` of a run."
    )
    run_path: str | None = option(
        None, "The Weights & Biases run that holds `model_path`."
    )
    es: Mapping[str, Any] | None = option(
        None,
        "With `evo`: the agent's parameters are searched, with these options on top of "
        "the run's `es`. If no agent has `es`, the first one is searched.",
    )
    options: Mapping[str, Any] = option(help="Options of the agent.", factory=dict)

    def __post_init__(self) -> None:
        check(self, error=ConfigError)
        _check_type("name of an agent", self.name, str, "a text")
        _check_type("options of an agent", self.options, Mapping, "a mapping")
        _check_type("players of an agent", self.players, tuple | list, "a tuple")
        for player in self.players:
            _check_type("players of an agent", player, int, "whole numbers")
        if any(player < 1 for player in self.players):
            raise ConfigError(f"players are counted from 1, got {list(self.players)}")
        if self.run_path and not self.model_path:
            raise ConfigError(
                "run_path names a Weights & Biases run: model_path must name the "
                "file in it"
            )


@documented
@dataclasses.dataclass(frozen=True)
class PayoffSamplerConfig:
    """Payoffs that are drawn for every trial."""

    kind: Annotated[str, one_of("random", "dilemma", "noise")] = option(
        help='What is drawn: `"random"` entries, a strict symmetric prisoner\'s '
        '`"dilemma"`, or the game\'s payoff with `"noise"` added.'
    )
    low: float = option(help="The lower bound of a drawn entry or of the noise.")
    high: float = option(help="The upper bound.")
    players: Players = option(
        (), "Whose payoff is drawn, counted from 1; empty: everybody's."
    )
    shared: bool = option(False, "Whether all opponents get the same draw.")

    def __post_init__(self) -> None:
        check(self, "payoff_sampler.", ConfigError)
        if any(player < 1 for player in self.players):
            raise ConfigError(
                f"payoff_sampler.players are counted from 1, got {list(self.players)}"
            )


@documented
@dataclasses.dataclass(frozen=True)
class WandbConfig:
    """Weights & Biases, off unless asked for."""

    log: bool = option(False, "Whether metrics are also sent there.")
    project: str = option("paxenv", "The project.")
    entity: str | None = option(
        None, "The account; None is the default one of the login."
    )
    group: str | None = option(
        None,
        "The group of the run. It, the tags and the name are also kept in the run "
        "directory, where `paxrun runs ls` finds them.",
    )
    tags: tuple[str, ...] = option((), "Tags of the run.")
    name: str | None = option(
        None, "The name of the run; None takes the run directory's."
    )
    mode: Annotated[str, one_of("offline", "online")] = option(
        "offline",
        '`"offline"` keeps everything in the run directory, `"online"` sends it.',
    )

    def __post_init__(self) -> None:
        check(self, "wandb.", ConfigError)


@documented
@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """All settings of a run.

    `origins` says where each value was written, by the setting's name, such as
    `agent1.gamma`; those that nobody wrote are left out. `notices` are what the user
    should know about how the layers were merged. Two configs that differ in these alone
    are equal.
    """

    name: str = option(
        "", "Name of the stored experiment, and of the folder under `exp_dir`."
    )
    description: str = option("", "What the experiment plays.")
    expected: str = option("", "The expected outcome, in words.")
    source: str = option("", "Where the setting or the expectation comes from.")
    bands: Mapping[str, tuple[float, float]] = option(
        help="The expected outcome in numbers: for each metric the lowest and the "
        "highest mean over seeds. `paxrun parity` compares.",
        factory=dict,
    )
    runner: Annotated[str, one_of(*KINDS)] = option(
        "rl", f"Who learns, and how: {kinds.described()}"
    )
    env: EnvConfig = option(
        help="The game: an id, or a mapping with `id` and its options.",
        factory=EnvConfig,
    )
    agents: tuple[AgentConfig, ...] = option(
        (),
        "One entry for each agent, a name or a mapping with `name`; empty means PPO "
        "for player 1. The game's usual opponent plays each player that no entry "
        "takes.",
    )
    shuffle_players: bool = option(
        False,
        "Whether it is drawn for every trial which agent is which player of the game; "
        "`players` are then roles.",
        page="interventions.md",
    )
    payoff_sampler: PayoffSamplerConfig | None = option(
        None,
        "Payoffs that are drawn for every trial; None: the game's own.",
        page="interventions.md",
    )
    num_envs: Count = option(100, "Games played side by side against each opponent.")
    num_opponents: Count = option(
        1,
        "Opponents that are met at once; each has its own copies of the co-players "
        "that learn.",
        aliases=("num_opps",),
    )
    total_timesteps: Count = option(
        1_000_000,
        "Environment steps of a seed, over all games and members; rounded up to "
        "whole iterations. With `evo`, `es.num_generations` wins.",
    )
    es: ESOptions = option(
        help="Options of the search, for the runner `evo`.",
        factory=ESOptions,
        page="evolution.md",
    )
    seed: Natural = option(0, "Seed of the run.")
    num_seeds: Count = option(1, "Independent repetitions, trained at once.")
    deterministic: bool = option(
        False, "Whether evaluations take the likeliest action."
    )
    log_interval: Natural = option(
        0, "Environment steps between two logged rows; 0 logs every iteration."
    )
    eval_interval: Natural = option(
        0,
        "Environment steps between two evaluations; 0 evaluates at the end only, with"
        " `evo` about twenty times. The best evaluation is kept as a checkpoint.",
        aliases=("eval_every",),
    )
    eval_episodes: Count | None = option(
        None,
        "Games of an evaluation; None: as many as `num_envs`, at least 32 with `sarl`.",
    )
    checkpoint_interval: Natural = option(
        0,
        "Environment steps between two checkpoints; 0 saves one at the end only.",
        page="checkpoints.md",
    )
    max_checkpoints: Count = option(5, "How many of the latest checkpoints are kept.")
    keep_period: Count | None = option(
        None, "Environment steps between checkpoints that are never pruned."
    )
    non_finite: Annotated[str, one_of("stop", "continue")] = option(
        "stop",
        'What a run does when a loss or a parameter becomes NaN or infinite: `"stop"` '
        'ends it as failed, `"continue"` warns and goes on.',
    )
    plot: bool = option(True, "Whether pictures are drawn at the end.")
    num_devices: Count = option(
        1,
        "Devices over which the games are spread; a CPU is divided into virtual ones.",
    )
    fsdp_devices: Count = option(
        1,
        "Devices that share large parameters; divides `num_devices`.",
        page="devices.md",
    )
    chunk_size: Count = option(
        64, "Iterations of one compiled call, at most; Python acts between the calls."
    )
    exp_dir: str = option("exp", "Where run directories are made.")
    save_dir: str | None = option(
        None, "The run directory itself, instead of a new one under `exp_dir`."
    )
    search: Mapping[str, Any] = option(
        help="With `es`, the options of `runners.search.outer_options.ESConfig` that "
        "are not settings of the run. `total_timesteps` is the budget of an individual "
        "where `num_steps_per_iteration` is left out.",
        factory=dict,
        page="outer_loops.md",
    )
    wandb: WandbConfig = option(
        help="Weights & Biases: `log`, `mode`, `project`, `entity`, `group`, `tags`, "
        "`name`.",
        factory=WandbConfig,
        page="logging.md",
    )
    # A scalar is last, so that a file that was cut off between two lines lacks it.
    tensorboard: bool = option(
        True, "Whether metrics are also written for TensorBoard."
    )
    seeds_apart: bool = option(
        False,
        "Whether every seed is shown separately: in TensorBoard beside the means over "
        "seeds, at Weights & Biases instead of them.",
        page="logging.md",
    )
    origins: Mapping[str, Origin] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )
    notices: tuple[str, ...] = dataclasses.field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        check(self, error=ConfigError)
        self._check_sections()
        _check_type("bands", self.bands, Mapping, "a mapping")
        _check_type("search", self.search, Mapping, "a mapping")
        for metric, (low, high) in self.bands.items():
            if not low <= high:
                name = f"bands.{metric}"
                raise ConfigError(f"{name} must be [low, high], got {low, high}", name)
        self._check_places()

    def _check_places(self) -> None:
        """Raises ConfigError if a run would be written where nobody looks for it."""
        for name in ("exp_dir", "save_dir"):
            if getattr(self, name) == "":
                raise ConfigError(f"{name} must name a folder, got an empty text", name)
        named = PurePath(self.name)
        if named.is_absolute() or ".." in named.parts:
            raise ConfigError(
                f"name must be of a folder below exp_dir, got {self.name!r}", "name"
            )

    def _check_sections(self) -> None:
        """Raises ConfigError for a section, or an agent, that is not of its class."""
        sections: list[tuple[str, Any, type]] = [
            ("env", self.env, EnvConfig),
            ("es", self.es, ESOptions),
            ("wandb", self.wandb, WandbConfig),
        ]
        if self.payoff_sampler is not None:
            sections.append(
                ("payoff_sampler", self.payoff_sampler, PayoffSamplerConfig)
            )
        _check_type("agents", self.agents, tuple | list, "a tuple")
        sections += [
            (f"agents[{i}]", agent, AgentConfig) for i, agent in enumerate(self.agents)
        ]
        for name, value, kind in sections:
            if not isinstance(value, kind):
                short = isinstance(value, str) and kind in (EnvConfig, AgentConfig)
                write = f": write {kind.__name__}({value!r})" if short else ""
                raise ConfigError(
                    f"{name} must be of the class {kind.__name__}, got {value!r}{write}"
                )

    @property
    def kind(self) -> RunnerKind:
        """The record of the runner."""
        return KINDS[self.runner]

    def origin(self, name: str) -> Origin:
        """Returns the place where a setting was written, or that of defaults."""
        return self.origins.get(name, DEFAULT)


#: The settings of an experiment, with their types.
FIELDS = {
    field.name: hints(ExperimentConfig)[field.name]
    for field in dataclasses.fields(ExperimentConfig)
    if field.compare
}
#: What the sections of an experiment are, for messages. All else is one value.
SECTIONS = {
    "env": "a name or a mapping with an id",
    "es": "a mapping such as {strategy: Open_ES}",
    "search": "a mapping such as {iterations: 10}",
    "wandb": "a mapping such as {log: true}",
    "payoff_sampler": "a mapping such as {kind: dilemma, low: -5, high: 0}",
    "bands": "METRIC: [low, high] lines",
}
#: Settings of every agent that are one value each.
OF_EVERY_AGENT = hints(AgentConfig).keys() - {"es", "sample", "options"}


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown name: a suggestion, or a stop."""
    near = closest(name, list(known)) if isinstance(name, str) else []
    return f"; did you mean {near[0]!r}?" if near else "."
