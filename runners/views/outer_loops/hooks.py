"""Components inside an inner loop: they see its numbers and set hyperparameters."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from paxenv_agents.types import Hyperparameters

#: When a hook is called: before an iteration of the inner loop, or after its update.
EVENTS = ("pre_update", "post_update")
#: How long a hook's state lives: one inner loop, or all of a run.
SCOPES = ("loop", "run")


class HookContext(NamedTuple):
    """What a hook sees.

    Attributes:
        hyper: The learner's hyperparameters by name, float32 scalars.
        metrics: The numbers of the iteration, float32 scalars by name; of the one
            before with `pre_update`, NaN before the first.
        iteration: The iteration's number in this inner loop, from 0. int32.
    """

    hyper: Hyperparameters
    metrics: dict[str, jax.Array]
    iteration: jax.Array


@dataclasses.dataclass(frozen=True)
class Hook:
    """A pure function that is called in every iteration of inner loops.

    It runs inside the compiled loop, so what it does depends on its arguments alone.
    Where a population is trained side by side, every individual has a copy of the
    state, and that of the best individual is what the next generation finds.

    Attributes:
        init: Returns the state before the first call, a pytree of arrays.
        call: `(state, context) -> (state, hyper)`, where `hyper` are hyperparameters
            to change.
        event: When: one of `EVENTS`.
        scope: How long the state lives: `"loop"` begins afresh in every inner loop,
            `"run"` goes on from one inner loop to the next.
    """

    init: Callable[[], Any]
    call: Callable[[Any, HookContext], tuple[Any, Mapping[str, Any]]]
    event: str = "post_update"
    scope: str = "loop"

    def __post_init__(self) -> None:
        for field, known in (("event", EVENTS), ("scope", SCOPES)):
            if getattr(self, field) not in known:
                raise ValueError(
                    f"{field} of a hook must be one of {', '.join(known)}, got "
                    f"{getattr(self, field)!r}"
                )


def begin(hooks: tuple[Hook, ...], carried: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the states with which an inner loop opens.

    Args:
        hooks: The hooks.
        carried: Their states at the end of the inner loop before.
    """
    return tuple(
        state if hook.scope == "run" else hook.init()
        for hook, state in zip(hooks, carried, strict=True)
    )


def call(
    hooks: tuple[Hook, ...], event: str, states: tuple[Any, ...], context: HookContext
) -> tuple[tuple[Any, ...], Hyperparameters]:
    """Calls the hooks of an event in order and returns (states, hyperparameters).

    Raises:
        ValueError: If a hook sets what is no hyperparameter.
    """
    hyper, after = dict(context.hyper), []
    for hook, state in zip(hooks, states, strict=True):
        if hook.event == event:
            state, changed = hook.call(state, context._replace(hyper=dict(hyper)))
            unknown = sorted(set(changed) - set(hyper))
            if unknown:
                raise ValueError(
                    f"a hook sets {', '.join(unknown)}: the hyperparameters are "
                    f"{', '.join(sorted(hyper))}"
                )
            for name, value in changed.items():
                hyper[name] = jax.numpy.asarray(value, hyper[name].dtype)
        after.append(state)
    return tuple(after), hyper
