"""YAML as users expect it: `1e7` is a number, `no` a word, `010` ten."""

import math
import re
from typing import Any

import yaml

from runners.config.schema import ConfigError

_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_INT = re.compile(r"^[-+]?[0-9][0-9_]*$")
_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_RESOLVERS = (
    ("tag:yaml.org,2002:bool", _BOOL, "tTfF"),
    ("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", _INT, "-+0123456789"),
    ("tag:yaml.org,2002:float", _FLOAT, "-+.0123456789"),
)


class _Loader(yaml.SafeLoader):
    """The core schema of YAML 1.2, and an error for a key that is given twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise ConfigError(f"line {line}: the key {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Quotes exactly the strings that `_Loader` would read as something else."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _class in (_Loader, _Dumper):
    for _tag, _pattern, _first in _RESOLVERS:
        _class.add_implicit_resolver(_tag, _pattern, list(_first))


def _construct_int(loader: Any, node: Any) -> int:
    return int(loader.construct_scalar(node).replace("_", ""))


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Dumper.add_representer(tuple, lambda dumper, data: dumper.represent_list(list(data)))


def parse(text: str, origin: str) -> Any:
    """Returns the data of a YAML document.

    Args:
        text: The document.
        origin: Where it comes from, for messages.

    Raises:
        ConfigError: If it is not YAML, or a mapping holds one key twice.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None
    except yaml.YAMLError as error:
        problem = str(error).replace("\n", " ")
        raise ConfigError(f"{origin} is not valid YAML: {problem}") from None


def dump(data: Any) -> str:
    """Returns data as YAML that `parse` reads back to an equal value."""
    return yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, width=88, default_flow_style=None
    )


def flow(value: Any) -> str:
    """Returns a value in one line of YAML, as it is written after `KEY=`."""
    text = yaml.dump(value, Dumper=_Dumper, width=math.inf, default_flow_style=True)
    return text.removesuffix("\n").removesuffix("\n...")
