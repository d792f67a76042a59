"""Ctrl-C and SIGTERM, which wait until nothing is lost by them."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While it is open, the first signal only sets `requested`; a second one kills."""

    def __init__(self) -> None:
        self.requested = False
        self._old: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self._old = {s: signal.signal(s, self._request) for s in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _request(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self._old = {}


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Puts a Ctrl-C off to the end of the block.

    While JAX traces and compiles, an exception that is raised between two instructions
    can be lost in one of its callbacks, or leave its threads at work.
    """
    with Interrupt() as interrupt:
        yield
    if interrupt.requested:
        raise KeyboardInterrupt
