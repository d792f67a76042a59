"""The parameters that a search may change: those that `policy` uses."""

import functools
from typing import Any

import jax

from paxenv import spaces
from paxenv_agents import structure
from paxenv_agents.agent import Agent

Leaves = list[jax.Array]


def used_by_policy(agent: Agent) -> tuple[bool, ...]:
    """Returns for each leaf of an agent's parameters whether its actions depend on it.

    What reaches neither the action nor what is remembered is not searched: a critic, a
    value head, a target network. Read off the traced `policy`, so it holds for agents
    that nobody here has heard of; where a dependence cannot be ruled out, it counts.

    Raises:
        ValueError: If the agent has no such parameters.
    """
    return _used(structure.of(agent))


@functools.cache
def _used(agent: Agent) -> tuple[bool, ...]:
    agent = structure.merge(agent)
    params = jax.eval_shape(agent.init_state, jax.random.key(0)).params
    leaves, tree = jax.tree.flatten(params)

    def act(leaves: Leaves, obs: Any) -> Any:
        state = agent.init_state(jax.random.key(0))
        state = state.replace(params=tree.unflatten(leaves))
        keys = jax.random.split(jax.random.key(0), 1)
        memory = jax.vmap(agent.init_memory)(keys, agent.init_hidden(1))
        action, _, memory = agent.batch_policy(state, obs, memory)
        return action, memory.hidden, agent.batch_end_inner(state, memory).hidden

    space = agent.observation_space
    obs = jax.ShapeDtypeStruct((1, *(space.shape or ())), spaces.dtype_of(space))
    traced = jax.make_jaxpr(act)(leaves, obs).jaxpr
    needed = {v for v in traced.outvars if not hasattr(v, "val")}
    for equation in reversed(traced.eqns):
        if needed.intersection(equation.outvars):
            needed |= {v for v in equation.invars if not hasattr(v, "val")}
    used = tuple(v in needed for v in traced.invars[: len(leaves)])
    if not any(used):
        raise ValueError(
            f"{type(agent).__name__} has no parameters that its actions depend on: "
            "evolution has nothing to search"
        )
    return used


def taken(agent: Agent, params: Any) -> Leaves:
    """Returns the searched leaves of an agent's parameters."""
    used = used_by_policy(agent)
    leaves = jax.tree.leaves(params)
    return [leaf for leaf, u in zip(leaves, used, strict=True) if u]


def put(agent: Agent, params: Any, searched: Leaves) -> Any:
    """Returns an agent's parameters with other searched leaves."""
    used = used_by_policy(agent)
    leaves, tree = jax.tree.flatten(params)
    new = iter(searched)
    return tree.unflatten(
        next(new) if u else leaf for leaf, u in zip(leaves, used, strict=True)
    )


def shapes(agent: Agent) -> list[Any]:
    """Returns the shapes of the searched leaves of an agent's parameters."""
    params = jax.eval_shape(agent.init_state, jax.random.key(0)).params
    return taken(agent, params)


def num_searched(agent: Agent) -> int:
    """Returns how many numbers a search has to find."""
    return sum(leaf.size for leaf in shapes(agent))


def names(agent: Agent) -> tuple[str, ...]:
    """Returns the names of the searched leaves."""
    params = jax.eval_shape(agent.init_state, jax.random.key(0)).params
    paths = [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]
    ]
    used = used_by_policy(agent)
    return tuple(path for path, u in zip(paths, used, strict=True) if u)
