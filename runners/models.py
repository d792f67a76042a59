"""Weights of a run: what its agents start from, and what it leaves."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from paxenv_agents import weights
from paxenv_agents.lineup import Slot
from runners.config import AgentConfig, ConfigError, ExperimentConfig
from runners.evolution.best import BestMember
from runners.experiment import RunState
from runners.model_source import saved_params
from runners.plan import Plan
from runners.program import Program, run_keys, with_agents
from runners.run_dir import RunDir


def save_models(plan: Plan, program: Program, run_dir: RunDir) -> None:
    """Writes the weights of every learner in every seed."""
    config = plan.config
    for seed in range(config.num_seeds):
        states = program.agents(seed)
        for i, (slot, state) in enumerate(
            zip(plan.experiment.slots, states, strict=True)
        ):
            if not slot.agent.learns:
                continue
            params = state.params
            if slot.per_opponent:
                params = jax.tree.map(lambda x: x[0], params)
            path = run_dir.model(min(slot.players) + 1, seed)
            _save(plan, i, seed, params, path)


def save_best_members(
    plan: Plan, best_members: Sequence[BestMember], run_dir: RunDir
) -> None:
    """Writes the weights of the best members of an evolution in every seed."""
    for best in best_members:
        for seed in range(plan.config.num_seeds):
            params = jax.tree.map(lambda x, seed=seed: x[seed], best.params)
            _save(plan, best.slot, seed, params, run_dir.best_model(best.player, seed))


def _save(plan: Plan, index: int, seed: int, params: Any, path: Path) -> None:
    config, slot = plan.config, plan.experiment.slots[index]
    meta = about_weights(config, plan.game.id, index, seed)
    weights.save_agent(path, slot.agent, params, meta, name=config.agents[index].name)


def about_weights(
    config: ExperimentConfig, game: str, index: int, seed_index: int
) -> dict[str, Any]:
    """Returns what is recorded beside weights: enough to make their game again.

    Args:
        config: The experiment.
        game: The game's id.
        index: Whose weights: a place among the agents.
        seed_index: Of which of the run's seeds.
    """
    return {
        "game": game,
        "options": dict(config.env.options),
        "player": min(config.agents[index].players, default=1) - 1,
        "experiment": config.name,
        "seed_index": seed_index,
    }


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

    They are what these agents play with, and what they start afresh from. Opponents
    with training states of their own all get the same.

    Args:
        plan: The plan.
        state: The state of all seeds before the first iteration.

    Raises:
        ConfigError: If a file is missing or belongs to another agent.
        ValueError: If a shape is not the slot's.
    """
    slots = plan.experiment.slots
    agents, starts = list(state.agents), [None] * len(slots)
    for i, loaded in load_models(plan).items():
        params = loaded.params
        if slots[i].per_opponent:
            params = jax.tree.map(_for_opponents(plan.experiment.num_opponents), params)
        agents[i] = agents[i].replace(params=params)
        if slots[i].reset != "never":
            starts[i] = params
    state = with_agents(state, dict(enumerate(agents)))
    if any(start is not None for start in starts):
        state = state.replace(starts=tuple(starts))
    return state


def _for_opponents(num_opponents: int) -> Any:
    """Returns what repeats weights `[seeds, ...]` as `[seeds, opponents, ...]`."""

    def spread(x: jax.Array) -> jax.Array:
        return jnp.repeat(x[:, None], num_opponents, axis=1)

    return spread
