"""From names, files, overrides and options to one `ExperimentConfig`."""

import importlib.resources
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paxenv.paths import local_path
from paxenv.registry import UnknownGameError, closest, find
from runners.config import merging
from runners.config.documents import dump, flow, parse
from runners.config.layers import normalise
from runners.config.merging import agent_index, agent_keys, merge
from runners.config.overrides import parse_words
from runners.config.schema import (
    DEFAULT_LEARNER,
    ConfigError,
    ExperimentConfig,
    Layer,
    Origin,
    Setting,
    as_dict,
    plain,
)
from runners.config.sections import build

#: What an experiment says of itself.
CLAIMS = ("description", "expected", "source", "bands")
#: Settings of a game that say how much is played, not what.
SIZES = ("num_inner_steps", "num_outer_steps")
#: Settings of an agent that say where it starts, not what it is.
STARTS = ("model_path", "run_path")
#: What the name of a run adds to that of the experiment that it departs from.
SIGN = "+"
OTHER_NAME = Origin("default", "the experiment, and what differs from it")


def experiment_of(name: str) -> str:
    """Returns the experiment that a run's name says it is of, or departs from."""
    return name.partition(SIGN)[0]


def inherited(base: Layer, layer: Layer) -> Layer:
    """Returns `base` with `layer` on top, as an experiment of its own.

    What the base says of itself is left out where the game or the agents differ.
    """
    merged = merge(base, layer)
    if departures(base, merged):
        merged = _without_claims(merged, base)
    return merged


def changed(base: Layer, layer: Layer) -> Layer:
    """Returns an experiment with `layer` on top, as a run of it.

    One with another game or other agents has a name that says so, and states nothing.
    """
    merged = merge(base, layer)
    differ = departures(base, merged)
    if not differ:
        return merged
    merged = _without_claims(merged, base)
    name = base.get("name")
    if name is not None and merged["name"] == name:
        text = SIGN.join((str(name.value), *differ))
        merged["name"] = Setting(text, OTHER_NAME)
    return merged


def nobody_asked(base: Layer, whole: Layer) -> Layer:
    """Returns a run of the default experiment, which nobody asked for.

    Other players make another experiment, which is named after them.
    """
    other = _names(base) != _names(whole)
    named_after = whole.get("name") not in (None, base.get("name"))
    if other and named_after and not whole["name"].origin.typed:
        return {key: value for key, value in whole.items() if key != "name"}
    return whole


def _names(layer: Layer) -> list[Any]:
    return [plain(layer[key]).get("name") for key in agent_keys(layer)]


def departures(base: Layer, layer: Layer) -> tuple[str, ...]:
    """Returns in what the game or the agents differ, in a word each.

    Those are a game's name, `payoff` or another option of it, `agent1` and so on.
    """
    before, after = _played(base), _played(layer)
    if not before:
        return ()
    differ = [key for key in after | before if after.get(key) != before.get(key)]
    if "game" in differ:
        differ[differ.index("game")] = str(after["game"]).removeprefix("pax/")
    return tuple(differ)


def _played(layer: Layer) -> dict[str, Any]:
    """Returns what is played and by whom, as plain data."""
    game = dict(plain(layer.get("env", {})))
    played: dict[str, Any] = {}
    if game:
        played["game"] = _game(game.pop("id", None))
    played |= {key: value for key, value in game.items() if key not in SIZES}
    for key in sorted(agent_keys(layer), key=agent_index):
        entry = plain(layer[key])
        played[key] = {k: v for k, v in entry.items() if k not in STARTS}
    for key in ("payoff_sampler", "shuffle_players"):
        if key in layer:
            played[key] = plain(layer[key])
    return played


def _game(id: Any) -> str:
    try:
        return find(str(id)).id.partition("-v")[0]
    except UnknownGameError:
        return str(id)


def _without_claims(merged: Layer, base: Layer) -> Layer:
    """Returns a layer without what the base said of itself."""
    return {
        key: value
        for key, value in merged.items()
        if key not in CLAIMS or value != base.get(key)
    }


DEFAULT_EXPERIMENT = "ipd/ppo_v_tft"
#: What stands for an outer loop without an experiment: sizes of an inner loop.
OUTER_BASES: dict[str, dict[str, Any]] = {
    "online": {"num_envs": 8, "agents": [{"name": DEFAULT_LEARNER}]},
    "es": {
        "num_envs": 8,
        "total_timesteps": 10_240,
        "agents": [{"name": DEFAULT_LEARNER}],
    },
}
LOCAL_FOLDER = Path("conf") / "experiment"


