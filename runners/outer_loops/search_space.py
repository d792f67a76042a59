"""A search space: one solution holds parameters and the places of all other targets."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paxenv_agents.agent import Agent
from paxenv_agents.types import TrainingState
from runners.evolution import parameters
from runners.outer_loops import targets
from runners.outer_loops.outer_config import ESConfig
from runners.outer_loops.search_dims import SearchDim, dims_of

#: `{"parameters": leaves of the policy, "hyper": {target: free number}}`.
Solution = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class SearchSpace:
    """What of an agent and a game is searched. Frozen and hashable.

    Attributes:
        agent: The learner.
        parameters: Whether the policy's numbers are.
        hyper: Hyperparameters in the training state.
        env: Numbers of the game.
        options: Options that make another program.
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

    def start(self, learner: TrainingState, env_params: Any) -> Solution:
        """Returns the solution that the agent and the game are now.

        A value out of its range is taken for the nearest end.
        """
        leaves = parameters.taken(self.agent, learner.params)
        places: dict[str, jax.Array] = {}
        for dim in self.hyper:
            places[dim.target] = _placed(dim, learner.hyper[dim.target])
        for dim in self.env:
            places[dim.target] = _placed(dim, targets.env_value(env_params, dim.target))
        for dim in self.options:
            value = getattr(getattr(self.agent, "config", None), dim.target)
            if isinstance(value, tuple) and dim.target == "hidden_sizes" and value:
                value = value[0]
            places[dim.target] = jnp.float32(dim.place(value))
        return {"parameters": leaves if self.parameters else [], "hyper": places}

    def shapes(self, learner: Any, env_params: Any) -> Solution:
        """Returns the shapes of a solution; the learner may be one of shapes."""
        numbers = {d.target: learner.hyper[d.target] for d in self.hyper}
        for dim in self.env:
            numbers[dim.target] = targets.env_value(env_params, dim.target)
        numbers |= {d.target: 0.0 for d in self.options}
        leaves = parameters.taken(self.agent, learner.params)
        return {
            "parameters": leaves if self.parameters else [],
            "hyper": {
                target: jax.ShapeDtypeStruct(jnp.shape(number), jnp.float32)
                for target, number in numbers.items()
            },
        }

    def applied(
        self, learner: TrainingState, env_params: Any, solution: Solution
    ) -> tuple[TrainingState, Any]:
        """Returns (training state, game's numbers) with a solution in them; pure."""
        places = solution["hyper"]
        hyper = {
            **learner.hyper,
            **{d.target: _value(d, places[d.target]) for d in self.hyper},
        }
        learner = learner.replace(hyper=hyper)
        if self.parameters:
            params = parameters.put(self.agent, learner.params, solution["parameters"])
            learner = learner.replace(params=params)
        values = {d.target: _value(d, places[d.target]) for d in self.env}
        return learner, targets.with_env_values(env_params, values)

    def option_values(self, solution: Solution) -> tuple[tuple[str, Any], ...]:
        """Returns the options of a solution, for the host."""
        places = solution["hyper"]
        return tuple((d.target, d.value(float(places[d.target]))) for d in self.options)

    def values(self, solution: Solution) -> dict[str, Any]:
        """Returns what a solution's targets are, as plain data by target."""
        values: dict[str, Any] = dict(self.option_values(solution))
        for dim in (*self.hyper, *self.env):
            values[dim.target] = np.asarray(
                _value(dim, jnp.asarray(solution["hyper"][dim.target]))
            ).tolist()
        return {d.target: values[d.target] for d in self.dims}


def make_space(
    config: ESConfig, agent: Agent, learner: TrainingState, env_params: Any
) -> SearchSpace:
    """Returns the search space of a config.

    Raises:
        ValueError: If there is no such target, a range cannot hold for it, or the
            targets do not fit together.
    """
    found: dict[str, list[SearchDim]] = {"hyper": [], "env": [], "option": []}
    for dim in dims_of(config.search_targets):
        kind = targets.find(dim.name, agent, learner, env_params)
        if kind == "option":
            _check_option(dim, agent)
        elif not all(_is_number(c) for c in dim.choices):
            raise ValueError(
                f"{dim.name} is a number, its choices are {list(dim.choices)}"
            )
        found[kind].append(dim)
    if config.searches_parameters:
        parameters.used_by_policy(agent)
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
            targets.with_option(agent, dim.target, value)
        except (ValueError, TypeError) as error:
            raise ValueError(f"search target {dim.name}: {error}") from error


def _check_shapes(agent: Agent, options: tuple[SearchDim, ...]) -> None:
    def shapes(made: Agent) -> Any:
        params = jax.eval_shape(made.init_state, jax.random.key(0)).params
        return [x.shape for x in parameters.taken(made, params)]

    for dim in options:
        for value in (dim.values[0], dim.values[-1]):
            if shapes(targets.with_option(agent, dim.target, value)) != shapes(agent):
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
