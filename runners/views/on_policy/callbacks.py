"""Events of an `OnPolicyRunner`, and their callbacks."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

logger = logging.getLogger(__name__)


#: Events of every iteration, in the order in which they happen.
ITERATION_EVENTS = (
    "pre_iteration",
    "pre_rollout",
    "post_rollout",
    "pre_update",
    "post_update",
    "post_iteration",
)
#: Events between the stages of an iteration, which need the stages run one by one.
STAGE_EVENTS = ITERATION_EVENTS[1:-1]
EVENTS = (*ITERATION_EVENTS, "on_log", "on_eval", "on_checkpoint", "on_stop")
ON_ERROR = ("raise", "warn")


class Callback(NamedTuple):
    """One function that is called at an event.

    Attributes:
        call: The function.
        every: Iterations between two calls.
    """

    call: Callable[..., Any]
    every: int


class Callbacks:
    """Functions by event, called in the order in which they were added.

    Attributes:
        on_error: `"raise"` lets their exceptions through, `"warn"` logs exceptions
            with their traceback and continues.
    """

    def __init__(self, on_error: str = "raise") -> None:
        if on_error not in ON_ERROR:
            raise ValueError(
                f"on_callback_error must be one of {', '.join(ON_ERROR)}, got "
                f"{on_error!r}"
            )
        self.on_error = on_error
        self._waiting: dict[str, list[Callback]] = {event: [] for event in EVENTS}

    def add(self, event: str, call: Callable[..., Any], every: int = 1) -> None:
        """Adds a function to be called whenever an event happens.

        Args:
            event: One of `EVENTS`.
            call: The function, which takes the arguments of the event.
            every: Iterations between two calls, counted from the start of training.

        Raises:
            ValueError: If there is no such event, or `every` is below 1.
            TypeError: If `call` cannot be called.
        """
        if event not in self._waiting:
            raise ValueError(
                f"there is no event {event!r}; the events are {', '.join(EVENTS)}"
            )
        if not callable(call):
            raise TypeError(f"a callback must be callable, got {call!r}")
        if every < 1:
            raise ValueError(f"every must be >= 1, got {every}")
        self._waiting[event].append(Callback(call, every))

    def intervals(self, event: str) -> list[int]:
        """Returns the different `every` of an event's functions."""
        return sorted({callback.every for callback in self._waiting[event]})

    @property
    def need_stages(self) -> bool:
        """Whether a function is called between the stages of an iteration."""
        return any(self._waiting[event] for event in STAGE_EVENTS)

    def fire(self, event: str, count: int, *told: Any) -> None:
        """Calls the functions that are due.

        Args:
            event: The name of the event.
            count: Its number; a function is called where `every` divides it.
            *told: The arguments.
        """
        for callback in self._waiting[event]:
            if count % callback.every:
                continue
            try:
                callback.call(*told)
            except Exception:
                if self.on_error == "raise":
                    raise
                logger.exception("a callback of %s has failed", event)
