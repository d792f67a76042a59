"""Search targets: names, ranges, and the map from free numbers to values.

Starts no JAX, since the reading of configs needs it.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from paxenv.suggestions import closest, suggestion

#: The search target that stands for all numbers of the policy.
PARAMETERS = "parameters"
#: The prefix of names of numbers of the game.
ENV = "env."
SCALES = ("linear", "log", "int", "choice")

#: Other names of hyperparameters.
ALIASES = {
    "_batch_size": "batch_size",
    "n_units": "hidden_sizes",
    "lr": "learning_rate",
    "ent_coef": "entropy_coeff",
    "entropy_weight": "entropy_coeff",
    "vf_coef": "value_coeff",
    "clip_eps": "clip_epsilon",
    "epsilon": "epsilon_start",
}


@dataclasses.dataclass(frozen=True)
class SearchDim:
    """One search target and its possible values.

    Attributes:
        name: A hyperparameter of the agent, such as `learning_rate`; one of its other
            options, such as `batch_size`; or a number of the game, `env.gravity`. An
            array of the game, `env.payoff_matrix`, is searched number by number.
        low: The lowest value.
        high: The highest value.
        scale: `"linear"`; `"log"`, where equal ratios are equal steps; `"int"`, whole
            numbers with both ends; `"choice"`, one of `choices`.
        choices: The values of a choice, in an order in which neighbours are similar.
    """

    name: str
    low: float | None = None
    high: float | None = None
    scale: str = "linear"
    choices: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"the name of a search target must be a text, got {self}")
        object.__setattr__(self, "choices", tuple(self.choices))
        for end in ("low", "high"):
            given = getattr(self, end)
            if given is None:
                continue
            try:
                # YAML reads 1e-4 as a text.
                object.__setattr__(self, end, float(given))
            except (TypeError, ValueError):
                raise ValueError(
                    f"{end} of {self.name} must be a number, got {given!r}"
                ) from None
        if self.scale not in SCALES:
            raise ValueError(
                f"the scale of {self.name} must be one of {', '.join(SCALES)}, got "
                f"{self.scale!r}"
            )
        if self.scale == "choice":
            self._check_choices()
        else:
            self._check_range()

    def _check_choices(self) -> None:
        if self.low is not None or self.high is not None:
            raise ValueError(f"{self.name} has choices, so it has no low and high")
        if len(self.choices) < 2 or len(set(self.choices)) < len(self.choices):
            raise ValueError(
                f"{self.name} needs at least two different choices, got "
                f"{list(self.choices)}"
            )

    def _check_range(self) -> None:
        low, high = self.low, self.high
        if self.choices:
            raise ValueError(f"{self.name} has choices: give scale='choice'")
        if low is None or high is None or not math.isfinite(low) or not low < high:
            raise ValueError(
                f"{self.name} needs low < high, got low={low!r}, high={high!r}"
            )
        if not math.isfinite(high):
            raise ValueError(f"{self.name} needs a finite high, got {high!r}")
        if self.scale == "log" and low <= 0:
            raise ValueError(
                f"{self.name} has a log scale: low must be > 0, got {low!r}"
            )
        if self.scale == "int" and (low != int(low) or high != int(high)):
            raise ValueError(
                f"{self.name} is a whole number: low and high must be too, got "
                f"{low!r} and {high!r}"
            )

    @property
    def target(self) -> str:
        """The name in the agent or the game, without aliases."""
        return ALIASES.get(self.name, self.name)

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of a whole number or a choice, in order."""
        if self.scale == "choice":
            return self.choices
        if self.scale == "int":
            return tuple(range(int(self.low or 0), int(self.high or 0) + 1))
        raise ValueError(f"{self.name} is searched over a range, not over a list")

    def value(self, z: Any, xp: Any = math) -> Any:
        """Returns the value at `z`, any real number; 0 is the middle of the range.

        Args:
            z: A number, or an array of `xp`.
            xp: `math`, or `jax.numpy` for arrays and traced numbers. A choice is then
                its place in `choices`.
        """
        share = 0.5 * (xp.tanh(0.5 * z) + 1.0)
        if self.scale in ("int", "choice"):
            count = len(self.values)
            # The share may round to 1, which is the highest place too.
            place = xp.floor(share * count)
            if xp is math:
                return self.values[min(int(place), count - 1)]
            place = xp.minimum(place, count - 1)
            return place if self.scale == "choice" else place + self.values[0]
        low, high = float(self.low or 0.0), float(self.high or 0.0)
        if self.scale == "log":
            low, high = math.log(low), math.log(high)
            # Rounding must not carry a value out of its range.
            value = xp.exp(low + share * (high - low))
        else:
            value = low + share * (high - low)
        if xp is math:
            return min(max(value, float(self.low or 0.0)), float(self.high or 0.0))
        return xp.clip(value, self.low, self.high)

    def place(self, value: Any, margin: float = 0.02) -> float:
        """Returns the `z` of a value, or of the nearest value in the range.

        Args:
            value: A value; anything but a number stands for the middle.
            margin: The smallest distance to an end, as a share of the range.
        """
        share = self._share(value)
        share = min(max(share, margin), 1.0 - margin)
        return math.log(share / (1.0 - share))

    def _share(self, value: Any) -> float:
        if self.scale in ("int", "choice"):
            if value in self.values:
                return (self.values.index(value) + 0.5) / len(self.values)
            if self.scale == "choice":
                return 0.5
        if isinstance(value, bool) or not isinstance(value, int | float):
            return 0.5
        if math.isnan(value):
            return 0.5
        low, high = float(self.low or 0.0), float(self.high or 0.0)
        value = min(max(float(value), low), high)
        if self.scale == "log":
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)


