"""Options of learners: the values they may have, and how they are given by name."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

from paxenv import scalars
from paxenv.registry import unknown_option
from paxenv_agents.networks import distributions, feed_forward

Config = TypeVar("Config")


class Rule(NamedTuple):
    """Which values an option may have.

    Attributes:
        holds: Whether a value is one of them.
        claim: What they are, to be read after "must be".
        optional: Whether None is one too.
    """

    holds: Callable[[Any], bool]
    claim: str
    optional: bool = False

    def or_none(self) -> "Rule":
        """Returns the rule that also allows None."""
        return self._replace(optional=True)


def check(config: Any, rules: Mapping[str, Rule]) -> None:
    """Raises ValueError for the first option of a dataclass that breaks its rule.

    Numbers of any type become Python's own first.
    """
    scalars.settle(config)
    for field in dataclasses.fields(config):
        value, rule = getattr(config, field.name), rules[field.name]
        if value is None and rule.optional:
            continue
        if not rule.holds(value):
            raise ValueError(f"{field.name} must be {rule.claim}, got {value!r}")


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


def one_of(names: Iterable[str]) -> Rule:
    """Returns the rule of an option that is one of some names."""
    known = tuple(names)
    return Rule(lambda x: x in known, f"one of {known}")


def is_real(value: Any) -> bool:
    """Returns whether a value is a finite number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def is_count(value: Any) -> bool:
    """Returns whether a value is a whole number of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _are_widths(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(map(is_count, value))


COUNT = Rule(is_count, "a whole number >= 1")
SHARE = Rule(lambda x: is_real(x) and 0 <= x <= 1, "a number in [0, 1]")
WEIGHT = Rule(lambda x: is_real(x) and x >= 0, "a finite number >= 0")
POSITIVE = Rule(lambda x: is_real(x) and x > 0, "a finite number > 0")
FLAG = Rule(lambda x: isinstance(x, bool), "True or False")
WIDTHS = Rule(_are_widths, "a sequence of whole numbers >= 1")
ACTIVATION = one_of(feed_forward.ACTIVATIONS)


RULES: dict[str, Rule] = {
    "activation": ACTIVATION,
    "shared_torso": FLAG,
    "tabular": FLAG,
    "action_scale": one_of(distributions.SCALES),
    "action_bound": one_of(distributions.BOUNDS),
    "conv_channels": WIDTHS,
    "kernel_size": COUNT,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Options of networks that all actor-critics have; `PPOConfig` explains each one.

    Their widths, `hidden_sizes`, have a default of each learner's own.
    """

    activation: str = "tanh"
    shared_torso: bool = False
    tabular: bool = False
    action_scale: str = "state_independent"
    action_bound: str = "squashed"
    conv_channels: tuple[int, ...] = (16, 16)
    kernel_size: int = 3

    #: By option, those of subclasses too.
    rules: ClassVar[Mapping[str, Rule]] = RULES

    def __post_init__(self) -> None:
        check(self, self.rules)
        object.__setattr__(self, "conv_channels", tuple(self.conv_channels))

    def check_plan(self) -> None:
        """Raises ValueError if something ends with a plan and there is no plan."""
