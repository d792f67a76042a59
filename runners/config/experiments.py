"""Stored experiments: where they lie, and what they say with all that they extend."""

import importlib.resources
from pathlib import Path
from typing import Any

from paxenv.registry import closest
from runners.config.departures import inherited
from runners.config.documents import parse
from runners.config.layers import normalise
from runners.config.schema import ConfigError
from runners.config.settings import Layer, Origin, Setting

LOCAL_FOLDER = Path("conf") / "experiment"


def read_experiment(name: str) -> Layer:
    """Returns the merged layer of a stored experiment and all that it extends.

    Raises:
        ConfigError: If there is no such experiment; names the closest ones.
    """
    return _read(name, ())


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


def extended(data: Any, origin: Origin, seen: tuple[str, ...]) -> tuple[Layer, Layer]:
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


def _read(name: str, seen: tuple[str, ...]) -> Layer:
    name = name.removesuffix(".yaml")
    if name in seen:
        chain = " -> ".join((*seen, name))
        raise ConfigError(f"experiments extend each other: {chain}")
    path = _path(name)
    local = isinstance(path, Path) and not path.is_absolute()
    origin = Origin("experiment", str(path) if local else f"the experiment {name}")
    data = parse(path.read_text(encoding="utf-8"), str(path))
    parents, own = extended(data, origin, (*seen, name))
    layer = inherited(parents, own)
    return {**layer, "name": Setting(name, origin)}


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
