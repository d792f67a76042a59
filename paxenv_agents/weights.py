"""Saved agents: weights in a msgpack file, and a JSON file that describes the agent.

`models/player1.msgpack` holds the parameters alone, and neither the optimiser nor keys
nor anything else that training would need to continue. `models/player1.json` beside it
names the agent, its config, what the caller adds, and the digest of the weights.
"""

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization, traverse_util
from jaxtyping import PyTree

import paxenv
from paxenv.environment import Environment
from paxenv.paths import local_path, replacing
from paxenv.wording import listed
from paxenv_agents.agent import Agent, Game
from paxenv_agents.registry import make_agent
from paxenv_agents.types import TrainingState

FORMAT = 1
_SUFFIXES = (".msgpack", ".json")
#: The name of parameters that are one array.
ALONE = "value"


class WeightsError(ValueError):
    """Saved weights that do not fit; the message names the entries."""


def save_agent(
    path: str | os.PathLike[str],
    agent: Agent,
    params: PyTree,
    meta: dict[str, Any] | None = None,
    *,
    name: str | None = None,
) -> Path:
    """Saves an agent's parameters and returns the path of the weights.

    Both files are replaced as a whole, never left half written.

    Args:
        path: `models/player1`, with or without `.msgpack`; folders are made.
        agent: The agent; its config is saved, its spaces are not.
        params: `state.params` of one training state.
        meta: Further JSON values to record.
        name: The agent's registered name; the name of its class if None.

    Raises:
        TypeError: If `meta` or a config value is not JSON.
    """
    weights, described = _paths(path)
    data = serialization.msgpack_serialize(serialization.to_state_dict(_host(params)))
    record = {
        "format": FORMAT,
        "agent": name or type(agent).__name__,
        "config": _config(agent),
        "own_networks": getattr(agent, "actor", None) is not None,
        "sha256": hashlib.sha256(data).hexdigest(),
        "meta": meta or {},
    }
    text = json.dumps(record, indent=2, allow_nan=False) + "\n"
    weights.parent.mkdir(parents=True, exist_ok=True)
    for place, content in ((weights, data), (described, text.encode())):
        with replacing(place) as file:
            file.write(content)
    return weights


def load_agent(
    path: str | os.PathLike[str],
    env: Game | None = None,
    player: int | None = None,
    *,
    greedy: bool = False,
) -> tuple[Agent, TrainingState]:
    """Makes the saved agent for one seat and returns (agent, training state).

    The training state is a fresh one that holds the saved parameters.

    Args:
        path: As for `save_agent`; or the directory of a run, which means the agent of
            `player` that it left.
        env: The game; its spaces must be those of the game the agent was trained in.
            None makes that game, which runs record.
        player: The seat, from 0. None: the seat it was trained at, or the first.
        greedy: Whether the agent acts deterministically.

    Raises:
        FileNotFoundError: If one of the two files is missing.
        WeightsError: If the files do not belong together or do not say in which game
            the agent was trained, or if the parameters do not fit the agent at this
            seat; names missing, surplus and misshapen entries.
    """
    if local_path(path).is_dir():
        path = local_path(path) / "models" / f"player{(player or 0) + 1}"
    record = describe_agent(path)
    if env is None:
        env = _game_of(path, record["meta"])
    seat = int(record["meta"].get("player", 0)) if player is None else player
    if record["own_networks"]:
        raise WeightsError(
            f"{path} holds a {record['agent']} with networks of its own, which a file "
            "cannot name: make the agent as for training and call "
            "load_params(path, agent)"
        )
    agent = make_agent(record["agent"], env, seat, **record["config"])
    if greedy:
        agent = dataclasses.replace(agent, greedy=True)
    state = agent.init_state(jax.random.key(0))
    return agent, state.replace(params=load_params(path, agent, state.params))


def _game_of(path: str | os.PathLike[str], meta: dict[str, Any]) -> Environment:
    """Returns the game in which saved weights were trained."""
    if "game" not in meta:
        raise WeightsError(
            f"{path} does not say in which game the agent was trained: call "
            "load_agent(path, env)"
        )
    env, _ = paxenv.make(meta["game"], **meta.get("options", {}))
    return env


def load_params(
    path: str | os.PathLike[str], agent: Agent, like: PyTree | None = None
) -> PyTree:
    """Returns saved parameters that fit `agent`, as arrays of its dtypes.

    Args:
        path: As for `save_agent`.
        agent: An agent whose parameters have the saved names and shapes.
        like: Parameters of `agent`, if they are at hand.

    Raises:
        FileNotFoundError, WeightsError: As for `load_agent`.
    """
    weights, _ = _paths(path)
    data = weights.read_bytes()
    record = describe_agent(path)
    if hashlib.sha256(data).hexdigest() != record["sha256"]:
        raise WeightsError(
            f"{weights} is not the file that {weights.with_suffix('.json')} describes: "
            "its digest differs, so one of them is damaged or of another agent"
        )
    like = agent.init_state(jax.random.key(0)).params if like is None else like
    tree = serialization.to_state_dict(like)
    expected = _named(tree)
    saved = _named(serialization.msgpack_restore(data))
    faults = [f"{name} is missing" for name in expected if name not in saved]
    faults += [f"{name} is surplus" for name in saved if name not in expected]
    faults += [
        f"{name} has shape {np.shape(saved[name])}, expected {np.shape(leaf)}"
        for name, leaf in expected.items()
        if name in saved and np.shape(saved[name]) != np.shape(leaf)
    ]
    if faults:
        raise WeightsError(
            f"{weights}, of {record['agent']}, does not fit this "
            f"{type(agent).__name__}: {listed(faults)}"
        )
    arrays = {
        name: jnp.asarray(saved[name], leaf.dtype) for name, leaf in expected.items()
    }
    if not isinstance(tree, dict):
        return arrays[ALONE]
    nested = traverse_util.unflatten_dict(arrays, sep="/")
    return serialization.from_state_dict(like, nested)


def describe_agent(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns what the JSON file beside saved weights says.

    Raises:
        FileNotFoundError: If one of the two files is missing.
        WeightsError: If it is of another format.
    """
    weights, described = _paths(path)
    for file in (weights, described):
        if not file.exists():
            raise FileNotFoundError(
                f"there is no {file}: a saved agent is two files, {weights.name} and "
                f"{described.name}"
            )
    record = json.loads(described.read_text())
    if record.get("format") != FORMAT:
        raise WeightsError(
            f"{described} has format {record.get('format')!r}, this version reads "
            f"{FORMAT}"
        )
    return record


def _paths(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    stem = local_path(path)
    if stem.suffix in _SUFFIXES:
        stem = stem.with_suffix("")
    weights, described = (stem.with_name(stem.name + suffix) for suffix in _SUFFIXES)
    return weights, described


def _config(agent: Agent) -> dict[str, Any]:
    """Returns the options with which `make_agent` makes the agent again."""
    config = getattr(agent, "config", None)
    if config is not None:
        return dataclasses.asdict(config)
    own = {field.name for field in dataclasses.fields(Agent)}
    return {
        field.name: getattr(agent, field.name)
        for field in dataclasses.fields(agent)
        if field.name not in own and field.init
    }


def _host(params: PyTree) -> Any:
    return jax.tree.map(np.asarray, params)


def _named(tree: PyTree) -> dict[str, Any]:
    """Returns the leaves by their path, such as `logits/kernel`."""
    if not isinstance(tree, dict):
        return {ALONE: tree}
    return traverse_util.flatten_dict(tree, sep="/")
