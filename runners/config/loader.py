"""Reads names, files, overrides and options into one `ExperimentConfig`."""

import dataclasses
import importlib.resources
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paxenv.paths import local_path
from paxenv.registry import UnknownGameError, closest, find
from runners.config.building import as_dict, build
from runners.config.merging import (
    NAME,
    QUICK,
    Layer,
    Setting,
    changed,
    check_command,
    command_line,
    flat,
    inherited,
    left_behind,
    merge,
    nobody_asked,
)
from runners.config.reading import dump, flow, parse, read, read_words
from runners.config.schema import (
    FIELDS,
    ConfigError,
    EnvConfig,
    ExperimentConfig,
    Origin,
)
from runners.kinds import KINDS

DEFAULT_EXPERIMENT = "ipd/ppo_v_tft"
#: The folder of the user's own experiments, which shadow the packaged ones.
LOCAL_FOLDER = Path("conf") / "experiment"


class Document(NamedTuple):
    """The settings of a file, and those of its small size."""

    says: Layer
    small: Layer = {}

    def on_top_of(self, base: "Document") -> "Document":
        """Returns the document as one that extends `base`."""
        says = inherited(base.says, self.says)
        return Document(says, merge(base.small, self.small))


def load(
    words: str | Sequence[str] = (),
    *,
    config_file: str | Path | Sequence[str | Path] | None = None,
    options: Mapping[str, Any] | None = None,
) -> ExperimentConfig:
    """Returns the config of a command line.

    Defaults < stored experiment < config file < `KEY=VALUE` < options; the small sizes
    of an experiment or a file lie right above it, if they are asked for. Without an
    experiment and a file, the default experiment is taken, or, if another game is asked
    for, that game's own defaults.

    Args:
        words: `[EXPERIMENT] [KEY=VALUE ...]`; a text is one word.
        config_file: A YAML file, or several, later ones on top.
        options: Settings by key, `None` for those not given.

    Raises:
        ConfigError: If anything is unknown or does not fit.
    """
    if isinstance(words, str):
        words = (words,)
    if isinstance(config_file, str | Path):
        config_file = (config_file,)
    _check_each("words", words, str)
    _check_each("config_file", config_file or (), str | Path)
    _check_each("options", options or {}, str)
    experiment, command = _command(words, options or {})
    documents: list[Document] = []
    if experiment is not None:
        documents = [_experiment(experiment)]
    elif not config_file:
        documents = [_implied(command)]
    for path in config_file or ():
        documents += _file(path)
    whole = _merged(documents, command)
    if not config_file and experiment is None:
        whole = nobody_asked(documents[0].says, whole)
    notices = [notice for d in documents for notice in _lost(d.says, whole)]
    return dataclasses.replace(build(whole), notices=tuple(notices))


def _check_each(argument: str, values: Any, kind: Any) -> None:
    """Raises ConfigError for the first value, or key, that is not of a type."""
    what = "a text" if kind is str else "a text or a path"
    for value in values if isinstance(values, Sequence | Mapping) else (values,):
        if not isinstance(value, kind):
            raise ConfigError(f"each of {argument} must be {what}, got {value!r}")


