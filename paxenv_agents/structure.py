"""Compiled functions of agents with traced numbers, which share their programs.

An agent is a static argument of the programs that it plays in, and its options are part
of it. Some options determine the program: a width, a number of steps. Others only enter
its arithmetic: a learning rate, a discount. `jit` takes the latter out of what is
static and hands them over as arrays, so that agents which differ in nothing else share
a program. Whatever holds agents is treated alike: slots, games with co-players,
experiments.
"""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

import jax
import numpy as np
from flax import linen as nn
from jax import core

P = ParamSpec("P")
R = TypeVar("R")
Method = TypeVar("Method", bound=Callable[..., Any])
#: `(agent, config) -> names` of some fields of the config.
Named = Callable[[Any, Any], set[str]]


class _Number:
    """Stands in a structure where a number was."""

    def __repr__(self) -> str:
        return "a traced number"


NUMBER = _Number()


def split(value: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns (structure, numbers) of something static that holds agents.

    Structures of values that compile to the same program are equal. Nothing but `merge`
    should be done with one.

    Args:
        value: Frozen dataclasses and tuples, in any depth. The numbers of an agent in
            it are the options that its `traced_options` names.
    """
    numbers: list[Any] = []

    def taken(number: Any) -> _Number:
        numbers.append(_scalar(number))
        return NUMBER

    return _mapped(value, taken, _options), tuple(numbers)


def merge(structure: Any, numbers: tuple[Any, ...] | None = None) -> Any:
    """Returns what was split, with these numbers; None puts a 0 everywhere.

    A value that is merged with traced numbers cannot be hashed or compared.
    """
    left: Iterator[Any] | None = None if numbers is None else iter(numbers)
    return _mapped(structure, lambda _: 0.0 if left is None else next(left), _places)


def of(value: Any) -> Any:
    """Returns the structure alone."""
    return split(value)[0]


class Compiled(Generic[P, R]):
    """A function whose static arguments are compared by structure; see `jit`."""

    def __init__(
        self,
        fun: Callable[P, R],
        static: tuple[str, ...],
        donate: tuple[str, ...],
        options: dict[str, Any],
    ) -> None:
        functools.update_wrapper(self, fun)
        self._signature = inspect.signature(fun)
        self._static, self._donate = static, donate

        def run(
            structures: Any, numbers: Any, donated: dict[str, Any], rest: dict[str, Any]
        ) -> Any:
            call: Any = fun
            return call(**dict(merge(structures, numbers)), **donated, **rest)

        run.__name__ = run.__qualname__ = fun.__name__
        self._run = run
        self._jitted = self._compiling(options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._jitted(*self._arguments(args, kwargs))

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> "Lowered[P, R]":
        """Returns the traced program for arguments like these."""
        lowered = self._jitted.lower(*self._arguments(args, kwargs))
        return Lowered(lowered, self._arguments)

    def with_options(self, **options: Any) -> "Compiled[P, R]":
        """Returns the function with more options of `jax.jit`."""
        # The same function beneath, so that JAX knows what it has compiled.
        other = copy.copy(self)
        other._jitted = self._compiling(options)
        return other

    def _compiling(self, options: dict[str, Any]) -> Any:
        return jax.jit(self._run, static_argnums=0, donate_argnums=2, **options)

    def _cache_size(self) -> int:
        return self._jitted._cache_size()

    def _arguments(self, args: Any, kwargs: Any) -> tuple[Any, ...]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        static = tuple((name, given.pop(name)) for name in self._static)
        donated = {name: given.pop(name) for name in self._donate}
        return *split(static), donated, dict(given)


class Lowered(Generic[P, R]):
    """A traced program that can be compiled."""

    def __init__(self, lowered: Any, arguments: Callable[..., Any]) -> None:
        self._lowered, self._arguments = lowered, arguments

    def compile(self) -> Callable[P, R]:
        """Returns the compiled program; static arguments are given but not read."""
        compiled = self._lowered.compile()

        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            return compiled(*self._arguments(args, kwargs)[1:])

        return run


def jit(
    *static: str, donate: tuple[str, ...] = (), **options: Any
) -> Callable[[Callable[P, R]], Compiled[P, R]]:
    """Returns a decorator: `jax.jit` with static arguments compared by structure.

    Args:
        static: Names of the static arguments.
        donate: Names of the arguments whose buffers may be used up.
        **options: More of `jax.jit`.

    Example:
        >>> @structure.jit("agent")
        ... def act(agent, state, obs, memory):
        ...     return agent.batch_policy(state, obs, memory)
    """
    return lambda fun: Compiled(fun, static, donate, options)


def compiled_method(method: Method) -> Method:
    """Makes a method of an agent that holds a loop compile once, however it is called.

    The body of a loop is a new function at every call, so outside of `jit` JAX would
    compile it anew each time. Called with arrays the method is compiled for the agent,
    compared by structure; called inside `jit`, `vmap` or `grad` it is what it was.

    Args:
        method: A method whose arguments but the agent are pytrees of arrays.
    """
    compiled: Any = Compiled(method, ("self",), (), {})

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        leaves = jax.tree.leaves((args, kwargs))
        if any(isinstance(leaf, core.Tracer) for leaf in leaves):
            return method(self, *args, **kwargs)
        return compiled(self, *args, **kwargs)

    return called  # type: ignore[return-value]


def _mapped(value: Any, change: Callable[[Any], Any], named: Named) -> Any:
    """Returns the value with the numbers of its agents changed, in a fixed order.

    Args:
        value: What `split` takes, or its structure.
        change: Given a number, returns what takes its place.
        named: Given an agent or a dataclass of another kind, and its config, returns
            the names of the numbers.
    """
    if type(value) is tuple:
        parts = tuple(_mapped(part, change, named) for part in value)
        same = all(a is b for a, b in zip(parts, value, strict=True))
        return value if same else parts
    if not dataclasses.is_dataclass(value) or isinstance(value, type | nn.Module):
        return value
    parts = {name: _mapped(part, change, named) for name, part in _fields(value)}
    config = parts.get("config")
    if dataclasses.is_dataclass(config):
        names = named(value, config)
        own = {n: change(x) for n, x in _fields(config) if n in names}
        parts["config"] = _replaced(config, own)
    return _replaced(
        value, {n: x for n, x in parts.items() if x is not getattr(value, n)}
    )


def _options(agent: Any, config: Any) -> set[str]:
    """Returns the options of an agent that are traced and have a number."""
    options = getattr(agent, "traced_options", ())
    return {name for name in options if _is_number(getattr(config, name, None))}


def _places(agent: Any, config: Any) -> set[str]:
    """Returns where in a structure there were numbers."""
    del agent
    return {name for name, value in _fields(config) if value is NUMBER}


def _fields(value: Any) -> list[tuple[str, Any]]:
    return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]


def _replaced(value: Any, changed: dict[str, Any]) -> Any:
    """Returns a dataclass with other fields, unchecked: checks know no traced ones."""
    if not changed:
        return value
    new = object.__new__(type(value))
    kept = {n: x for n, x in vars(value).items() if not _is_cache(type(value), n)}
    for name, part in {**kept, **changed}.items():
        object.__setattr__(new, name, part)
    return new


def _is_cache(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), functools.cached_property)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float | np.generic | jax.Array)


def _scalar(value: Any) -> Any:
    """Returns a number as what a program takes, of one dtype however it was written."""
    return value if isinstance(value, jax.Array) else np.float32(value)
