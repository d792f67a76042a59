"""Play of a population: one trial for every member, and the members' fitness."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, PyTree

from paxenv import spaces
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.engine.episodes import Episodes
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.engine.play import Running, Trial
from paxenv_agents.types import Stats, TrainingState
from runners.engine import placement

Leaves = list[jax.Array]


def used_by_policy(agent: Agent) -> tuple[bool, ...]:
    """Returns for each leaf of an agent's parameters whether its actions depend on it.

    Parameters that affect neither the action nor the memory are not searched: a critic,
    a value head, a target network. The result is read off the traced `policy`, so it
    holds for agents unknown to this package; a dependence that cannot be ruled out
    counts as one.

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
            f"the actions of {type(agent).__name__} depend on no parameters, so "
            "evolution has nothing to search"
        )
    return used


def taken(agent: Agent, params: PyTree) -> Leaves:
    """Returns the searched leaves of an agent's parameters."""
    used = used_by_policy(agent)
    leaves = jax.tree.leaves(params)
    return [leaf for leaf, u in zip(leaves, used, strict=True) if u]


def with_searched(agent: Agent, params: PyTree, searched: Leaves) -> PyTree:
    """Returns an agent's parameters with other searched leaves."""
    used = used_by_policy(agent)
    leaves, tree = jax.tree.flatten(params)
    new = iter(searched)
    return tree.unflatten(
        next(new) if u else leaf for leaf, u in zip(leaves, used, strict=True)
    )


def shapes(agent: Agent) -> Leaves:
    """Returns the shapes of the searched leaves of an agent's parameters."""
    params = jax.eval_shape(agent.init_state, jax.random.key(0)).params
    return taken(agent, params)


def names(agent: Agent) -> tuple[str, ...]:
    """Returns the names of the searched leaves."""
    params = jax.eval_shape(agent.init_state, jax.random.key(0)).params
    paths = [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]
    ]
    used = used_by_policy(agent)
    return tuple(path for path, u in zip(paths, used, strict=True) if u)


class Population(NamedTuple):
    """The members of one search, in the place of a training state.

    Attributes:
        agent: The training state that the members share.
        solutions: The searched leaves of their parameters, `[members, ...]`.
    """

    agent: TrainingState
    solutions: Leaves


#: The population or the training state that plays in a slot.
Member = Population | TrainingState
#: From (training states, number of the member whose keys are used) to a trial.
Play = Callable[[tuple[TrainingState, ...], jax.Array], Trial]


class Evolving(Protocol):
    """The properties of an `Evolution` that the play of its populations reads."""

    @property
    def num_members(self) -> int:
        """Members of each population."""
        ...

    @property
    def matchups(self) -> tuple[tuple[int, ...], ...]:
        """The slots that send a population into the same games, group by group."""
        ...

    @property
    def common_random_numbers(self) -> bool:
        """Whether members share the keys of their games."""
        ...

    @property
    def objective(self) -> str:
        """`"mean"` over the trial, or over its `"last"` inner episode."""
        ...


class Generation(NamedTuple):
    """The play of a generation: sums only, whatever the number of inner episodes.

    The first five fields are those of a `Trial` against all opponents of all members.

    Attributes:
        states: (); the training states of co-players are dropped after a trial.
        experiences: None for each slot.
        episodes: Over the inner episodes, leaves `[members * opponents, games, ...]`.
        totals: The games' statistics, leaves `[members * opponents, ...]`.
        stats: Reports of co-players' updates, leaves `[members * opponents]`.
        solutions: For each slot the searched leaves of its members, or None.
        fitness: For each slot the fitness of its members, `[members]`, or None.
    """

    states: tuple[()]
    experiences: tuple[None, ...]
    episodes: Episodes
    totals: Any
    stats: tuple[Stats, ...]
    solutions: tuple[Leaves | None, ...]
    fitness: tuple[Float[Array, " members"] | None, ...]


def play_population(
    evolution: Evolving,
    slots: tuple[Slot, ...],
    members: tuple[Member, ...],
    play: Play,
    mesh: Mesh | None = None,
) -> Generation:
    """Plays one trial for every member of every population.

    Args:
        evolution: The outer optimiser of an experiment.
        slots: The slots.
        members: For each slot a `Population`, or a training state.
        play: From (training states, number of the member whose keys are used) to a
            trial of all opponents, whose `episodes` are a `Running`.
        mesh: Devices over which the members are spread; None: the default device.
    """
    numbers = jnp.arange(evolution.num_members)
    axis = None if evolution.common_random_numbers else 0
    member = numbers[0] if axis is None else numbers
    last = evolution.objective == "last"
    found = tuple(getattr(member, "solutions", None) for member in members)
    fitness: list[jax.Array | None] = [None] * len(slots)
    parts = []
    for group in evolution.matchups:
        solutions = tuple(
            placement.members_on(mesh, of_slot) if i in group else None
            for i, of_slot in enumerate(found)
        )
        one = functools.partial(_play_member, slots, last, members, play)
        part, rewards = jax.vmap(one, in_axes=(0, axis))(solutions, member)
        parts.append(part)
        for i in group:
            seats = jnp.asarray(slots[i].players)
            fitness[i] = jnp.mean(rewards[:, seats], axis=1)
    episodes, totals, stats = jax.tree.map(_joined, *parts)
    return Generation(
        states=(),
        experiences=(None,) * len(slots),
        episodes=episodes,
        totals=totals,
        stats=stats,
        solutions=found,
        fitness=tuple(fitness),
    )


def _play_member(
    slots: tuple[Slot, ...],
    last: bool,
    members: tuple[Member, ...],
    play: Play,
    solutions: tuple[Leaves | None, ...],
    number: jax.Array,
) -> tuple[Any, jax.Array]:
    """Returns (sums over one member's trials, mean rewards `[players]`)."""
    states = []
    for slot, member, solution in zip(slots, members, solutions, strict=True):
        state = member.agent if isinstance(member, Population) else member
        if solution is not None:
            params = with_searched(slot.agent, state.params, solution)
            state = state.replace(params=params)
        states.append(state)
    trial = play(tuple(states), number)
    kept = trial.episodes
    assert isinstance(kept, Running)
    counted = kept.last if last else kept.total
    # [opponents, games, players] and [opponents, games]
    steps = jnp.maximum(jnp.sum(counted.length), 1)
    rewards = jnp.sum(counted.returns, axis=(0, 1)) / steps
    return (kept.total, trial.totals, trial.stats), rewards


def _joined(*parts: jax.Array) -> jax.Array:
    """Joins groups: leaves [members, opponents, ...] -> [groups * m * o, ...]."""
    flat = [x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]) for x in parts]
    return flat[0] if len(flat) == 1 else jnp.concatenate(flat)
