"""Reads files, words and options into settings under the names of their fields.

YAML is read as users expect it: `1e7` is a number, `no` a word, `010` ten. A word is
`KEY=VALUE`, with the leading `+` or `++` of Hydra allowed.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from paxenv import options
from runners.config.building import TARGETS, coerce, hashable
from runners.config.merging import (
    AGENT_KEY,
    NUM_AGENTS,
    QUICK,
    Layer,
    Path,
    Setting,
    flat,
    nested,
)
from runners.config.schema import (
    FIELDS,
    SECTIONS,
    ConfigError,
    ExperimentConfig,
    Origin,
    WandbConfig,
    did_you_mean,
    placed,
)
from runners.search.options import ESOptions, renamed
from runners.search.outer_options import search_key

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
    ("tag:yaml.org,2002:merge", re.compile("^<<$"), "<"),
)


class _Loader(yaml.SafeLoader):
    """The core schema of YAML 1.2 with merge keys, and an error for what is no tree.

    A key is a scalar, and is given once; a value is no part of itself.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}
    yaml_constructors: dict[Any, Any] = {}

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _mistake("a key must be a word, not a list or a mapping", key)
            if (key.tag, key.value) in seen:
                line = key.start_mark.line + 1
                raise ConfigError(f"line {line}: the key {key.value!r} is given twice")
            seen.add((key.tag, key.value))
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        # Inner nodes first, so that a node within itself is noticed.
        return super().construct_object(node, deep=True)


def _mistake(what: str, node: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, what, node.start_mark)


class _Dumper(yaml.SafeDumper):
    """Quotes exactly the strings that `_Loader` would read as something else."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _class in (_Loader, _Dumper):
    for _tag, _pattern, _first in _RESOLVERS:
        _class.add_implicit_resolver(_tag, _pattern, list(_first))


def _scalar(kind: str, pattern: re.Pattern[str], make: Callable[[str], Any]) -> None:
    """Adds how texts of a kind are read, also where a tag says so: `!!int 3`."""

    def construct(loader: Any, node: Any) -> Any:
        text = loader.construct_scalar(node)
        try:
            if pattern.match(text):
                return make(text.replace("_", ""))
        except ValueError:  # Python reads no number of thousands of digits.
            pass
        shown = text if len(text) < 80 else f"{text[:80]}..."
        raise _mistake(f"{shown!r} is no {kind}", node)

    _Loader.add_constructor(f"tag:yaml.org,2002:{kind}", construct)


_scalar("bool", _BOOL, lambda text: text.lower() == "true")
_scalar("null", _NULL, lambda text: None)
_scalar("int", _INT, int)
# Python writes infinity without the dot.
_scalar("float", _FLOAT, lambda text: float(re.sub(r"\.(?=[a-zA-Z])", "", text)))
for _kind in ("str", "seq", "map"):
    _tag = f"tag:yaml.org,2002:{_kind}"
    _Loader.add_constructor(_tag, yaml.SafeLoader.yaml_constructors[_tag])
_Loader.add_constructor(None, yaml.SafeLoader.yaml_constructors[None])  # type: ignore[arg-type]
_Dumper.add_representer(tuple, lambda dumper, data: dumper.represent_list(list(data)))


def parse(text: str, origin: str) -> Any:
    """Returns the data of a YAML document.

    Args:
        text: The document.
        origin: The source of the text, for messages.

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
    except RecursionError:
        raise ConfigError(f"{origin} is nested too deeply to be read") from None


def dump(data: Any) -> str:
    """Returns data as YAML, from which `parse` reads an equal value."""
    return yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, width=88, default_flow_style=None
    )


def flow(value: Any) -> str:
    """Returns a value in one line of YAML, as it is written after `KEY=`."""
    text = yaml.dump(value, Dumper=_Dumper, width=math.inf, default_flow_style=True)
    return text.removesuffix("\n").removesuffix("\n...")


#: Options of a game that may stand without `env`, with their other names.
GAME_OPTIONS = {
    "env_id": "id",
    "payoff": "payoff",
    "payoff_matrix": "payoff",
    "num_inner_steps": "num_inner_steps",
    "num_outer_steps": "num_outer_steps",
}


def _short_names() -> dict[str, Path]:
    """Returns the setting for each other name that may stand at the top level."""
    short: dict[str, Path] = {name: ("env", own) for name, own in GAME_OPTIONS.items()}
    short |= {name: (own,) for name, own in options.aliases(ExperimentConfig).items()}
    for option in options.described(ESOptions).values():
        if option.short:
            names = (option.name, *option.aliases)
            short |= {name: ("es", option.name) for name in names}
    return short