def load(
    words: Sequence[str] = (),
    *,
    config_file: str | Path | Sequence[str | Path] | None = None,
    options: Mapping[str, Any] | None = None,
) -> ExperimentConfig:
    """Returns the config that a command line means.

    Defaults < stored experiment < config file < `KEY=VALUE` < options; the small sizes
    of an experiment or a file lie right above it, if they are asked for. Without an
    experiment and a file, the default experiment stands, unless another game is asked
    for: then that game's own defaults.

    Args:
        words: `[EXPERIMENT] [KEY=VALUE ...]`.
        config_file: A YAML file, or several, later ones on top.
        options: Settings by key, `None` for those not given.

    Raises:
        ConfigError: If anything is unknown or does not fit.
    """
    overrides = parse_words(words)
    command = merging.command_line([*overrides.layers, *_option_layers(options or {})])
    if config_file is None:
        config_file = ()
    elif isinstance(config_file, str | Path):
        config_file = (config_file,)
    layers: list[Layer] = []
    if overrides.experiment is not None:
        layers = [read_experiment(overrides.experiment)]
    elif not config_file:
        layers = [_implied_base(command)]
    for path in config_file:
        layers += _read_file(local_path(path))
    whole = _on_top(layers, command)
    if not config_file and overrides.experiment is None:
        whole = nobody_asked(layers[0], whole)
    return build(whole)