#: Default ranges, for targets that are given by name alone.
DEFAULTS = {
    dim.name: dim
    for dim in (
        SearchDim("learning_rate", 1e-5, 1e-1, "log"),
        SearchDim("entropy_coeff", 1e-5, 1e-1, "log"),
        SearchDim("value_coeff", 0.1, 1.0),
        SearchDim("gamma", 0.9, 0.999),
        SearchDim("gae_lambda", 0.8, 1.0),
        SearchDim("max_grad_norm", 0.1, 10.0, "log"),
        SearchDim("clip_epsilon", 0.05, 0.4),
        SearchDim("epsilon_start", 0.05, 1.0),
        SearchDim("tau", 1e-3, 1.0, "log"),
        SearchDim("batch_size", scale="choice", choices=(32, 64, 128, 256)),
        SearchDim("hidden_sizes", scale="choice", choices=(16, 32, 64, 128)),
    )
}

Target = str | SearchDim


def dims_of(targets: tuple[Target, ...]) -> tuple[SearchDim, ...]:
    """Returns the dimensions of search targets, without `"parameters"`.

    Raises:
        ValueError: If a target has no range or is repeated, or there is no target.
    """
    if not targets:
        raise ValueError(
            "search_targets is empty: name 'parameters', hyperparameters such as "
            "'learning_rate', or numbers of the game such as SearchDim('env.gravity', "
            "low, high)"
        )
    dims = tuple(_dim(target) for target in targets if target != PARAMETERS)
    names = [dim.target for dim in dims]
    names += [PARAMETERS for target in targets if target == PARAMETERS]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"search_targets name {', '.join(twice)} twice")
    return dims


def parse_target(text: str) -> Target:
    """Returns the search target of a text.

    `parameters`, `learning_rate`, `learning_rate:1e-4:1e-1:log`,
    `batch_size:32,64,128`, `env.gravity:5:15`.

    Raises:
        ValueError: If it has none of these forms.
    """
    name, *rest = (part.strip() for part in text.split(":"))
    if not rest:
        return name
    try:
        if len(rest) == 1 and "," in rest[0]:
            choices = tuple(_number(word) for word in rest[0].split(","))
            return SearchDim(name, scale="choice", choices=choices)
        if len(rest) in (2, 3):
            scale = rest[2] if len(rest) == 3 else "linear"
            return SearchDim(name, _number(rest[0]), _number(rest[1]), scale)
    except ValueError as error:
        raise ValueError(f"search target {text!r}: {error}") from error
    raise ValueError(
        f"search target {text!r}: expected NAME, NAME:LOW:HIGH, NAME:LOW:HIGH:SCALE or "
        "NAME:VALUE,VALUE"
    )


def target_of(value: Any) -> Target:
    """Returns the search target of a text, a mapping of fields, or a target itself."""
    if isinstance(value, SearchDim):
        return value
    if isinstance(value, str):
        return parse_target(value)
    if isinstance(value, Mapping):
        known = [field.name for field in dataclasses.fields(SearchDim)]
        for name in value:
            if name not in known:
                near = closest(str(name), known)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"a search target has no field {name!r}{hint}")
        if "name" in value:
            return SearchDim(**value)
    raise ValueError(
        "a search target is a name, or a mapping with name, low and high, got "
        f"{value!r}"
    )


def _dim(target: Target) -> SearchDim:
    target = target_of(target)
    if isinstance(target, SearchDim):
        return target
    name = ALIASES.get(target, target)
    if name in DEFAULTS:
        return dataclasses.replace(DEFAULTS[name], name=target)
    hint = suggestion(target, (PARAMETERS, *DEFAULTS, *ALIASES))
    raise ValueError(
        f"the search target {target!r} has no range of its own{hint} To give one: "
        f"SearchDim({target!r}, low, high), or {target}:LOW:HIGH"
    )


def _number(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word.strip()
