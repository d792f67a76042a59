"""From names, files, overrides and options to one `ExperimentConfig`."""

import importlib.resources
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paxenv.paths import local_path
from paxenv.registry import UnknownGameError, closest, find
from runners.config.documents import dump, parse
from runners.config.layers import Layer, merge, normalise
from runners.config.overrides import parse_words
from runners.config.schema import (
    DEFAULT_LEARNER,
    ConfigError,
    ExperimentConfig,
    as_dict,
)
from runners.config.sections import build

DEFAULT_EXPERIMENT = "ipd/ppo_v_tft"
OWN_TO_A_STORED_ONE = ("name", "description", "expected", "source", "bands")
#: What stands for an outer loop without an experiment: sizes of an inner loop.
OUTER_BASES: dict[str, Layer] = {
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
    config_file: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> ExperimentConfig:
    """Returns the config that a command line means.

    Defaults < stored experiment < config file < their `quick` sizes, if asked for <
    `KEY=VALUE` < options. Without an
    experiment and a file, the default experiment stands, unless another game is asked
    for: then that game's own defaults.

    Args:
        words: `[EXPERIMENT] [KEY=VALUE ...]`.
        config_file: A YAML file.
        options: Settings by key, `None` for those not given.

    Raises:
        ConfigError: If anything is unknown or does not fit.
    """
    overrides = parse_words(words)
    given = {k: v for k, v in (options or {}).items() if v is not None}
    layers = [*overrides.layers]
    layers += [
        normalise({key: value}, f"option --{key.replace('_', '-')}")
        for key, value in given.items()
    ]
    base: Layer = {}
    implied = overrides.experiment is None and config_file is None
    if overrides.experiment is not None:
        base = read_experiment(overrides.experiment)
    elif implied:
        base = _implied_base(layers)
    if config_file is not None:
        base = merge(base, _read_file(local_path(config_file)))
    smaller = base.pop("quick", None)
    flags = [layer.pop("quick") for layer in layers if "quick" in layer]
    if flags and flags[-1]:
        smaller = _quick(smaller, base)
        if "bands" in smaller:
            base.pop("bands", None)
        base = merge(base, smaller)
    whole = base
    for layer in layers:
        whole = merge(whole, layer)
    if implied and _names(whole) != _names(base):
        # Other players make another experiment, with the settings of the default one.
        whole = {key: v for key, v in whole.items() if key not in OWN_TO_A_STORED_ONE}
    return build(whole)


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
            names |= {
                f"{family.name}/{file.name.removesuffix('.yaml')}"
                for family in folder.iterdir()
                if family.is_dir()
                for file in family.iterdir()
                if file.name.endswith(".yaml") and not file.name.startswith("_")
            }
    return tuple(sorted(names))


def to_yaml(config: ExperimentConfig) -> str:
    """Returns a config as YAML; `--config` of it gives an equal config."""
    return dump(as_dict(config))


def _quick(smaller: Layer | None, base: Layer) -> Layer:
    """Returns the layer that makes a stored experiment smaller."""
    if not isinstance(smaller, dict):
        name = base.get("name", "this experiment")
        raise ConfigError(
            f"{name} has no quick size: choose total_timesteps=N or a smaller game"
        )
    return smaller


def _read(name: str, seen: tuple[str, ...]) -> Layer:
    name = name.removesuffix(".yaml")
    if name in seen:
        chain = " -> ".join((*seen, name))
        raise ConfigError(f"experiments extend each other: {chain}")
    path = _path(name)
    data = parse(path.read_text(encoding="utf-8"), str(path))
    layer = _extended(data, str(path), (*seen, name))
    return {**layer, "name": name}


def _read_file(path: Path) -> Layer:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read --config {path}: {error.strerror}") from None
    layer = _extended(parse(text, str(path)), str(path), ())
    return {"name": path.stem, **layer}


def _extended(data: Any, origin: str, seen: tuple[str, ...]) -> Layer:
    parents: Any = ()
    if isinstance(data, dict):
        data = dict(data)
        parents = data.pop("extends", ())
    parents = (parents,) if isinstance(parents, str) else tuple(parents)
    base: Layer = {}
    for parent in parents:
        base = merge(base, _read(str(parent), seen))
    return merge(base, normalise(data, origin))


def _implied_base(layers: Sequence[Layer]) -> Layer:
    runners = [str(layer["runner"]) for layer in layers if "runner" in layer]
    if runners and runners[-1] in OUTER_BASES:
        return OUTER_BASES[runners[-1]]
    ids = [layer["env"]["id"] for layer in layers if "id" in layer.get("env", {})]
    default = read_experiment(DEFAULT_EXPERIMENT)
    if not ids or _same_game(str(ids[-1]), default["env"]["id"]):
        return default
    return {}


def _names(layer: Layer) -> list[Any]:
    return [agent.get("name") for agent in layer.get("agents", [])]


def _same_game(a: str, b: str) -> bool:
    try:
        return find(a) == find(b)
    except UnknownGameError:
        return False


def _folders() -> tuple[Any, ...]:
    packaged = importlib.resources.files("runners") / "conf" / "experiment"
    return (LOCAL_FOLDER, packaged)


def _path(name: str) -> Any:
    name = name.removesuffix(".yaml")
    parts = name.split("/")
    if len(parts) == 2 and all(part not in ("", ".", "..") for part in parts):
        for folder in _folders():
            path = folder.joinpath(parts[0], f"{parts[1]}.yaml")
            if path.is_file():
                return path
    near = closest(name, list(experiment_names()))
    hint = f"; did you mean {' or '.join(near)}?" if near else ";"
    raise ConfigError(
        f"there is no experiment {name!r}{hint} `paxrun list experiments` shows all"
    )
