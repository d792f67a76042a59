"""Metrics as event files of TensorBoard.

Each metric has its own x axis, see `runners.storage.sinks.step_of`. Events are written
by this thread: after `flush` they are on the disk, which a writer with a queue of its
own does not promise.
"""

import collections
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from paxenv.paths import replacing
from runners.engine.metric_names import group
from runners.storage.sinks import (
    EVALUATION_GROUP,
    Position,
    is_surplus,
    scalars,
    step_of,
)

PATTERN = "events.out.tfevents.*"
#: Groups that are also drawn over iterations, under `<group>_vs_iter/`.
COPIED = ("train", "episode")
_HEADER = struct.Struct("<QI")
_FOOTER = 4


class TensorBoard:
    """A folder of event files; a sink."""

    def __init__(
        self,
        folder: Path,
        *,
        resume_from: Position | None = None,
        copies_vs_iteration: bool = False,
    ) -> None:
        """Opens a new event file.

        Args:
            folder: The folder; it is made if it is missing.
            resume_from: The position from which a run resumes; later events, which it
                will write again, are removed from the folder's files.
            copies_vs_iteration: Whether metrics of the groups `train` and `episode`
                are also drawn over iterations.
        """
        from tensorboardX.event_file_writer import EventsWriter

        folder.mkdir(parents=True, exist_ok=True)
        if resume_from is not None:
            seen: collections.Counter[str] = collections.Counter()
            for path in sorted(folder.glob(PATTERN)):
                truncate(path, resume_from, seen)
        self._copies = copies_vs_iteration
        # Two files made in the same second need different names that sort by age.
        suffix = f".{len(list(folder.glob(PATTERN))):04d}"
        self._events = EventsWriter(str(folder / "events"), suffix)
        if resume_from is not None:
            self._announce_restart(resume_from)

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log(
        self, env_steps: int, iteration: int, metrics: Mapping[str, ArrayLike]
    ) -> None:
        """Writes one event for each x axis."""
        named = scalars(metrics)
        if self._copies:
            named |= {
                name.replace("/", "_vs_iter/", 1): value
                for name, value in named.items()
                if group(name) in COPIED
            }
        steps: dict[int, dict[str, float]] = {}
        for name, value in named.items():
            steps.setdefault(step_of(name, env_steps, iteration), {})[name] = value
        for step, values in steps.items():
            self._events.write_event(_scalar_event(step, values))

    def flush(self) -> None:
        """Waits until everything logged so far is on the disk."""
        self._events.flush()

    def close(self) -> None:
        """Closes the event file."""
        self._events.close()

    def _announce_restart(self, resume_from: Position) -> None:
        """Makes a running TensorBoard discard later events that it has read."""
        protos = _protos()
        start = protos.SessionLog(status=protos.SessionLog.START)
        step = resume_from.env_steps + 1
        self._events.write_event(
            protos.Event(step=step, wall_time=time.time(), session_log=start)
        )
        self._events.flush()


def read_scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Returns (step, value) of every metric in the order of the files of a folder."""
    series: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(folder.glob(PATTERN)):
        for _, event in _events(path):
            for value in event.summary.value:
                series.setdefault(value.tag, []).append(
                    (event.step, value.simple_value)
                )
    return series


def truncate(path: Path, resume_from: Position, seen: collections.Counter[str]) -> None:
    """Removes later events and a torn end from an event file, atomically.

    Args:
        path: The file.
        resume_from: The position from which a run resumes.
        seen: The number of values of each metric of evaluations at this position in
            the files so far; this call adds to it.
    """

    def stays(event: Any) -> bool:
        for value in event.summary.value:
            now = step_of(value.tag, resume_from.env_steps, resume_from.iteration)
            if event.step == now and group(value.tag) == EVALUATION_GROUP:
                seen[value.tag] += 1
                if is_surplus(seen[value.tag], resume_from):
                    return False
            if event.step > now:
                return False
        return True

    with replacing(path) as new:
        for record, event in _events(path):
            if stays(event):
                new.write(record)


def _events(path: Path) -> Iterator[tuple[bytes, Any]]:
    """Yields whole records of an event file and the events in them.

    A record is a length of 8 bytes, its checksum of 4, the data, its checksum of 4.
    """
    parse = _protos().Event.FromString
    data = path.read_bytes()
    start = 0
    while start + _HEADER.size <= len(data):
        length, _ = _HEADER.unpack_from(data, start)
        body = start + _HEADER.size
        end = body + length + _FOOTER
        if end > len(data):
            return
        yield data[start:end], parse(data[body : body + length])
        start = end


def _scalar_event(step: int, values: Mapping[str, float]) -> Any:
    summary = {
        "value": [
            {"tag": name, "simple_value": value} for name, value in values.items()
        ]
    }
    return _protos().Event(step=step, wall_time=time.time(), summary=summary)


def _protos() -> Any:
    """Returns the message classes of event files, which type checkers do not know."""
    from tensorboardX.proto import event_pb2

    return event_pb2