def load_on_run(
    path: str | Path,
    changes: Mapping[str, Any],
    words: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> ExperimentConfig:
    """Returns the config of a run with words and options on top.

    If an agent is replaced by another, the settings that the run gave to the former are
    dropped, as those of a stored experiment are.

    Args:
        path: The run's `config.yaml`.
        changes: Settings by key that replace those of the run.
        words: `[KEY=VALUE ...]`.
        options: Settings by key, as in `load`.

    Raises:
        ConfigError: If the words name an experiment, or a setting does not fit.
    """
    experiment, command = _command(words, options or {})
    if experiment is not None:
        raise ConfigError(
            f"{experiment!r} names an experiment, but the run {path} is what is "
            "played: leave one of them out"
        )
    origin = Origin("run", f"the run {Path(path).parent}")
    base = read(parse(_text(Path(path), str(path)), str(path)), origin)
    base = merge(base, read(dict(changes), origin))
    return build(_merged([Document(base)], command))


def load_record(data: Mapping[str, Any], place: str) -> ExperimentConfig:
    """Returns the config of plain data that `as_dict` returned.

    Args:
        data: The whole config.
        place: The place where the data was found, for messages.

    Raises:
        ConfigError: If a value does not fit its field.
    """
    return build(read(dict(data), Origin("run", place)))


def load_small(name: str, **options: Any) -> ExperimentConfig:
    """Returns a stored experiment in its small size; one without `quick` is small."""
    quick = bool(_experiment(name).small)
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
    """Returns a config as YAML, from which `--config` reads an equal config."""
    return dump(as_dict(config))


def origin_lines(config: ExperimentConfig) -> list[str]:
    """Returns every setting as `KEY=VALUE`, with the place where it was written.

    The values are those of `to_yaml`; `config.origin("agent1.gamma")` is the place of
    one of them.
    """
    data = as_dict(config)
    agents = {f"agent{i}": agent for i, agent in enumerate(data["agents"], start=1)}
    pairs = [
        (".".join(path), value)
        for key in data
        for path, value in flat(agents if key == "agents" else {key: data[key]})
        if path
    ]
    words = [f"{name}={flow(value)}" for name, value in pairs]
    width = min(60, max(map(len, words)))
    return [
        f"{word:<{width}}  # {config.origin(name)}"
        for word, (name, _) in zip(words, pairs, strict=True)
    ]


def _lost(stored: Layer, whole: Layer) -> Iterator[str]:
    """Yields a notice for every agent that lost settings of an experiment by moving."""
    for key, other, agent in left_behind(stored, whole):
        yield (
            f"{other} is {agent['name']} with its usual settings: those that the "
            f"experiment gives to {key} are dropped with it. To keep them, write "
            f"{other}='{flow(agent)}'"
        )


def _command(
    words: Sequence[str], options: Mapping[str, Any]
) -> tuple[str | None, Layer]:
    """Returns (the experiment that words choose, the layer of words and options)."""
    experiment, layers = read_words(words)
    given = [
        read({key: value}, Origin("option", _option(key, value)))
        for key, value in options.items()
        if value is not None
    ]
    return experiment, command_line([*layers, *given])


def _option(key: str, value: Any) -> str:
    if key == "runner":
        return f"the command, which runs {value}"
    return f"option --{key.replace('_', '-')}"


def _merged(documents: Sequence[Document], command: Layer) -> Layer:
    """Returns the merged documents with the command line on top.

    Raises:
        ConfigError: If the small size is asked for and no document has one, or a file
            is for another runner than that of the command.
    """
    layers = (*(document.says for document in documents), command)
    wanted = [layer[QUICK].value for layer in layers if QUICK in layer]
    asked = bool(wanted and wanted[-1])
    if asked and not any(document.small for document in documents):
        names = [layer[NAME].value for layer in layers[:-1] if NAME in layer]
        raise ConfigError(
            f"{names[-1] if names else 'this experiment'} has no quick size: choose "
            "total_timesteps=N or a smaller game"
        )
    base: Layer = {}
    for document in documents:
        base = inherited(base, document.says)
        if asked:
            if any(path[0] == "bands" for path in document.small):
                base = {p: s for p, s in base.items() if p[0] != "bands"}
            base = merge(base, document.small)
    check_command(base, command)
    whole = changed(base, command)
    whole.pop(QUICK, None)
    return whole


def _experiment(name: str, seen: tuple[str, ...] = ()) -> Document:
    """Returns a stored experiment with all that it extends.

    Raises:
        ConfigError: If there is no such experiment; names the closest ones.
    """
    name = name.removesuffix(".yaml")
    if name in seen:
        chain = " -> ".join((*seen, name))
        raise ConfigError(f"experiments extend each other: {chain}")
    path = _path(name)
    local = isinstance(path, Path) and not path.is_absolute()
    origin = Origin("experiment", str(path) if local else f"the experiment {name}")
    data = parse(_text(path, str(path)), str(path))
    parents, own = _extended(data, origin, (*seen, name))
    whole = own.on_top_of(parents)
    whole.says[NAME] = Setting(name, origin)
    return whole


def _extended(
    data: Any, origin: Origin, seen: tuple[str, ...] = ()
) -> tuple[Document, Document]:
    """Returns the experiment that a document extends, and its own settings."""
    if not isinstance(data, dict):
        return Document({}), Document(read(data, origin))
    data = dict(data)
    base = Document({})
    for parent in _parents(data.pop("extends", []), origin):
        base = _experiment(parent, seen).on_top_of(base)
    small: Layer = {}
    if isinstance(data.get("quick"), dict):
        smaller = dataclasses.replace(origin, place=f"{origin}, quick")
        small = read(data.pop("quick"), smaller)
    return base, Document(read(data, origin), small)


def _parents(extends: Any, origin: Origin) -> list[str]:
    """Returns the names of the experiments that a document extends."""
    parents = [extends] if isinstance(extends, str) else extends
    if not isinstance(parents, list) or not all(isinstance(p, str) for p in parents):
        raise ConfigError(
            f"{origin}: extends must be the name of a stored experiment, or a list of "
            f"names, got {extends!r}"
        )
    return parents


def _file(given: str | Path) -> list[Document]:
    """Returns the experiment that a file extends, if any, and its own settings."""
    if not str(given) or "://" in str(given):
        raise ConfigError(f"--config must name a file of this machine, got {given!r}")
    path = local_path(given)
    data = parse(_text(path, f"--config {path}"), str(path))
    # Of the settings, only this one is left out by `as_dict` where nobody reads it.
    whole = isinstance(data, dict) and data.keys() >= FIELDS.keys() - {"es"}
    origin = Origin("whole file" if whole else "file", f"--config {path}")
    parents, own = _extended(data, origin)
    own.says.setdefault(NAME, Setting(path.stem, origin))
    return [parents, own] if parents.says else [own]


def _text(path: Any, place: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {place}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"cannot read {place}: it is not a UTF-8 text ({error.reason} at "
            f"byte {error.start}); save it as UTF-8"
        ) from None


def _implied(command: Layer) -> Document:
    """Returns the document that is used where no experiment is named."""
    runner, game = command.get(("runner",)), command.get(("env", "id"))
    kind = None if runner is None else KINDS.get(runner.value)
    if kind is not None and kind.base is not None:
        origin = Origin("default", f"the default of `paxrun {kind.name}`")
        return Document(read(dict(kind.base), origin))
    if game is None or _same_game(str(game.value), EnvConfig.id):
        return _experiment(DEFAULT_EXPERIMENT)
    return Document({})


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
