"""The section `search` of a config: how `paxrun es` searches."""

from typing import Any

from runners.config.coerce import coerce, frozen
from runners.config.schema import ConfigError
from runners.outer_loops.outer_config import es_config, search_key, search_options

TARGETS = "search_targets"


def normalised_search(value: Any, origin: str) -> dict[str, Any]:
    """Returns the section with every option under its own name.

    Raises:
        ConfigError: If it is no mapping, or an option is unknown.
    """
    if not isinstance(value, dict):
        raise ConfigError(
            f"{origin}: search must be a mapping such as {{iterations: 10}}, got "
            f"{value!r}"
        )
    named: dict[str, Any] = {}
    try:
        for name, option in value.items():
            key = search_key(str(name))
            if key in named:
                raise ConfigError(f"search.{key} is given twice, once as {name}")
            named[key] = option
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from error
    if isinstance(named.get(TARGETS), str):
        named[TARGETS] = [named[TARGETS]]
    return named


def build_search(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the section in the types of its options, checked as a whole.

    Raises:
        ConfigError: If a value does not fit.
    """
    types = search_options()
    search = {
        name: frozen(option)
        if name == TARGETS
        else coerce(option, types[name], f"search.{name}")
        for name, option in value.items()
    }
    try:
        es_config(search)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"search: {error}") from error
    return search
