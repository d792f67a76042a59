"""Places in the file system as users write them."""

import os
from pathlib import Path


def local_path(place: str | os.PathLike[str]) -> Path:
    """Returns the path that is meant: a leading `~` is the home folder.

    Raises:
        TypeError: If it is neither a text nor a path.
    """
    return Path(place).expanduser()
