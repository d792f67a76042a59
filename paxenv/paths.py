"""Places in the file system as users write them, and files that are always whole."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def local_path(place: str | os.PathLike[str]) -> Path:
    """Returns the path that is meant: a leading `~` is the home folder.

    Raises:
        TypeError: If it is neither a text nor a path.
    """
    if not isinstance(place, str | os.PathLike):
        raise TypeError(f"a folder or a file must be a text or a path, got {place!r}")
    return Path(place).expanduser()


def part_of(path: Path) -> Path:
    """Returns the name beside a file under which what replaces it is written."""
    return path.with_name(f".{path.name}.part")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Gives a file that takes the place of `path` when the block has ended well.

    Whoever reads `path` finds the old file or the new one, and never a part of it,
    also after a kill or a crash of the machine.
    """
    part = part_of(path)
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
