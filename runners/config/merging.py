"""How layers lie on one another: the one rule of docs/config.md.

A layer is what one file or one command line says. Of two layers the higher one wins,
setting by setting. What is named anew, an agent or an evolution strategy, comes without
the settings that a stored experiment gave to another; what the user wrote stays.
"""

import re
from collections.abc import Iterable
from typing import Any

from paxenv.wording import counted
from runners.config.schema import ConfigError
from runners.config.settings import Layer, Origin, Setting, leaves, typed_only
from runners.search import strategies
from runners.search.options import SHARED

AGENT_KEY = re.compile(r"^agent([1-9][0-9]*)$")
#: In a layer: how many agents a list named. The entries are `agent1`, `agent2`, ...
NUM_AGENTS = "agents"
#: In a layer: the mapping that makes an experiment small, and whether that is wanted.
QUICK, WANTS_QUICK = "quick", "wants_quick"
LENGTH = "total_timesteps"
#: Other settings that say how long a run is.
LENGTHS = (("es", "num_generations"), ("search", "num_steps_per_iteration"))


def merge(base: Layer, layer: Layer) -> Layer:
    """Returns `base` with `layer` on top.

    Mappings are merged key by key. A list of agents names every agent anew, and so does
    another name one agent: of what lies below, only what the user wrote remains.
    """
    merged = dict(base)
    if LENGTH in layer:
        # The last word on how long a run is stands.
        for section, key in LENGTHS:
            if setting_at(layer, section, key) is None:
                merged[section] = _without(merged.get(section, {}), key)
    if NUM_AGENTS in layer:
        merged = _named_anew(merged, layer[NUM_AGENTS])
    for key in layer:
        old = merged.get(key, {})
        if key == QUICK:
            merged[key] = merge(old, layer[key])
        elif key == "es" and isinstance(layer[key], dict):
            merged[key] = _searched(old, layer[key])
        elif AGENT_KEY.match(key):
            merged[key] = _merged_agent(old, layer[key])
        else:
            merged[key] = _deep(old, layer[key])
    return {key: value for key, value in merged.items() if value != {}}


def command_line(layers: Iterable[Layer]) -> Layer:
    """Returns the layer of all words and options; of one setting the last one stands.

    Raises:
        ConfigError: If two of them contradict each other.
    """
    merged: Layer = {}
    for layer in layers:
        if NUM_AGENTS in layer and NUM_AGENTS in merged:
            merged = _not_of(merged, merged[NUM_AGENTS].origin)
        _check_runner(merged.get("runner"), layer.get("runner"))
        merged = _deep(merged, layer)
    length = merged.get(LENGTH)
    for section, key in LENGTHS:
        other = setting_at(merged, section, key)
        if length is not None and other is not None:
            raise ConfigError(
                f"{length.origin} and {other.origin} both say how long the run is: "
                "give one of them"
            )
    return merged


def agent_keys(layer: Layer) -> list[str]:
    """Returns the keys of a layer's agents, in their order."""
    keys = [key for key in layer if AGENT_KEY.match(key)]
    return sorted(keys, key=agent_index)


def agent_index(key: str) -> int:
    """Returns the place of `agent1`, from 1."""
    return int(key.removeprefix("agent"))


def setting_at(layer: Layer, *path: str) -> Setting | None:
    """Returns a setting of a layer, None if it has none of this path."""
    found: Any = layer
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, Setting) else None


def runner_of(layer: Layer) -> Setting | None:
    """Returns the runner that a layer asks for; `eval: true` asks for that of its name.

    Raises:
        ConfigError: If another runner is asked for in the same place.
    """
    asked, runner = layer.get("eval"), layer.get("runner")
    if asked is None or not asked.value:
        return runner
    if runner is not None and runner.value != "eval":
        if runner.origin.height == asked.origin.height:
            raise ConfigError(
                f"eval=true (from {asked.origin}) contradicts runner={runner.value} "
                f"(from {runner.origin}): leave one of them out, or write `paxrun eval`"
            )
        if runner.origin.height > asked.origin.height:
            return runner
    return Setting("eval", asked.origin)


def _check_runner(word: Setting | None, option: Setting | None) -> None:
    """Raises ConfigError if a word asks for another runner than the command."""
    if word is None or option is None or word.value == option.value:
        return
    if (word.origin.kind, option.origin.kind) == ("word", "option"):
        raise ConfigError(
            f"{word.origin} contradicts {option.origin}: leave it out, or write "
            f"`paxrun {word.value}`"
        )


def _named_anew(base: Layer, count: Setting) -> Layer:
    """Returns what remains of a layer below a list that names all agents."""
    kept = {k: typed_only(v) if AGENT_KEY.match(k) else v for k, v in base.items()}
    for key in agent_keys(kept):
        for name, setting in leaves({key: kept[key]}):
            if agent_index(key) > count.value:
                raise ConfigError(
                    f"{name} is set by {setting.origin}, but {count.origin} names "
                    f"{counted(count.value, 'agent')}: leave one of them out"
                )
    return kept


def _not_of(layer: Layer, origin: Origin) -> Layer:
    """Returns a layer without what one word or option said."""
    kept: Layer = {}
    for key, value in layer.items():
        if not isinstance(value, Setting):
            if inner := _not_of(value, origin):
                kept[key] = inner
        elif value.origin != origin:
            kept[key] = value
    return kept


def _merged_agent(old: Any, new: Layer) -> Layer:
    name, before = setting_at(new, "name"), setting_at(old, "name")
    if name is not None and before is not None and name.value != before.value:
        old = typed_only(old)
    merged = _deep(old, new)
    if isinstance(new.get("es"), dict):
        merged["es"] = _searched(old.get("es", {}), new["es"])
    return merged


def _searched(old: Any, new: Layer) -> Any:
    """Returns the options of a search; another strategy comes without those of one."""
    strategy, before = setting_at(new, "strategy"), setting_at(old, "strategy")
    if strategy and before and not _same_strategy(strategy.value, before.value):
        old = {k: s for k, s in old.items() if k in SHARED or s.origin.typed}
    return _deep(old, new)


def _same_strategy(a: Any, b: Any) -> bool:
    try:
        return strategies.find(str(a)) == strategies.find(str(b))
    except ValueError:
        return a == b


def _deep(old: Any, new: Any) -> Any:
    """Returns two settings or mappings as one; an empty mapping changes no other."""
    if isinstance(new, Setting):
        return old if new.value == {} and old and isinstance(old, dict) else new
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        merged[key] = _deep(merged.get(key), value)
    return merged


def _without(section: Any, key: str) -> Any:
    if not isinstance(section, dict):
        return section
    return {name: value for name, value in section.items() if name != key}
