"""Options of frozen dataclasses, each described once: at its field.

The annotation says which values an option may have, `option` what it means and by which
other names it is known. All code that checks, reads, lists or documents options uses
this module.

    @documented
    @dataclasses.dataclass(frozen=True)
    class Length:
        \"\"\"How long a run is.\"\"\"

        num_steps: Count = option(100, "Environment steps.", aliases=("steps",))
        keep_every: Count | None = option(None, "Steps between two that are kept.")

        def __post_init__(self) -> None:
            check(self)
"""

import dataclasses
import functools
import math
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

from paxenv import scalars
from paxenv.suggestions import OptionError, unknown_option

Config = TypeVar("Config")
WIDTH = 84
FINITE = "a finite number"


class Rule(NamedTuple):
    """Which values an option may have, as metadata of its type.

    Attributes:
        holds: Whether a value is one of them.
        claim: What they are, to be read after "must be".
    """

    holds: Callable[[Any], bool]
    claim: str


def one_of(*names: str) -> Rule:
    """Returns the rule of an option that is one of some names."""
    return Rule(
        lambda x: isinstance(x, str) and x in names, f"one of {', '.join(names)}"
    )


def at_least(low: int) -> Rule:
    """Returns the rule of whole numbers from `low` on."""
    return Rule(lambda x: _is_whole(x) and x >= low, f"a whole number >= {low}")


def is_real(value: Any) -> bool:
    """Returns whether a value is a finite number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _is_number(value: Any) -> bool:
    """Returns whether a value is a number, which infinity may be, as in no limit."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and not math.isnan(value)


