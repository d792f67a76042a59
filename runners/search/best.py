"""The best member of a search: found among the kept members, then played again."""

import dataclasses
import functools
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from paxenv_agents.types import TrainingState
from runners.engine import population
from runners.engine.experiment import Experiment, RunState
from runners.engine.program import CompiledProgram
from runners.engine.statistics import Estimate, estimates
from runners.search.evolution import Evolution, EvolutionState
from runners.search.search import Archive

#: In place of `env_steps`: gives all evaluations that choose a member the same keys.
PROGRESS = 0


class Measured(Protocol):
    """The measurements of an evaluation."""

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """Values `[seeds]` by name."""
        ...


class Evaluates(Protocol):
    """The interface that plays agents without learning: a run's `Evaluation`."""

    def play(
        self, agents: tuple[TrainingState, ...], env_steps: int | None = None
    ) -> Measured:
        """Plays agents of all seeds; `env_steps` give the evaluation its keys."""
        ...


@dataclasses.dataclass(frozen=True)
class BestMember:
    """The best member of one search, seed by seed.

    Attributes:
        slot: The slot of the search, from 0.
        player: The slot's first player, from 1.
        params: Parameters of the agent, leaves `[seeds, ...]`.
        metrics: Its results by name, on keys other than those of the choice.
        fitness: Its fitness in its own generation, `[seeds]`.
        generation: The number of that generation, from 0, `[seeds]`.
    """

    slot: int
    player: int
    params: Any
    metrics: dict[str, Estimate]
    fitness: tuple[float, ...]
    generation: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for `results.json`."""
        return {
            "generation": list(self.generation),
            "fitness_in_its_generation": list(self.fitness),
            "metrics": {name: x.as_dict() for name, x in self.metrics.items()},
        }


def best_members(
    evaluation: Evaluates, program: CompiledProgram
) -> tuple[BestMember, ...]:
    """Returns the best member of each search.

    A member that was first in its generation may have been lucky, so all kept members
    play once more, on the same keys; the best of these is reported on new keys. With
    several searches the other agents are the means of their searches.

    Args:
        evaluation: The `Evaluation` of the run.
        program: The program at the end of the run.
    """
    outer, state = program.experiment.outer, program.state
    assert isinstance(outer, Evolution)
    assert isinstance(state.outer, EvolutionState)
    return tuple(
        _best_of(evaluation, program.experiment, state, i, state.outer.searches[i].best)
        for i, search in enumerate(outer.searches)
        if search is not None
    )


def _best_of(
    evaluation: Evaluates,
    experiment: Experiment,
    state: RunState,
    index: int,
    kept: Archive,
) -> BestMember:
    slot, agents = experiment.slots[index], state.agents
    names = [f"episode/reward_per_step/player_{p + 1}" for p in slot.players]

    def with_places(places: jax.Array) -> tuple[TrainingState, ...]:
        seeds = jnp.arange(places.shape[0])
        chosen = jax.tree.map(lambda x: x[seeds, places], kept.solutions)
        put = functools.partial(population.with_searched, slot.agent)
        member = agents[index].replace(
            params=jax.vmap(put)(agents[index].params, chosen)
        )
        return (*agents[:index], member, *agents[index + 1 :])

    seeds, k = kept.fitness.shape
    scores = []
    for place in range(k):
        played = evaluation.play(with_places(jnp.full(seeds, place)), PROGRESS).metrics
        scores.append(np.mean([played[name] for name in names], axis=0))
    exists = np.isfinite(np.asarray(kept.fitness)).T
    places = np.argmax(np.where(exists, np.nan_to_num(scores, nan=-np.inf), -np.inf), 0)
    agents_of_best = with_places(jnp.asarray(places))
    rows = np.arange(seeds)
    return BestMember(
        slot=index,
        player=min(slot.players) + 1,
        params=agents_of_best[index].params,
        metrics=estimates(evaluation.play(agents_of_best).metrics),
        fitness=tuple(np.asarray(kept.fitness)[rows, places].tolist()),
        generation=tuple(np.asarray(kept.generation)[rows, places].tolist()),
    )
