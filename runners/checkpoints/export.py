"""From a checkpoint to the weights alone, which `model_path` loads."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from paxenv.wording import counted
from paxenv_agents import weights
from runners.checkpoints import files, tree
from runners.checkpoints.files import CheckpointError, Record, find_checkpoint
from runners.checkpoints.restore import read_arrays
from runners.config import ExperimentConfig, load
from runners.config.loader import load_record
from runners.models import about_weights
from runners.plan import Plan, prepare
from runners.run_dir import RunDir


def export_weights(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    player: int = 1,
    seed_index: int = 0,
) -> Path:
    """Writes one agent's weights and returns the file.

    Nothing that training would need comes with them: no optimiser, no keys. Only the
    agent's parameters are read.

    Args:
        path: A checkpoint, a run directory or its folder of checkpoints (the latest).
        out: `models/player1`, with or without `.msgpack`; a `.json` comes beside it.
        player: Whose agent, counted from 1.
        seed_index: Which of the run's seeds.

    Raises:
        CheckpointError: If there is no such agent or seed, or the checkpoint does not
            say what was trained.
    """
    path = find_checkpoint(os.fspath(path))
    record = files.read_record(path)
    plan = prepare(_config(path, record))
    index = _slot(plan, player)
    slot = plan.experiment.slots[index]
    params = _params(path, record, index, slot.agent, seed_index)
    if slot.per_opponent:
        params = jax.tree.map(lambda x: x[0], params)
    about = about_weights(plan.config, plan.game.id, index, seed_index)
    meta = {**about, "env_steps": record.step}
    name = plan.config.agents[index].name
    return weights.save_agent(out, slot.agent, params, meta, name=name)


def _config(path: Path, record: Record) -> ExperimentConfig:
    """Returns the config a checkpoint was saved with, or else its run directory's."""
    config = record.meta.get("config")
    if isinstance(config, Mapping) and "agents" in config:
        return load_record(config, str(path))
    for folder in path.parents:
        if (folder / "meta.json").is_file():
            return load(config_file=RunDir.open(folder).config)
    raise CheckpointError(
        f"{path} does not say which agents were trained, and is in no run directory: "
        "restore it with CheckpointStore and call paxenv_agents.weights.save_agent"
    )


def _slot(plan: Plan, player: int) -> int:
    for index, slot in enumerate(plan.experiment.slots):
        if player - 1 in slot.players:
            if slot.agent.learns:
                return index
            name = plan.config.agents[index].name
            raise CheckpointError(
                f"player {player} is {name}, which has no weights: --player names a "
                "learner"
            )
    raise CheckpointError(
        f"there is no player {player}: {plan.title} has players 1 to "
        f"{plan.env.num_players}"
    )


def _params(path: Path, record: Record, index: int, agent: Any, seed_index: int) -> Any:
    """Returns one seed's parameters of an agent, in the structure of its policy."""
    template = jax.eval_shape(agent.init_state, jax.random.key(0)).params
    root = f"outer/agents/{index}/params"
    names = {name: f"{root}/{name}" for name in tree.named_leaves(template)}
    known = [
        record.entries[entry] for entry in names.values() if entry in record.entries
    ]
    num_seeds = min((shape[0] for shape, _ in known), default=0)
    if known and not 0 <= seed_index < num_seeds:
        raise CheckpointError(
            f"seed index {seed_index} is not in {path}: it holds "
            f"{counted(num_seeds, 'seed')}, counted from 0"
        )
    arrays = read_arrays(path, list(names.values()))
    leaves = [arrays[entry][seed_index] for entry in names.values()]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)