SHORT = _short_names()
#: By section, a function from a name to its option; ValueError if there is none.
OWN_NAMES: dict[str, Callable[[str], str]] = {
    "env": lambda name: GAME_OPTIONS.get(name, name),
    "es": lambda name: next(iter(renamed({name: None}, "es"))),
    "search": search_key,
}
#: Replacements of settings that users of other packages know.
HINTS = {
    "train_iters": "total_timesteps, counted in environment steps",
    "num_iters": "total_timesteps, counted in environment steps",
    "num_steps": "num_inner_steps",
    "ppo": "agent1 (for example agent1.learning_rate=0.01)",
    "ppo1": "agent1 (for example agent1.learning_rate=0.01)",
    "ppo2": "agent2 (for example agent2.learning_rate=0.01)",
    "ppo_default": "agent1, agent2, ...",
    "opponent": "agent2",
    "learning_rate": "agent1.learning_rate",
    "lr": "agent1.learning_rate",
    "hidden_size": "agent1.hidden_sizes",
    "defaults": "`extends: NAME`, where NAME is a stored experiment",
    "config": "the option --config FILE",
    "extends": "`ipd/ppo`, the experiment's name as a word of its own; in a file, "
    "`extends: ipd/ppo` stands at the top",
    "experiment": "`extends: ipd/ppo` in a file, or a word of its own",
}
_KNOWN = [*FIELDS, *SHORT, "quick", "model_path", "run_path", "player", "eval"]
_KNOWN += ["agent1", "agent2"]


def _texts() -> set[Path]:
    """Returns the settings that are texts, even where they look like numbers."""
    hints = {(name,): hint for name, hint in FIELDS.items()}
    hints |= {("wandb", name): h for name, h in options.hints(WandbConfig).items()}
    return {
        path
        for path, hint in hints.items()
        if getattr(hint, "__origin__", hint) is str or hint == (str | None)
    }


TEXTS = _texts()
#: Several texts, which one text may hold.
TAGS = ("wandb", "tags")


def read(data: Any, origin: Origin) -> Layer:
    """Returns the settings of a document, a word or an option.

    Aliases are resolved and shorthands spelt out.

    Args:
        data: Its content.
        origin: The place where it was written.

    Raises:
        ConfigError: If a key is unknown, a setting is given twice under two names, or a
            value asks for interpolation.
    """
    place = origin.place
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{place}: expected KEY: VALUE lines, got {data!r}")
    layer: Layer = {}
    names: dict[Path, str] = {}
    for key, value in data.items():
        _check_key(key, place)
        with placed({str(key): origin}):
            settings = list(_spelt_out(str(key), value, place))
        for start, said, written in settings:
            for path, one in flat(said, start):
                _check_new(path, names, place, written)
                names[path] = written
                if "${" in repr(one):
                    raise ConfigError(
                        f"{place}: interpolation unsupported: {one!r} in "
                        f"{'.'.join(path)}; write the value itself"
                    )
                layer[path] = Setting(one, origin)
    return layer


class Words(NamedTuple):
    """The meaning of the words after a command.

    Attributes:
        experiment: The stored experiment that they choose, or None.
        layers: One layer for each `KEY=VALUE`, in order.
    """

    experiment: str | None
    layers: tuple[Layer, ...]


def read_words(words: Sequence[str]) -> Words:
    """Returns the meaning of `[EXPERIMENT] [KEY=VALUE ...]`.

    `experiment=ipd/ppo` and `experiment/ipd=ppo` choose an experiment too.

    Raises:
        ConfigError: If a word is malformed, or two experiments are chosen.
    """
    chosen: list[str] = []
    layers: list[Layer] = []
    for word in words:
        bare = word.lstrip("+")
        key, equals, value = bare.partition("=")
        key = key.strip()
        if word.startswith("~"):
            raise ConfigError(f"{word!r}: settings cannot be removed, only changed")
        if not equals:
            chosen.append(bare)
        elif key == "experiment":
            chosen.append(value)
        elif key.startswith("experiment/"):
            chosen.append(f"{key.removeprefix('experiment/')}/{value}")
        else:
            layers.append(_read_word(key, value, word))
    if len(chosen) > 1:
        raise ConfigError(
            f"one experiment at a time, got {' and '.join(chosen)}; settings are "
            "written KEY=VALUE"
        )
    return Words(chosen[0] if chosen else None, tuple(layers))


def split_words(text: str) -> list[str]:
    """Returns the words of one text, split as by a shell, but not within brackets.

    `agent2={name: Naive, reset: trial} seed=3` are two words: spaces within brackets
    belong to a value, and quotes there to its YAML.

    Raises:
        ConfigError: If a bracket or a quote is not closed.
    """
    words: list[str] = []
    word, quote, depth = "", "", 0
    begun = False
    for sign in text:
        if sign.isspace() and not quote and not depth:
            words += [word] if begun else []
            word, begun = "", False
            continue
        begun = True
        outside = not depth
        if quote:
            quote = "" if sign == quote else quote
            marks = sign in "\"'" and not quote
        elif sign in "\"'":
            quote, marks = sign, True
        else:
            marks = False
            depth += (sign in "[{(") - (sign in "]})")
        if not (marks and outside):
            word += sign
    if quote or depth:
        what = f"the quote {quote}" if quote else "a bracket"
        raise ConfigError(f"{text!r}: {what} is not closed")
    return [*words, word] if begun else words


