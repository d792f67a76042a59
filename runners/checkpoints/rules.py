"""The rules of checkpoints: how a run starts where some are, and which are kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from paxenv.paths import local_path
from runners.checkpoints import files

StartRule = Literal["fresh", "resume", "overwrite"]


def start_rule(
    directory: str | Path, *, resume: bool = False, overwrite: bool = False
) -> StartRule:
    """Returns how a run that saves to `directory` starts.

    | there are checkpoints | resume | overwrite | neither |
    |---|---|---|---|
    | no | fresh | fresh | fresh |
    | yes | resume | overwrite | refused |

    A folder that exists but holds no whole checkpoint is a fresh start.

    Args:
        directory: The folder of checkpoints, or the run directory.
        resume: Whether to go on from what is there.
        overwrite: Whether to delete it (`CheckpointStore.clear`).

    Raises:
        ValueError: If both are asked for.
        FileExistsError: If there are checkpoints and neither is asked for.
    """
    if resume and overwrite:
        raise ValueError("resume and overwrite exclude each other: choose one")
    folder = local_path(directory).resolve()
    folder = files.checkpoints_folder(folder) if folder.is_dir() else folder
    if not files.has_any(folder):
        return "fresh"
    if resume:
        return "resume"
    if overwrite:
        return "overwrite"
    raise FileExistsError(
        f"{files.stock(folder)}: resume=True goes on from them, overwrite=True deletes "
        "them, or name another folder"
    )


def kept_steps(
    steps: Sequence[int],
    max_to_keep: int | None,
    keep_period: int | None,
    best: int | None = None,
) -> set[int]:
    """Returns which of the saved steps are kept.

    A period is due when it is crossed, not when a step is a multiple of it: the first
    checkpoint at or after each multiple of `keep_period` is kept.
    """
    ordered = sorted(steps)
    if max_to_keep is None:
        return set(ordered)
    kept = set(ordered[-max_to_keep:])
    if keep_period is not None:
        firsts: dict[int, int] = {}
        for step in ordered:
            firsts.setdefault(step // keep_period, step)
        kept |= {step for period, step in firsts.items() if period > 0}
    return kept if best is None else kept | {best}
