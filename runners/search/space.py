"""Search spaces: a solution holds parameters and free numbers of all other targets."""

import dataclasses
import typing
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from paxenv.single_player import SinglePlayerParams
from paxenv.suggestions import suggestion
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import game_params
from paxenv_agents.types import TrainingState
from runners.engine import population
from runners.search.dims import ALIASES, ENV, PARAMETERS, SearchDim, dims_of
from runners.search.outer_options import ESConfig

#: Options that the run decides.
_OF_RUNS = ("num_envs", "num_updates")


def env_names(env_params: PyTree) -> tuple[str, ...]:
    """Returns the names of the game's numbers, as targets."""
    params = game_params(env_params)
    if not dataclasses.is_dataclass(params):
        return ()
    return tuple(
        f"{ENV}{field.name}"
        for field in dataclasses.fields(params)
        if _is_numbers(getattr(params, field.name))
    )


def env_value(env_params: PyTree, target: str) -> Any:
    """Returns a number of the game, or an array of them."""
    return getattr(game_params(env_params), target.removeprefix(ENV))


def with_env_values(env_params: PyTree, values: dict[str, Any]) -> PyTree:
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


def find_target(
    name: str, agent: Agent, learner: TrainingState, env_params: PyTree
) -> str:
    """Returns the kind of a target: `"parameters"`, `"hyper"`, `"option"` or `"env"`.

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
    hint = suggestion(target, known)
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


class Solution(TypedDict):
    """A solution; in a population every leaf is `[population, ...]`.

    Attributes:
        parameters: Leaves of the policy; empty if they are not searched.
        hyper: A free number for each other target, or an array of them.
    """

    parameters: population.Leaves
    hyper: dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class SearchSpace:
    """The searched parts of an agent and a game. Frozen and hashable.

    Attributes:
        agent: The learner.
        parameters: Whether the policy's parameters are searched.
        hyper: Searched hyperparameters in the training state.
        env: Searched numbers of the game.
        options: Searched options, whose values change the compiled program.
    """

    agent: Agent
    parameters: bool
    hyper: tuple[SearchDim, ...] = ()
    env: tuple[SearchDim, ...] = ()
    options: tuple[SearchDim, ...] = ()

    @property
    def dims(self) -> tuple[SearchDim, ...]:
        """All targets but the parameters."""
        return (*self.hyper, *self.env, *self.options)

    def start(self, learner: TrainingState, env_params: PyTree) -> Solution:
        """Returns the solution of the current agent and game.

        A value outside of its range is replaced by the nearest end.
        """
        leaves = population.taken(self.agent, learner.params)
        places: dict[str, jax.Array] = {}
        for dim in self.hyper:
            places[dim.target] = _placed(dim, learner.hyper[dim.target])
        for dim in self.env:
            places[dim.target] = _placed(dim, env_value(env_params, dim.target))
        for dim in self.options:
            value = getattr(getattr(self.agent, "config", None), dim.target)
            if isinstance(value, tuple) and dim.target == "hidden_sizes" and value:
                value = value[0]
            places[dim.target] = jnp.float32(dim.place(value))
        return {"parameters": leaves if self.parameters else [], "hyper": places}

    def shapes(
        self, learner: TrainingState, env_params: PyTree
    ) -> PyTree[jax.Array | jax.ShapeDtypeStruct]:
        """Returns the shapes of a solution; `learner` may hold shapes for arrays."""
        numbers = {d.target: learner.hyper[d.target] for d in self.hyper}
        for dim in self.env:
            numbers[dim.target] = env_value(env_params, dim.target)
        numbers |= {d.target: 0.0 for d in self.options}
        leaves = population.taken(self.agent, learner.params)
        return {
            "parameters": leaves if self.parameters else [],
            "hyper": {
                target: jax.ShapeDtypeStruct(jnp.shape(number), jnp.float32)
                for target, number in numbers.items()
            },
        }

    def applied(
        self, learner: TrainingState, env_params: PyTree, solution: Solution
    ) -> tuple[TrainingState, PyTree]:
        """Returns (training state, game's numbers) with a solution's values; pure."""
        places = solution["hyper"]
        hyper = {
            **learner.hyper,
            **{d.target: _value(d, places[d.target]) for d in self.hyper},
        }
        learner = learner.replace(hyper=hyper)
        if self.parameters:
            params = population.with_searched(
                self.agent, learner.params, solution["parameters"]
            )
            learner = learner.replace(params=params)
        values = {d.target: _value(d, places[d.target]) for d in self.env}
        return learner, with_env_values(env_params, values)

    def option_values(self, solution: Solution) -> tuple[tuple[str, Any], ...]:
        """Returns the options of a solution, for the host."""
        places = solution["hyper"]
        return tuple((d.target, d.value(float(places[d.target]))) for d in self.options)

    def values(self, solution: Solution) -> dict[str, Any]:
        """Returns the values of a solution by target, as plain data."""
        values: dict[str, Any] = dict(self.option_values(solution))
        for dim in (*self.hyper, *self.env):
            values[dim.target] = np.asarray(
                _value(dim, jnp.asarray(solution["hyper"][dim.target]))
            ).tolist()
        return {d.target: values[d.target] for d in self.dims}


def make_space(
    config: ESConfig, agent: Agent, learner: TrainingState, env_params: PyTree
) -> SearchSpace:
    """Returns the search space of a config.

    Raises:
        ValueError: If a target is unknown, its range is refused, or the targets do not
            fit together.
    """
    found: dict[str, list[SearchDim]] = {"hyper": [], "env": [], "option": []}
    for dim in dims_of(config.search_targets):
        kind = find_target(dim.name, agent, learner, env_params)
        if kind == "option":
            _check_option(dim, agent)
        elif not all(_is_number(c) for c in dim.choices):
            raise ValueError(
                f"{dim.name} is a number, its choices are {list(dim.choices)}"
            )
        found[kind].append(dim)
    if config.searches_parameters:
        population.used_by_policy(agent)
        _check_shapes(agent, tuple(found["option"]))
    if not config.train_agent and (found["hyper"] or found["option"]):
        names = [d.name for d in (*found["hyper"], *found["option"])]
        raise ValueError(
            f"train_agent is False, so {', '.join(names)} would change nothing: search "
            "parameters or numbers of the game, or train"
        )
    return SearchSpace(
        agent=agent,
        parameters=config.searches_parameters,
        hyper=tuple(found["hyper"]),
        env=tuple(found["env"]),
        options=tuple(found["option"]),
    )


def _check_option(dim: SearchDim, agent: Agent) -> None:
    """Raises ValueError if the agent refuses an end or a choice of an option."""
    if dim.scale not in ("int", "choice"):
        raise ValueError(
            f"every value of {dim.name} is a program of its own: give scale='int' or "
            f"scale='choice', got {dim.scale!r}"
        )
    for value in dim.values:
        try:
            with_option(agent, dim.target, value)
        except (ValueError, TypeError) as error:
            raise ValueError(f"search target {dim.name}: {error}") from error


def _check_shapes(agent: Agent, options: tuple[SearchDim, ...]) -> None:
    def shapes(made: Agent) -> Any:
        params = jax.eval_shape(made.init_state, jax.random.key(0)).params
        return [x.shape for x in population.taken(made, params)]

    for dim in options:
        for value in (dim.values[0], dim.values[-1]):
            if shapes(with_option(agent, dim.target, value)) != shapes(agent):
                raise ValueError(
                    f"{dim.name} changes how many parameters there are, so it cannot "
                    "be searched together with 'parameters'"
                )


def _placed(dim: SearchDim, value: Any) -> jax.Array:
    array = np.asarray(value)
    places = [dim.place(float(x)) for x in array.reshape(-1)]
    return jnp.asarray(places, jnp.float32).reshape(array.shape)


def _value(dim: SearchDim, place: jax.Array) -> jax.Array:
    value = dim.value(place, jnp)
    if dim.scale != "choice":
        return value
    return jnp.asarray(dim.choices, jnp.float32)[value.astype(jnp.int32)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
