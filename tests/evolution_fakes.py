"""Searched fakes, and one generation of a population whose members are given."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.engine.play import summed_scan
from paxenv_agents.types import TrainingState
from runners.engine.experiment import Experiment, play_trials
from runners.engine.population import Population, play_population
from runners.search.evolution import Evolution
from runners.search.options import ESOptions
from runners.search.search import Search

KEY = jax.random.key(0)


@dataclasses.dataclass(frozen=True)
class Sign(Agent):
    """Defects where its one number is positive, whatever it sees."""

    def init_state(self, key):
        return TrainingState(params={"number": jnp.float32(-1)})

    def policy(self, state, obs, memory):
        positive = self.told(obs, state.params["number"]) > 0
        return positive.astype(jnp.int32), state, memory

    def told(self, obs, number):
        """Returns what decides."""
        return number


def evolving(env, slots, *, num_members=4, opponent="member", **fields):
    """Returns an experiment that searches every `Sign` among the slots."""
    search = Search(ESOptions(population_size=num_members, top_k=2))
    searches = tuple(search if isinstance(s.agent, Sign) else None for s in slots)
    return Experiment(env, slots, Evolution(searches, opponent=opponent), **fields)


def searched(agent, player=0, **fields):
    """Returns the slot of an agent that is searched."""
    return Slot(agent, (player,), clock="none", **fields)


@functools.partial(jax.jit, static_argnums=0)
def generation(made, params, solutions, e=0):
    """Returns what given members played as generation `e`.

    Args:
        made: The experiment.
        params: The game's numbers.
        solutions: For each slot its members' one number, `[members]`, or None.
        e: The generation.
    """
    state = made.init(KEY, params).replace(iteration=jnp.int32(e))
    members = tuple(
        agent if numbers is None else Population(agent, [jnp.float32(numbers)])
        for agent, numbers in zip(state.agents, solutions, strict=True)
    )
    one = functools.partial(play_trials, made, state, scan=summed_scan)
    return play_population(made.outer, made.slots, members, one)
