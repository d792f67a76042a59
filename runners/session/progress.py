"""One line about the progress of a run: on a terminal, in a notebook, or in a pipe.

It goes to standard error. On a terminal and in a notebook it is one line that changes;
elsewhere a line is written every ten seconds, or none.
"""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

#: Where a line can be shown.
TERMINAL, NOTEBOOK, PIPE = "terminal", "notebook", "pipe"
#: Seconds between two looks at the line, by where it is shown.
REFRESH = {TERMINAL: 0.5, NOTEBOOK: 1.0, PIPE: 0.5}
#: Seconds between two lines in a pipe.
PIPE_INTERVAL = 10.0
#: Seconds without progress after which the line explains itself.
PATIENCE = 60.0
#: What a run does, and what there is to know if it takes long.
STAGES = {
    "preparing": "weights and games are being made, which compiles a program",
    "compiling": "XLA compiles all of it once, long for large networks or many seeds",
    "running": "an iteration is being played and learnt from, or rows are being saved",
    "evaluating": "games are played without learning, which compiles a program",
    "finishing": "the last evaluation is being compiled and played, or files are saved",
}

_active = threading.Lock()


def place_of(stream: Any) -> str:
    """Returns the kind of place to which a stream writes.

    A command that a notebook starts has a terminal of its own, but what it writes
    there is kept: it counts as a pipe.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return NOTEBOOK
    dumb = os.environ.get("TERM") == "dumb" or "JPY_PARENT_PID" in os.environ
    return TERMINAL if stream.isatty() and not dumb else PIPE


@contextlib.contextmanager
def shown(title: str, total: int, *, asked: bool = True) -> Iterator["Line"]:
    """Shows a line on a terminal or in a notebook, unless another line is shown.

    Args:
        title: What runs.
        total: Iterations to the end.
        asked: False shows nothing.
    """
    line = Line(title, total)
    watched = asked and line.place != PIPE
    with line if watched else contextlib.nullcontext():
        yield line


class Line:
    """A line about a run.

    As a context it is shown, by a thread of its own. Inside another line's context it
    stays silent.

    Attributes:
        place: The kind of place where it is shown.
    """

    def __init__(
        self,
        title: str,
        total: int,
        *,
        stream: TextIO | None = None,
        place: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes a line; nothing is shown yet.

        Args:
            title: What runs.
            total: Iterations to the end.
            stream: Where it is written; None: standard error.
            place: One of `TERMINAL`, `NOTEBOOK` and `PIPE`; None: found out.
            clock: Returns seconds.
        """
        self._title, self._total = title, total
        self._stream = sys.stderr if stream is None else stream
        self.place = place or place_of(self._stream)
        self._clock = clock
        self._stage, self._detail, self._note = "preparing", "", ""
        self._done: int | None = None
        self._began = self._news = self._written = clock()
        self._first: tuple[float, int] | None = None
        self._width = 0
        self._cell: Any = None
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._silent = False

    def __enter__(self) -> "Line":
        self._silent = not _active.acquire(blocking=False)
        if not self._silent:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with self._lock:
            self._clear()
        if not self._silent:
            _active.release()

    def doing(self, stage: str, what: str = "") -> None:
        """Notes what the run does now.

        Args:
            stage: A key of `STAGES`.
            what: The object of the stage, such as `"training"`.
        """
        with self._lock:
            self._stage, self._detail, self._news = stage, what, self._clock()

    def advance(self, done: int, total: int | None = None, note: str = "") -> None:
        """Notes how far the run is.

        Args:
            done: Iterations so far.
            total: Iterations to the end, where it has changed.
            note: Measurements of the last one.
        """
        with self._lock:
            self._done, self._note, self._news = done, note, self._clock()
            self._total = self._total if total is None else total
            self._stage, self._detail = "running", ""
            if done >= self._total:
                self._stage = "finishing"
            self._first = self._first or (self._news, done)

    def text(self) -> str:
        """Returns the line as it is now."""
        now, parts = self._clock(), []
        if self._done is None:
            parts.append(f"{self._stage} {self._detail}".rstrip())
        else:
            share = self._done / max(self._total, 1)
            parts.append(f"{share:.0%} ({self._done:,} of {self._total:,})")
        parts.append(span(now - self._began))
        left = self._left(now)
        parts += [f"about {span(left)} left"] if left is not None else []
        if self._done is not None and self._stage in ("evaluating", "finishing"):
            parts.append(self._stage)
        parts += [self._note] if self._note else []
        if now - self._news >= PATIENCE:
            parts.append(f"no news for {span(now - self._news)}: {STAGES[self._stage]}")
        return f"{self._title}: {', '.join(parts)}"

    def refresh(self) -> None:
        """Writes the line, if it is time for it where it is shown."""
        with self._lock:
            if self._silent or self._ended.is_set():
                return
            if self.place == PIPE:
                self._write_in_time()
            elif self.place == NOTEBOOK:
                self._show_cell(self.text())
            else:
                room = shutil.get_terminal_size().columns - 1
                self._overwrite(self.text()[:room])

    def interrupted(self, write: Callable[[], None]) -> None:
        """Calls a function that writes to the same place, between two updates."""
        with self._lock:
            self._clear()
            write()

    def _left(self, now: float) -> float | None:
        """Returns the seconds to the end, None where nothing tells them."""
        if self._first is None or self._done is None:
            return None
        (since, before), done = self._first, self._done
        if done <= before or done >= self._total:
            return None
        rate = (self._news - since) / (done - before)
        return max(rate * (self._total - done) - (now - self._news), 0.0)

    def _watch(self) -> None:
        while not self._ended.wait(REFRESH[self.place]):
            # A stream that was closed under it ends the line, not the run.
            with contextlib.suppress(OSError, ValueError):
                self.refresh()

    def _write_in_time(self) -> None:
        now = self._clock()
        if now - self._written >= PIPE_INTERVAL:
            self._written = now
            self._stream.write(self.text() + "\n")
            self._stream.flush()

    def _overwrite(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def _clear(self) -> None:
        if self._width:
            with contextlib.suppress(OSError, ValueError):
                self._overwrite("")
                self._stream.write("\r")
                self._stream.flush()

    def _show_cell(self, text: str) -> None:
        display: Any = sys.modules["IPython"].display
        shown = {"text/plain": text}
        if self._cell is None:
            self._cell = display.display(shown, raw=True, display_id=True)
        else:
            self._cell.update(shown, raw=True)


def span(seconds: float) -> str:
    """Returns a span of time in words, such as `1 min 05 s`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
