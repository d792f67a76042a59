"""Settings of a training as JSON: written into records, compared on resuming.

`described` keeps them small: a large array is described by its shape and a digest.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from paxenv.environment import Environment
from paxenv.params import GameParams
from paxenv.wording import listed
from paxenv_agents.agent import Agent
from paxenv_agents.types import TrainingState
from runners.storage.checkpoints.files import CheckpointError

#: Key of the settings in a checkpoint's `meta`.
SETTINGS = "settings"
#: Arrays of at most so many numbers are shown in full.
SHOWN = 64
#: The prefix of the agent's options; messages leave it out.
OPTIONS = "agent.config."
#: Options of the agent that are without effect on networks that were given.
OF_NETWORKS = (
    *("hidden_sizes", "activation", "shared_torso", "conv_channels", "kernel_size"),
)


class Difference(NamedTuple):
    """A setting with another value than before.

    Attributes:
        name: Its name, such as `agent.config.n_steps` or `params.payoff_matrix`.
        saved: Its value in the checkpoint; `ABSENT` if there is none.
        now: Its present value.
    """

    name: str
    saved: Any
    now: Any

    @property
    def option(self) -> str:
        """The name as the user wrote it."""
        return self.name.removeprefix(OPTIONS)

    def __str__(self) -> str:
        return f"{self.option} is {_shown(self.now)}, was {_shown(self.saved)}"


ABSENT = "(absent)"


def settings_of(
    agent: Agent,
    env: Environment | gymnasium.Env | gymnasium.vector.VectorEnv,
    params: GameParams | None,
    **more: Any,
) -> dict[str, Any]:
    """Returns the settings of one agent's training, as JSON values of bounded size.

    Args:
        agent: The learner as it was given, without a plan of its updates.
        env: The game, or an environment of Gymnasium.
        params: The game's numbers.
        **more: Other settings by name, such as the seed and the number of games.
    """
    settings = {"agent": agent, "game": env, "params": params, **more}
    told = {name: described(value) for name, value in settings.items()}
    if getattr(agent, "actor", None) is not None:
        # Given networks have widths of their own.
        for option in OF_NETWORKS:
            told["agent"]["config"].pop(option, None)
    return told


def described(value: Any) -> Any:
    """Returns JSON values that describe an object and differ if it changes.

    Dataclasses are shown field by field, small arrays in full, large ones by shape,
    dtype and digest, functions and other objects by their names.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return _described_array(value)
    if isinstance(value, Mapping):
        return {str(key): described(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [described(part) for part in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return _described_object(value)
    left_out = ("parent", "name") if isinstance(value, nn.Module) else ()
    fields = {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if field.name not in left_out
    }
    # Spaces follow from the game.
    parts = {
        name: described(part)
        for name, part in fields.items()
        if not isinstance(part, gymnasium.Space)
    }
    return {"class": _name_of(type(value)), **parts}


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Returns the differences between two sets of settings."""
    old, new = _flat(saved), _flat(now)
    names = dict.fromkeys([*new, *old])
    found = [Difference(n, old.get(n, ABSENT), new.get(n, ABSENT)) for n in names]
    return [d for d in found if not _same(d)]


def _same(difference: Difference) -> bool:
    """Whether two values of a setting are equal, for an agent's floats as float32.

    Such floats are traced: 0.01 and the nearest float32 train in the same way.
    """
    _, old, new = difference
    if difference.name.startswith(OPTIONS) and {type(old), type(new)} == {float}:
        traced = jnp.result_type(float).type
        if traced(old) == traced(new):
            return True
    return json.dumps(old) == json.dumps(new)


def changed(
    meta: Mapping[str, Any],
    now: Mapping[str, Any],
    *,
    origin: str | os.PathLike[str],
    free: Collection[str],
    rates: Collection[str] = (),
    cure: str,
) -> list[Difference]:
    """Returns the settings that get a new value; refuses any other difference.

    Args:
        meta: The `meta` of a checkpoint; without settings it is not compared.
        now: The settings of the training that resumes from it.
        origin: The checkpoint, for messages.
        free: Names of settings, or of groups of them, that may change.
        rates: Options of the agent that may change.
        cure: A remedy for other differences, a whole clause for the message.

    Raises:
        CheckpointError: If another setting differs; names it with both values.
    """
    if SETTINGS not in meta:
        return []
    found = differences(meta[SETTINGS], now)
    allowed = {*free, *(f"{OPTIONS}{name}" for name in rates)}
    refused = [d for d in found if not _within(d.name, allowed)]
    if refused:
        raise CheckpointError(
            f"{origin} belongs to another training: {listed(refused)}. {cure}"
        )
    return found


def how_to_change(rates: Collection[str]) -> str:
    """Returns the clause about numbers of the agent that may change, if it has any."""
    if not rates:
        return ""
    return (
        "; change_rates=True goes on with other numbers of the algorithm, which are "
        f"{', '.join(sorted(rates))}"
    )


def with_rates(
    state: TrainingState, agent: Any, changes: Collection[Difference]
) -> TrainingState:
    """Returns a training state with the changed hyperparameters of the agent.

    Args:
        state: The training state; its hyperparameters may have leading axes.
        agent: The agent whose config has the new numbers.
        changes: The changed settings; those that are no hyperparameter are ignored.
    """
    wanted = agent.initial_hyper() if changes and hasattr(state, "hyper") else {}
    names = {d.option for d in changes if d.name.startswith(OPTIONS)} & set(wanted)
    if not names:
        return state
    new = {name: jnp.full_like(state.hyper[name], wanted[name]) for name in names}
    return state.replace(hyper={**state.hyper, **new})


def _within(name: str, allowed: Collection[str]) -> bool:
    """Whether a name is one of `allowed`, or lies in a group of that name."""
    parts = name.split(".")
    return any(".".join(parts[:n]) in allowed for n in range(1, len(parts) + 1))


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Returns nested mappings as one, with names of all levels joined by dots."""
    flat: dict[str, Any] = {}
    for key, part in value.items():
        name = f"{prefix}{key}"
        flat |= _flat(part, f"{name}.") if isinstance(part, dict) else {name: part}
    return flat


def _described_array(array: Any) -> Any:
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    array = np.asarray(array)
    if array.size <= SHOWN:
        return array.astype(float).tolist() if _is_low(array) else array.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{array.dtype}{list(array.shape)} {digest[:16]}"


def _is_low(array: np.ndarray) -> bool:
    """Whether Python has no numbers of the dtype, such as bfloat16."""
    return array.dtype.kind == "V" or array.dtype.name == "bfloat16"


def _described_object(value: Any) -> str | dict[str, str | None]:
    """Returns the name of a class or a function, or that of an object's class.

    A vector environment is described by one of its games: their number is a setting of
    its own.
    """
    if isinstance(value, gymnasium.vector.VectorEnv):
        return {
            "id": None if value.spec is None else value.spec.id,
            "observation_space": str(value.single_observation_space),
            "action_space": str(value.single_action_space),
        }
    if isinstance(value, gymnasium.Env) and value.spec:
        return f"{_name_of(type(value))} of {value.spec.id}"
    return _name_of(value if hasattr(value, "__qualname__") else type(value))


def _name_of(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _shown(value: Any) -> str:
    return str(value) if value is ABSENT else repr(value)
