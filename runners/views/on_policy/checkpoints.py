"""Checkpoints of an `OnPolicyRunner`: which one is meant, and what it must fit."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from paxenv_agents.agent import Agent
from runners.engine.program import StagedProgram
from runners.session.session import Session
from runners.storage.checkpoints import files, settings, tree
from runners.storage.checkpoints.files import (
    CheckpointError,
    DamagedError,
    NoCheckpointError,
    find_checkpoint,
    read_record,
)
from runners.storage.checkpoints.store import CheckpointStore
from runners.storage.checkpoints.tree import read_arrays

FINAL = "checkpoint_final.pt"
#: Where the learner's state is in a checkpoint: of a runner, of `train_*`.
LEARNER = ("outer/agents/0/", "run/outer/agents/0/")
#: What may differ when a training goes on: how long it is.
FREE = ("agent.config.num_updates",)

logger = logging.getLogger(__name__)

Which = int | str | os.PathLike[str]


def chosen(store: CheckpointStore | None, which: Which) -> list[Path]:
    """Returns the path of the checkpoint that is meant.

    After the latest come those before it, for the case that it is damaged.

    Args:
        store: The runner's own checkpoints; None: it has none.
        which: A name, the environment steps, a path, "latest" (most environment steps,
            named or not) or "best".

    Raises:
        NoCheckpointError: If there is none.
    """
    if store is None:
        if isinstance(which, int) or which in (files.LATEST, files.BEST):
            raise NoCheckpointError(
                f"there is no place to look for {which!r}: give OnPolicyRunner a "
                "save_dir or a log_dir, or load_checkpoint a path"
            )
        return [find_checkpoint(which)]
    if isinstance(which, int) or which == files.LATEST:
        store.wait()
        steps = {files.step_of(path): path for path in files.newest_first(store.folder)}
        if which == files.LATEST and steps:
            return [steps[step] for step in sorted(steps, reverse=True)]
        if isinstance(which, int) and which in steps:
            return [steps[which]]
    return [store.find(which)]


def restore(
    session: Session,
    program: StagedProgram,
    paths: Sequence[Path],
    agent: Agent,
    own: Mapping[str, Any],
    *,
    change_rates: bool,
) -> None:
    """Goes on from the first whole checkpoint.

    Args:
        session: What goes on.
        program: What it advances.
        paths: Checkpoints, the one that is wanted most first.
        agent: The learner as it was given.
        own: The settings of the training that is to go on.
        change_rates: Whether numbers of the agent's config may differ; they then
            replace those of the checkpoint.

    Raises:
        CheckpointError: If it belongs to another training; names what differs.
    """
    rates = getattr(agent, "traced_options", ())
    cure = (
        "Make the runner as that training was made, or load with weights_only=True, "
        f"which needs the same networks alone{settings.how_to_change(rates)}"
    )
    changes: list[settings.Difference] = []

    def check(path: Path) -> None:
        changes[:] = settings.changed(
            *(read_record(path).meta, own),
            origin=path,
            free=FREE,
            rates=rates if change_rates else (),
            cure=cure,
        )

    try:
        record = session.restore_first_whole(paths, check=check)
    except (NoCheckpointError, DamagedError):
        raise
    except CheckpointError as error:
        # Those without settings show what differs by their shapes.
        told = str(error)
        raise CheckpointError(told if cure in told else f"{told}. {cure}") from error
    if changes:
        told = "; ".join(map(str, changes))
        logger.warning("going on from step %d with %s", record["env_steps"], told)
        learner = program.state.agents[0]
        program.set_agents({0: settings.with_rates(learner, agent, changes)})


def saved_weights(path: Path, params: Any) -> Any:
    """Returns the parameters in a checkpoint of one seed, of this runner or `train_*`.

    Args:
        path: The checkpoint.
        params: Parameters of the same shapes, leaves `[1, ...]`.

    Raises:
        CheckpointError: If they are of other networks; names the entries.
    """
    entries = read_record(path).entries
    before = next((p for p in LEARNER if any(n.startswith(p) for n in entries)), "")
    leaves = tree.named_leaves({"params": params})
    named = {f"{before}{name}": x for name, x in leaves.items()}
    weights = f"{before}params"
    saved = {n: e for n, e in entries.items() if f"{n}/".startswith(f"{weights}/")}
    tree.check_entries(saved, tree.entries(named), path)
    stored = read_arrays(path, list(named))
    arrays = [tree.like(leaf, stored[name]) for name, leaf in named.items()]
    return jax.tree.unflatten(jax.tree.structure(params), arrays)