def load_on_run(
    path: str | Path,
    changes: Mapping[str, Any],
    words: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> ExperimentConfig:
    """Returns the config of a run with words and options on top.

    The settings of the run's agents go with these agents, as those of a stored
    experiment do.

    Args:
        path: The run's `config.yaml`.
        changes: Settings by key that the run itself brings along.
        words: `[KEY=VALUE ...]`.
        options: Settings by key, as in `load`.

    Raises:
        ConfigError: If the words name an experiment, or a setting does not fit.
    """
    overrides = parse_words(words)
    if overrides.experiment is not None:
        raise ConfigError(
            f"{overrides.experiment!r} names an experiment, but the run {path} is what "
            "is played: leave one of them out"
        )
    command = merging.command_line([*overrides.layers, *_option_layers(options or {})])
    origin = Origin("run", f"the run {Path(path).parent}")
    base = normalise(parse(_text(Path(path)), str(path)), origin)
    base = merging.merge(base, normalise(changes, origin))
    return build(_on_top([base], command))


def load_record(data: Mapping[str, Any], place: str) -> ExperimentConfig:
    """Returns the config that was written down as plain data, as `as_dict` gives it.

    Args:
        data: The whole config.
        place: Where it was found, for messages.

    Raises:
        ConfigError: If a value does not fit its field.
    """
    return build(normalise(dict(data), Origin("run", place)))


def read_experiment(name: str) -> Layer:
    """Returns the merged layer of a stored experiment and all that it extends.

    Raises:
        ConfigError: If there is no such experiment; names the closest ones.
    """
    return _read(name, ())


def load_small(name: str, **options: Any) -> ExperimentConfig:
    """Returns a stored experiment in its small size; one without `quick` is small."""
    quick = "quick" in read_experiment(name)
    return load([name], options={**options, "quick": quick or None})


def experiment_text(name: str) -> str:
    """Returns the YAML of a stored experiment as it was written."""
    return _path(name).read_text(encoding="utf-8")


def experiment_names() -> tuple[str, ...]:
    """Returns the names of all stored experiments, the user's own included."""
    names: set[str] = set()
    for folder in _folders():
        if folder.is_dir():
            names |= _names_in(folder)
            for family in folder.iterdir():
                if family.is_dir():
                    names |= {f"{family.name}/{name}" for name in _names_in(family)}
    return tuple(sorted(names))


def to_yaml(config: ExperimentConfig) -> str:
    """Returns a config as YAML; `--config` of it gives an equal config."""
    return dump(as_dict(config))


def origin_lines(config: ExperimentConfig) -> list[str]:
    """Returns every setting as `KEY=VALUE`, and where it was written.

    The values are those of `to_yaml`; `config.origin("agent1.gamma")` is the place of
    one of them.
    """
    pairs = list(_flat(as_dict(config)))
    words = [f"{name}={flow(value)}" for name, value in pairs]
    width = min(60, max(map(len, words)))
    return [
        f"{word:<{width}}  # {config.origin(name)}"
        for word, (name, _) in zip(words, pairs, strict=True)
    ]


def _flat(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the settings of plain data, by their names in words and options."""
    for key, value in data.items():
        name = f"{path}.{key}" if path else str(key)
        if name == "agents":
            for i, agent in enumerate(value, start=1):
                yield from _flat(agent, f"agent{i}")
        elif isinstance(value, dict) and value and name != "env.payoff":
            yield from _flat(value, name)
        else:
            yield name, value


def _on_top(layers: Sequence[Layer], command: Layer) -> Layer:
    """Returns layers on one another, and the command line on top of them.

    Raises:
        ConfigError: If the small size is asked for, and there is none.
    """
    wanted = [
        layer[merging.WANTS_QUICK].value
        for layer in (*layers, command)
        if merging.WANTS_QUICK in layer
    ]
    asked = bool(wanted and wanted[-1])
    if asked and not any(merging.QUICK in layer for layer in layers):
        names = [layer["name"].value for layer in layers if "name" in layer]
        raise ConfigError(
            f"{names[-1] if names else 'this experiment'} has no quick size: choose "
            "total_timesteps=N or a smaller game"
        )
    base: Layer = {}
    for layer in layers:
        base = inherited(base, _without(layer, merging.QUICK))
        if asked and merging.QUICK in layer:
            smaller = layer[merging.QUICK]
            if "bands" in smaller:
                base.pop("bands", None)
            base = merging.merge(base, smaller)
    return _without(changed(base, command), merging.WANTS_QUICK)


def _without(layer: Layer, key: str) -> Layer:
    return {name: value for name, value in layer.items() if name != key}


def _option_layers(options: Mapping[str, Any]) -> list[Layer]:
    """Returns a layer for each option that is given."""
    layers = []
    for key, value in options.items():
        place = f"option --{key.replace('_', '-')}"
        if key == "runner":
            place = f"the command, which runs {value}"
        if value is not None:
            layers.append(normalise({key: value}, Origin("option", place)))
    return layers


def _read(name: str, seen: tuple[str, ...]) -> Layer:
    name = name.removesuffix(".yaml")
    if name in seen:
        chain = " -> ".join((*seen, name))
        raise ConfigError(f"experiments extend each other: {chain}")
    path = _path(name)
    local = isinstance(path, Path) and not path.is_absolute()
    origin = Origin("experiment", str(path) if local else f"the experiment {name}")
    data = parse(path.read_text(encoding="utf-8"), str(path))
    parents, own = _extended(data, origin, (*seen, name))
    layer = inherited(parents, own)
    return {**layer, "name": Setting(name, origin)}


def _read_file(path: Path) -> list[Layer]:
    """Returns the layers of a file: what it extends, and what it says itself."""
    origin = Origin("file", f"--config {path}")
    parents, own = _extended(parse(_text(path), str(path)), origin, ())
    own = {"name": Setting(path.stem, origin), **own}
    return [parents, own] if parents else [own]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read --config {path}: {error.strerror}") from None


def _extended(data: Any, origin: Origin, seen: tuple[str, ...]) -> tuple[Layer, Layer]:
    """Returns what a document extends, and what it says itself."""
    parents: Any = ()
    if isinstance(data, dict):
        data = dict(data)
        parents = data.pop("extends", ())
    parents = (parents,) if isinstance(parents, str) else tuple(parents)
    base: Layer = {}
    for parent in parents:
        base = inherited(base, _read(str(parent), seen))
    return base, normalise(data, origin)


def _implied_base(command: Layer) -> Layer:
    """Returns what stands where no experiment is named."""
    runner = merging.setting_at(command, "runner")
    if runner is not None and runner.value in OUTER_BASES:
        origin = Origin("default", f"the default of `paxrun {runner.value}`")
        return normalise(OUTER_BASES[runner.value], origin)
    game = merging.setting_at(command, "env", "id")
    default = read_experiment(DEFAULT_EXPERIMENT)
    if game is None or _same_game(str(game.value), default["env"]["id"].value):
        return default
    return {}


def _same_game(a: str, b: str) -> bool:
    try:
        return find(a) == find(b)
    except UnknownGameError:
        return False


def _folders() -> tuple[Any, ...]:
    packaged = importlib.resources.files("runners") / "conf" / "experiment"
    return (LOCAL_FOLDER, packaged)


def _names_in(folder: Any) -> set[str]:
    return {
        file.name.removesuffix(".yaml")
        for file in folder.iterdir()
        if file.name.endswith(".yaml") and not file.name.startswith("_")
    }


def _path(name: str) -> Any:
    name = name.removesuffix(".yaml")
    parts = name.split("/")
    if len(parts) <= 2 and all(part not in ("", ".", "..") for part in parts):
        for folder in _folders():
            path = folder.joinpath(*parts[:-1], f"{parts[-1]}.yaml")
            if path.is_file():
                return path
    if (Path(name) / "meta.json").is_file():
        raise ConfigError(
            f"{name} is a run, not an experiment: `paxrun eval --run-dir {name}` plays "
            "its agents"
        )
    file = next((f for f in (f"{name}.yaml", name) if Path(f).is_file()), None)
    if file is not None:
        raise ConfigError(f"{file} is a file, not an experiment: write --config {file}")
    near = closest(name, list(experiment_names()))
    hint = f"; did you mean {' or '.join(near)}?" if near else ";"
    raise ConfigError(
        f"there is no experiment {name!r}{hint} `paxrun list experiments` shows all. "
        f"Neither {LOCAL_FOLDER / name}.yaml nor a packaged one is there"
    )
