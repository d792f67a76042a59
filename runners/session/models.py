"""Weights of a run: those from which its agents start, and those that it saves."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from paxenv.wording import counted
from paxenv_agents import weights
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from runners.config import AgentConfig, ConfigError, ExperimentConfig, load
from runners.config.loader import load_record
from runners.engine.experiment import RunState
from runners.engine.program import CompiledProgram, run_keys, with_agents
from runners.planning.plan import Plan, prepare
from runners.planning.saved import saved_params
from runners.search.best import BestMember
from runners.storage.checkpoints import files, tree
from runners.storage.checkpoints.files import CheckpointError, Record, find_checkpoint
from runners.storage.checkpoints.tree import read_arrays
from runners.storage.run_dir import RunDir


def save_models(plan: Plan, program: CompiledProgram, run_dir: RunDir) -> None:
    """Writes the weights of every learner in every seed."""
    for seed in range(plan.config.num_seeds):
        for i, state in enumerate(program.agents(seed)):
            slot = plan.experiment.slots[i]
            if slot.agent.learns:
                params = _against_one(slot, state.params)
                path = run_dir.model(min(slot.players) + 1, seed)
                save_weights(plan, i, params, path, seed=seed)


def save_best_members(
    plan: Plan, best_members: Sequence[BestMember], run_dir: RunDir
) -> None:
    """Writes the weights of the best members of an evolution in every seed."""
    for best in best_members:
        for seed in range(plan.config.num_seeds):
            params = jax.tree.map(lambda x, seed=seed: x[seed], best.params)
            path = run_dir.best_model(best.player, seed)
            save_weights(plan, best.slot, params, path, seed=seed)


def save_weights(
    plan: Plan,
    index: int,
    params: Any,
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    agent: Agent | None = None,
    more: Mapping[str, Any] | None = None,
) -> Path:
    """Writes weights, and beside them what it takes to make their game again.

    Args:
        plan: What was run.
        index: Whose weights: a place among the agents.
        params: The parameters of one agent.
        path: Where to.
        seed: Of which of the run's seeds.
        agent: Who it is, where training has made another of it than was planned.
        more: What else is recorded beside them.
    """
    config = plan.config
    own = config.agents[index]
    meta = {
        "game": plan.game.id,
        "options": dict(config.env.options),
        "player": min(own.players, default=1) - 1,
        "experiment": config.name,
        "seed_index": seed,
        **(more or {}),
    }
    agent = plan.experiment.slots[index].agent if agent is None else agent
    return weights.save_agent(path, agent, params, meta, name=own.name)


def _against_one(slot: Slot, params: Any) -> Any:
    """Returns an agent's weights; against the first opponent if each has its own."""
    return jax.tree.map(lambda x: x[0], params) if slot.per_opponent else params


def check_models(plan: Plan) -> None:
    """Raises ConfigError if weights are missing or belong to another agent.

    Those at Weights & Biases are not fetched.
    """
    for _, agent, slot in _started(plan):
        if agent.run_path is None:
            saved_params(agent, slot.agent)


def load_models(plan: Plan) -> dict[int, Any]:
    """Returns training states by slot, leaves `[seeds, ...]`, of agents with weights.

    They are fresh but for their parameters, and without an axis of opponents.

    Raises:
        ConfigError: If a file is missing or belongs to another agent.
    """
    loaded = {}
    for i, agent, slot in _started(plan):
        params = saved_params(agent, slot.agent)
        per_seed = [params[s % len(params)] for s in range(plan.config.num_seeds)]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *per_seed)
        fresh = jax.vmap(slot.agent.init_state)(
            run_keys(plan.config.seed, plan.config.num_seeds)
        )
        loaded[i] = fresh.replace(params=stacked)
    return loaded


def _started(plan: Plan) -> Iterator[tuple[int, AgentConfig, Slot]]:
    """Yields the agents that start from weights, with their places and slots.

    Raises:
        ConfigError: If one is no learner.
    """
    for i, (agent, slot) in enumerate(
        zip(plan.config.agents, plan.experiment.slots, strict=False)
    ):
        if agent.model_path is None:
            continue
        if not slot.agent.learns:
            raise ConfigError(
                f"{agent.name} (player {agent.players[0]}) has no weights to load: "
                "model_path is for learners such as PPO"
            )
        yield i, agent, slot


def with_models(plan: Plan, state: RunState) -> RunState:
    """Returns the state with the weights that agents' `model_path` names.

    The agents play with these weights, and return to them at every reset. Opponents
    with training states of their own all get the same weights.

    Args:
        plan: The plan.
        state: The state of all seeds before the first iteration.

    Raises:
        ConfigError: If a file is missing or belongs to another agent.
        ValueError: If a shape is not the slot's.
    """
    slots, n = plan.experiment.slots, plan.experiment.num_opponents
    agents, starts = list(state.agents), [None] * len(slots)
    for i, loaded in load_models(plan).items():
        params = loaded.params
        if slots[i].per_opponent:
            # [seeds, ...] -> [seeds, opponents, ...]
            params = jax.tree.map(lambda x: jnp.repeat(x[:, None], n, axis=1), params)
        agents[i] = agents[i].replace(params=params)
        if slots[i].reset != "never":
            starts[i] = params
    state = with_agents(state, dict(enumerate(agents)))
    if any(start is not None for start in starts):
        state = state.replace(starts=tuple(starts))
    return state


def export_weights(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    player: int = 1,
    seed_index: int = 0,
) -> Path:
    """Writes one agent's weights and returns the file.

    Only the agent's parameters are read and written, and neither the optimiser nor
    keys.

    Args:
        path: A checkpoint, a run directory or its folder of checkpoints (the latest).
        out: `models/player1`, with or without `.msgpack`; a `.json` comes beside it.
        player: The player of the agent, counted from 1.
        seed_index: The number of the seed in the run, from 0.

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
    params = _against_one(slot, params)
    more = {"env_steps": record.step}
    return save_weights(plan, index, params, out, seed=seed_index, more=more)


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


def _params(
    path: Path, record: Record, index: int, agent: Agent, seed_index: int
) -> Any:
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