def is_count(value: Any) -> bool:
    """Returns whether a value is a whole number of at least 1."""
    return _is_whole(value) and value >= 1


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_widths(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(map(is_count, value))


#: Types of options. With `| None` an option may be left open.
Count = Annotated[int, at_least(1)]
Natural = Annotated[int, at_least(0)]
Real = Annotated[float, Rule(is_real, FINITE)]
Weight = Annotated[float, Rule(lambda x: is_real(x) and x >= 0, "a finite number >= 0")]
Positive = Annotated[float, Rule(lambda x: is_real(x) and x > 0, "a finite number > 0")]
Share = Annotated[
    float, Rule(lambda x: is_real(x) and 0 <= x <= 1, "a number in [0, 1]")
]
PROBABILITY = Rule(lambda x: is_real(x) and 0 <= x <= 1, "a probability in [0, 1]")
Widths = Annotated[
    tuple[int, ...], Rule(_are_widths, "a sequence of whole numbers >= 1")
]
_FLAG = Rule(lambda x: isinstance(x, bool), "True or False")


def option(
    default: Any = dataclasses.MISSING,
    help: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    aliases: tuple[str, ...] = (),
    short: bool = False,
    page: str | None = None,
) -> Any:
    """Returns a field of a dataclass that says what it means.

    Args:
        default: Its value where none is given.
        help: What it means, in whole sentences.
        factory: Makes its default instead.
        aliases: Other names by which it may be given.
        short: Whether its names do without that of its section.
        page: The page of the documentation that explains it.
    """
    metadata = {"help": help, "aliases": aliases, "short": short, "page": page}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Option(NamedTuple):
    """An option as its field describes it.

    Attributes:
        name: Its own name.
        hint: Its type, with the rule in it.
        default: Its value where none is given; `MISSING` if one must be.
        help: What it means.
        aliases: Other names by which it may be given.
        short: Whether its names do without that of its section.
        page: The page of the documentation that explains it.
    """

    name: str
    hint: Any
    default: Any
    help: str = ""
    aliases: tuple[str, ...] = ()
    short: bool = False
    page: str | None = None


@functools.cache
def described(kind: type) -> Mapping[str, Option]:
    """Returns the options of a dataclass by name, in the order of its constructor.

    Where a subclass only gives an option another default, the rest is inherited.
    """
    hints: dict[str, Any] = {}
    metadata: dict[str, Mapping[str, Any]] = {}
    for base in reversed(kind.__mro__):
        for name, hint in typing.get_type_hints(base, include_extras=True).items():
            if rule_of(hint) is not None or rule_of(hints.get(name)) is None:
                hints[name] = hint
        for name, field in getattr(base, "__dataclass_fields__", {}).items():
            metadata[name] = field.metadata or metadata.get(name, {})
    return {
        field.name: Option(
            field.name, hints[field.name], _default(field), **metadata[field.name]
        )
        for field in sorted(dataclasses.fields(kind), key=lambda f: f.kw_only is True)
    }


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def hints(kind: type) -> dict[str, Any]:
    """Returns the type of every option by its name, with the rules in it."""
    return {name: option.hint for name, option in described(kind).items()}


@functools.cache
def aliases(kind: type) -> Mapping[str, str]:
    """Returns the option that each other name stands for."""
    return {
        alias: option.name
        for option in described(kind).values()
        for alias in option.aliases
    }


def own_names(kind: type, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns values under the own names of their options; other keys stay.

    Raises:
        ValueError: If one is given twice, under two names.
    """
    named: dict[str, Any] = {}
    for key, value in given.items():
        name = aliases(kind).get(str(key), key)
        if name in named:
            raise ValueError(f"{where}.{name} is given twice, once as {key}")
        named[name] = value
    return named


def rule_of(hint: Any) -> Rule | None:
    """Returns the rule of a type, None if it lets every value pass."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = typing.get_args(hint)
        rules = [rule for member in members if (rule := rule_of(member)) is not None]
        if len(rules) != 1 or len(members) != 2 or type(None) not in members:
            return None
        return Rule(lambda x: x is None or rules[0].holds(x), rules[0].claim)
    metadata = getattr(hint, "__metadata__", ())
    found = next((entry for entry in metadata if isinstance(entry, Rule)), None)
    return _FLAG if hint is bool else found


def check(config: Any, where: str = "", error: type[ValueError] = ValueError) -> None:
    """Raises for the first option of a dataclass whose value its type refuses.

    Numbers of any type become Python's own first.

    Args:
        config: The dataclass, in its `__post_init__`.
        where: What stands before an option's name in messages, such as `es.`.
        error: What is raised.
    """
    scalars.settle(config)
    for name, rule in _rules(type(config)).items():
        value = getattr(config, name)
        if not rule.holds(value):
            raise error(f"{where}{name} must be {rule.claim}, got {value!r}")


@functools.cache
def _rules(kind: type) -> Mapping[str, Rule]:
    found = {name: rule_of(hint) for name, hint in hints(kind).items()}
    return {name: rule for name, rule in found.items() if rule is not None}


def with_overrides(config: Config, overrides: Mapping[str, Any]) -> Config:
    """Returns the config with options replaced by name.

    Raises:
        UnknownOptionError: If a name is no option; names the nearest.
        ValueError: If a value is refused.
    """
    known = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    for name in overrides:
        if name not in known:
            raise unknown_option(type(config).__name__, name, known)
    return dataclasses.replace(config, **overrides)  # type: ignore[type-var]


def number(name: str, value: Any) -> float:
    """Returns the value of a traced number, which infinity may be, as in no limit.

    Raises:
        ValueError: If it is NaN, or no number.
    """
    plain = scalars.plain(value)
    is_number = isinstance(plain, int | float) and not isinstance(plain, bool)
    if not is_number or math.isnan(plain):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(plain)


def number_of(config: Any, option: str, name: str, value: Any) -> float:
    """Returns the value of a traced number that is an option of a config too.

    Args:
        config: The config; its type has the rule. Others than dataclasses have none.
        option: The option.
        name: What it is called in messages.
        value: The value.

    Raises:
        ValueError: If it is NaN, or no number, or the option cannot have it.
    """
    found = number(name, value)
    known = _rules(type(config)) if dataclasses.is_dataclass(config) else {}
    rule = known.get(option)
    if rule is not None and not rule.holds(scalars.whole(found)):
        raise ValueError(f"{name} must be {rule.claim}, got {value!r}")
    return found


def check_keywords(
    keywords: Iterable[tuple[str, Any, Any]], given: Mapping[str, Any]
) -> None:
    """Raises OptionError for the first keyword with a value that it cannot have.

    A keyword's type may have a rule. Without one, a number takes the place of a float,
    infinity too, as in no limit, and True or False that of a bool. Traced numbers pass.

    Args:
        keywords: Name, type and default of each.
        given: Values by name; names that are no keywords pass.
    """
    for name, hint, default in keywords:
        rule = _rule_of_keyword(hint, default)
        if name not in given or rule is None or is_traced(given[name]):
            continue
        if not rule.holds(scalars.plain(given[name])):
            said = f"{name} must be {rule.claim}, got {given[name]!r}"
            raise OptionError(said, name)


def check_whole_keywords(
    keywords: Iterable[tuple[str, Any, Any]], given: Mapping[str, Any]
) -> None:
    """Raises OptionError for the first keyword with no number in place of an int."""
    for name, _, default in keywords:
        value = given.get(name, default)
        fits = is_traced(value) or is_real(scalars.plain(value))
        if _is_whole(default) and not fits:
            raise OptionError(f"{name} must be a whole number, got {value!r}", name)


def keywords_of(kind: Any) -> list[tuple[str, Any, Any]]:
    """Returns name, type and default of the fields of a dataclass."""
    return [
        (field.name, field.type, field.default) for field in dataclasses.fields(kind)
    ]


def is_traced(value: Any) -> bool:
    """Returns whether a value is a number that is known only as a program runs."""
    from jax import core

    return isinstance(value, core.Tracer) and value.shape == ()


def _rule_of_keyword(hint: Any, default: Any) -> Rule | None:
    rule = rule_of(hint)
    if rule is not None or not isinstance(default, bool | float):
        return rule
    holds, claim = _FLAG if isinstance(default, bool) else Rule(_is_number, "a number")
    open_too = "None" in str(hint) or "Optional" in str(hint)
    return Rule(lambda x: (open_too and x is None) or holds(x), claim)


def documented(kind: type[Config]) -> type[Config]:
    """Adds a table of the options, their defaults and their meanings to a docstring."""
    rows = [
        (option.name, written(option.default), option.help)
        for option in described(kind).values()
        if option.help
    ]
    first = max(len(row[0]) for row in rows)
    second = max(len(row[1]) for row in rows)
    lines = ["", "Options, their defaults and their meanings:", ""]
    for name, default, help in rows:
        head = f"{name:<{first}}  {default:<{second}}  "
        lines += textwrap.wrap(
            help, WIDTH, initial_indent=head, subsequent_indent=" " * len(head)
        )
    text = textwrap.indent("\n".join(lines), "    ", lambda line: bool(line.strip()))
    kind.__doc__ = f"{(kind.__doc__ or '').rstrip()}\n{text}\n    "
    return kind


def written(default: Any) -> str:
    """Returns a default as tables show it: whole numbers with `_` between thousands."""
    if default is dataclasses.MISSING:
        return "required"
    if dataclasses.is_dataclass(default):
        return "its own"
    if _is_whole(default):
        return f"{default:_}"
    return str(default) or "''"
