"""From names, files, overrides and options to one `ExperimentConfig`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paxenv.paths import local_path
from paxenv.registry import UnknownGameError, find
from runners.config import merging
from runners.config.departures import changed, inherited, nobody_asked
from runners.config.documents import dump, flow, parse
from runners.config.experiments import extended, read_experiment
from runners.config.layers import normalise
from runners.config.overrides import parse_words
from runners.config.schema import ConfigError, ExperimentConfig, as_dict
from runners.config.sections import build
from runners.config.settings import Layer, Origin, Setting
from runners.kinds import KINDS

DEFAULT_EXPERIMENT = "ipd/ppo_v_tft"


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


def load_small(name: str, **options: Any) -> ExperimentConfig:
    """Returns a stored experiment in its small size; one without `quick` is small."""
    quick = "quick" in read_experiment(name)
    return load([name], options={**options, "quick": quick or None})


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


def _read_file(path: Path) -> list[Layer]:
    """Returns the layers of a file: what it extends, and what it says itself."""
    origin = Origin("file", f"--config {path}")
    parents, own = extended(parse(_text(path), str(path)), origin, ())
    own = {"name": Setting(path.stem, origin), **own}
    return [parents, own] if parents else [own]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read --config {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"cannot read --config {path}: it is not a UTF-8 text ({error.reason} at "
            f"byte {error.start}); save it as UTF-8"
        ) from None


def _implied_base(command: Layer) -> Layer:
    """Returns what stands where no experiment is named."""
    runner = merging.setting_at(command, "runner")
    kind = None if runner is None else KINDS.get(runner.value)
    if kind is not None and kind.base is not None:
        return normalise(
            dict(kind.base), Origin("default", f"the default of `paxrun {kind.name}`")
        )
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
