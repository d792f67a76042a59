"""Search targets by name, on one agent and one game."""

import dataclasses
import typing
from typing import Any

import jax
import jax.numpy as jnp

from paxenv.registry import closest
from paxenv.single_player import SinglePlayerParams
from paxenv_agents.agent import Agent
from paxenv_agents.types import TrainingState
from runners.outer_loops.search_dims import ALIASES, ENV, PARAMETERS

#: Options that belong to the run.
_OF_RUNS = ("num_envs", "num_updates")


def game_params(env_params: Any) -> Any:
    """Returns the game's own numbers, without those of co-players."""
    return env_params.game if isinstance(env_params, SinglePlayerParams) else env_params


def env_names(env_params: Any) -> tuple[str, ...]:
    """Returns the names of the game's numbers, as targets."""
    params = game_params(env_params)
    if not dataclasses.is_dataclass(params):
        return ()
    return tuple(
        f"{ENV}{field.name}"
        for field in dataclasses.fields(params)
        if _is_numbers(getattr(params, field.name))
    )


def env_value(env_params: Any, target: str) -> Any:
    """Returns a number of the game, or an array of them."""
    return getattr(game_params(env_params), target.removeprefix(ENV))


def with_env_values(env_params: Any, values: dict[str, Any]) -> Any:
    """Returns the game's numbers with some replaced, in their own dtypes."""
    if not values:
        return env_params
    params = game_params(env_params)
    new = {}
    for target, value in values.items():
        old = jnp.asarray(env_value(env_params, target))
        shaped = jnp.broadcast_to(jnp.asarray(value, old.dtype), old.shape)
        new[target.removeprefix(ENV)] = shaped
    params = params.replace(**new)
    if isinstance(env_params, SinglePlayerParams):
        return env_params.replace(game=params)
    return params


def option_names(agent: Agent) -> tuple[str, ...]:
    """Returns the agent's options that are not hyperparameters in its state."""
    config = getattr(agent, "config", None)
    if not dataclasses.is_dataclass(config):
        return ()
    names = [field.name for field in dataclasses.fields(config)]
    return tuple(name for name in names if name not in _OF_RUNS)


def with_option(agent: Agent, name: str, value: Any) -> Agent:
    """Returns the agent with an option of another value.

    A single width stands for all hidden layers.

    Raises:
        ValueError: If the agent refuses the value.
    """
    config: Any = getattr(agent, "config", None)
    hint = typing.get_type_hints(type(config))[name]
    if name == "hidden_sizes":
        several = isinstance(value, tuple | list)
        layers = 1 if several else max(1, len(config.hidden_sizes))
        value = tuple(value) if several else (int(value),) * layers
    elif value is not None and (hint is int or hint == (int | None)):
        value = int(value)
    config = dataclasses.replace(config, **{name: value})
    return dataclasses.replace(agent, config=config)  # type: ignore[call-arg]


def unplanned(agent: Agent) -> Agent:
    """Returns the agent without the plan by which its schedules end."""
    if getattr(getattr(agent, "config", None), "num_updates", None) is None:
        return agent
    return with_option(agent, "num_updates", None)


def find(name: str, agent: Agent, learner: TrainingState, env_params: Any) -> str:
    """Returns what a target is: `"parameters"`, `"hyper"`, `"option"` or `"env"`.

    Raises:
        ValueError: If there is no such target; names the nearest.
    """
    target = ALIASES.get(name, name)
    hyper = tuple(learner.hyper)
    options = tuple(n for n in option_names(agent) if n not in hyper)
    of_game = env_names(env_params)
    if target == PARAMETERS:
        return "parameters"
    for kind, known in (("hyper", hyper), ("option", options), ("env", of_game)):
        if target in known:
            return kind
    known = [PARAMETERS, *hyper, *options, *of_game]
    near = closest(target, known)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    said = name if name == target else f"{name} ({target})"
    raise ValueError(
        f"{type(agent).__name__} has no hyperparameter {said!r}{hint} "
        f"Hyperparameters: {', '.join(hyper)}; options: {', '.join(options)}; numbers "
        f"of the game: {', '.join(of_game) or 'none'}"
    )


def _is_numbers(value: Any) -> bool:
    try:
        return jnp.issubdtype(jnp.asarray(value).dtype, jnp.floating)
    except TypeError:
        return isinstance(value, jax.ShapeDtypeStruct)