def game_options(words: Sequence[str]) -> dict[str, Any]:
    """Returns options of a game from `KEY=VALUE` words, such as `num_inner_steps=10`.

    Raises:
        ConfigError: If a word is not of that form.
    """
    given: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.lstrip("+").partition("=")
        if not equals:
            raise ConfigError(f"{word!r}: options of a game are written KEY=VALUE")
        path = f"env.{key.strip().removeprefix('env.')}"
        given |= nested(_read_word(path, value, word))["env"]
    return hashable(given)


def _read_word(key: str, text: str, word: str) -> Layer:
    first, *rest = key.split(".")
    if not all((first, *rest)):
        raise ConfigError(f"{word!r}: expected KEY=VALUE, such as agent1.gamma=0.96")
    path = (*SHORT.get(first, (first,)), *rest)
    is_payoff = path[-1] in ("payoff", "payoff_matrix")
    is_text = is_payoff or path[-1] in ("model_path", "run_path") or path in TEXTS
    value: Any = text if is_text else parse(text, repr(word))
    if text == "null" and not is_payoff:
        value = None
    for part in reversed(rest):
        value = {part: value}
    if (first,) == QUICK and isinstance(value, dict):
        raise ConfigError(f"{word!r}: quick is true or false; write what it is to hold")
    return read({first: value}, Origin("word", repr(word)))


def _check_key(key: Any, place: str) -> None:
    if key in _KNOWN or AGENT_KEY.match(str(key)):
        return
    if key in HINTS:
        raise ConfigError(f"{place}: unknown key {key!r}; use {HINTS[key]}")
    raise ConfigError(
        f"{place}: unknown key {key!r}{did_you_mean(key, _KNOWN)} "
        f"Known keys: {', '.join(_KNOWN)}"
    )


def _check_new(path: Path, names: dict[Path, str], place: str, written: str) -> None:
    """Raises ConfigError if a setting is there already, or a part of it."""
    for other, first in names.items():
        short = min(path, other, key=len)
        if path[: len(short)] == other[: len(short)]:
            raise ConfigError(
                f"{place}: {'.'.join(short)} is given twice, as {first} and as "
                f"{written}: leave one of them out"
            )


def _spelt_out(key: str, value: Any, place: str) -> Iterator[tuple[Path, Any, str]]:
    """Yields the settings of one key: path, value, and the key as it was written."""
    if key in SHORT:
        yield SHORT[key], value, key
    elif key in ("eval", "quick"):
        yield (key,), coerce(value, bool, key), key
    elif key == "runner":
        yield (key,), coerce(value, FIELDS[key], key), key
    elif key == "agents":
        if not isinstance(value, list | tuple):
            raise ConfigError(
                f"{place}: agents must be a list of names, or of mappings with a name, "
                f"got {value!r}"
            )
        yield NUM_AGENTS, len(value), key
        for i, agent in enumerate(value, start=1):
            yield from _agent(f"agent{i}", agent, key, place)
    elif AGENT_KEY.match(key):
        yield from _agent(key, value, key, place)
    elif key == "env" and isinstance(value, str):
        yield (key, "id"), value, key
    elif key in SECTIONS and not (key == "payoff_sampler" and value is None):
        yield from _section((key,), value, place)
    else:
        yield (key,), value, key


def _agent(
    key: str, value: Any, written: str, place: str
) -> Iterator[tuple[Path, Any, str]]:
    if isinstance(value, str):
        yield (key, "name"), value, written
        return
    if not isinstance(value, dict) or not value:
        who = key if key == written else f"{key} in {written}"
        raise ConfigError(
            f"{place}: {who} must be an agent's name or a mapping with a name, "
            f"got {value!r}"
        )
    for name, option in value.items():
        if name == "es" and option is not None:
            yield from _section((key, "es"), option, place)
        else:
            yield (key, str(name)), option, written


def _section(path: Path, value: Any, place: str) -> Iterator[tuple[Path, Any, str]]:
    section = path[-1]
    if not isinstance(value, dict):
        raise ConfigError(
            f"{place}: {'.'.join(path)} must be {SECTIONS[section]}, got {value!r}"
        )
    if not value:
        yield path, value, section
    for key, option in value.items():
        try:
            name = OWN_NAMES.get(section, str)(str(key))
        except ValueError as error:
            raise ConfigError(f"{place}: {error}") from error
        if isinstance(option, str) and (section, name) == ("search", TARGETS):
            option = [option]
        if isinstance(option, str | int | float) and (section, name) == TAGS:
            option = str(option).split(",")
        yield (*path, name), option, f"{'.'.join(path)}.{key}"
