"""Settings: values that remember where they were written, in nested layers."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

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
