"""The parameters that a search may change: those on which actions depend."""

import functools
from typing import Any

import jax

from paxenv_agents.agent import Agent

Leaves = list[jax.Array]


@functools.cache
def used_by_policy(agent: Agent) -> tuple[bool, ...]:
    """Returns for each leaf of an agent's parameters whether its actions depend on it.

    A critic, a value head or a target network is none of them. Read off the traced
    `policy`; where a dependence cannot be ruled out, it counts.

    Raises:
        ValueError: If there are no such parameters.
    """
    params = jax.eval_shape(agent.init_state, jax.random.key(0)).params
    leaves, tree = jax.tree.flatten(params)

    def act(leaves: Leaves, obs: Any) -> Any:
        state = agent.init_state(jax.random.key(0))
        state = state.replace(params=tree.unflatten(leaves))
        lanes = jax.random.split(jax.random.key(0), 1)
        memory = jax.vmap(agent.init_memory)(lanes, agent.init_hidden(1))
        action, _, memory = agent.batch_policy(state, obs, memory)
        return action, memory.hidden, agent.batch_end_inner(state, memory).hidden

    space = agent.observation_space
    obs = jax.ShapeDtypeStruct((1, *(space.shape or ())), space.dtype)
    traced = jax.make_jaxpr(act)(leaves, obs).jaxpr
    needed = {v for v in traced.outvars if not hasattr(v, "val")}
    for equation in reversed(traced.eqns):
        if needed.intersection(equation.outvars):
            needed |= {v for v in equation.invars if not hasattr(v, "val")}
    used = tuple(v in needed for v in traced.invars[: len(leaves)])
    if not any(used):
        raise ValueError(
            f"{type(agent).__name__} has no parameters on which its actions depend: "
            "'parameters' is no search target of it"
        )
    return used


def taken(agent: Agent, params: Any) -> Leaves:
    """Returns the leaves of an agent's parameters that are searched."""
    leaves = jax.tree.leaves(params)
    return [x for x, used in zip(leaves, used_by_policy(agent), strict=True) if used]


def put(agent: Agent, params: Any, searched: Leaves) -> Any:
    """Returns an agent's parameters with other searched leaves."""
    leaves, tree = jax.tree.flatten(params)
    new = iter(searched)
    return tree.unflatten(
        next(new) if used else x
        for x, used in zip(leaves, used_by_policy(agent), strict=True)
    )
