"""Evolution as an outer optimiser: populations play, and searches learn from it."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax

from paxenv.wording import counted
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.types import Stats, TrainingState
from runners.engine import population
from runners.engine.outer import OuterOptimiser, OuterState
from runners.engine.population import Generation, Member, Population
from runners.search.options import ESOptions
from runners.search.search import Search, SearchState


class EvolutionState(OuterState):
    """The state of an evolution.

    Attributes:
        agents: As in `OuterState`; the parameters of a searched agent are the mean of
            its search.
        searches: For each slot its `SearchState`, () where there is none.
    """

    searches: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Evolution(OuterOptimiser[EvolutionState, Generation]):
    """Searches the parameters of one agent or several by evolution strategies: `evo`.

    In each generation every member of a population plays one trial, against opponents
    that get a new training state and are the same for all members. A member's fitness
    is its mean reward per step. Only parameters that `policy` uses are searched.

    Attributes:
        searches: For each slot its search, None where there is none.
        objective: `"mean"` over the trial, or over its `"last"` inner episode.
        common_random_numbers: Whether members share the keys of their games, which are
            new in each generation in any case.
        opponent: With several searches, whether member k meets the other's `"member"`
            k, or the other's `"mean"`.
    """

    searches: tuple[Search | None, ...]
    objective: str = "mean"
    common_random_numbers: bool = True
    opponent: str = "member"

    def __post_init__(self) -> None:
        ESOptions(objective=self.objective, opponent=self.opponent)
        object.__setattr__(self, "searches", tuple(self.searches))
        sizes = {s.options.population_size for s in self.searches if s is not None}
        if not sizes:
            raise ValueError("evolution has no search: give one for at least one slot")
        if len(sizes) > 1 and self.opponent == "member":
            raise ValueError(
                f"members meet one by one, but the populations are of {sorted(sizes)}: "
                "use one population_size, or opponent='mean'"
            )
        if len(sizes) > 1:
            raise ValueError(f"populations must be of one size, got {sorted(sizes)}")

    @property
    def num_members(self) -> int:
        return next(s.options.population_size for s in self.searches if s is not None)

    @property
    def num_trials(self) -> int:
        return self.num_members * len(self.matchups)

    @property
    def matchups(self) -> tuple[tuple[int, ...], ...]:
        """The slots that send a population into the same games, group by group."""
        searched = tuple(i for i, s in enumerate(self.searches) if s is not None)
        if self.opponent == "mean":
            return tuple((i,) for i in searched)
        return (searched,)

    def check(self, lineup: Lineup) -> None:
        if len(self.searches) != len(lineup.slots):
            raise ValueError(
                f"evolution has {counted(len(self.searches), 'entry')} for "
                f"{counted(len(lineup.slots), 'slot')}: give each a Search or None"
            )
        for i, (slot, search) in enumerate(
            zip(lineup.slots, self.searches, strict=True)
        ):
            seats = ", ".join(f"player {player + 1}" for player in slot.players)
            who = f"agent{i + 1} ({type(slot.agent).__name__}, {seats})"
            if slot.self_play_players:
                raise ValueError(
                    f"{who} plays others by self-play, but the fitness of a member "
                    "is the reward of its own play: leave self-play out"
                )
            if search is not None:
                search.check(population.shapes(slot.agent))
                if slot.learns or slot.per_opponent or slot.reset != "never":
                    raise ValueError(
                        f"{who} is searched: it needs clock='none', one state for all "
                        "opponents, and reset='never'"
                    )
                continue
            if not slot.learns:
                continue
            if lineup.clock(i) != "inner":
                raise ValueError(
                    f"{who} would never learn: under evolution a learner updates after "
                    "each inner episode, so it needs clock=inner, and num_outer_steps "
                    "of 2 or more"
                )
            if slot.reset_interval != 1:
                raise ValueError(
                    f"{who} must start anew in each trial (reset='trial'): what it "
                    "learnt from one member must not affect the next"
                )

    def begin(
        self, key: jax.Array, lineup: Lineup, agents: tuple[TrainingState, ...]
    ) -> EvolutionState:
        states = list(agents)
        searches: list[Any] = [()] * len(agents)
        for i, slot, search in self._searched(lineup):
            start = population.taken(slot.agent, agents[i].params)
            searches[i] = search.begin(_seat_key(key, slot), start)
            states[i] = _standing(search, slot, agents[i], searches[i])
        return EvolutionState(agents=tuple(states), searches=tuple(searches))

    def ask(
        self, key: jax.Array, outer: EvolutionState, lineup: Lineup
    ) -> tuple[tuple[Member, ...], EvolutionState]:
        members: list[Member] = list(outer.agents)
        searches = list(outer.searches)
        for i, slot, search in self._searched(lineup):
            solution = population.taken(slot.agent, outer.agents[i].params)
            solutions, searches[i] = search.ask(
                _seat_key(key, slot), outer.searches[i], solution
            )
            members[i] = Population(outer.agents[i], solutions)
        return tuple(members), outer.replace(searches=tuple(searches))

    def tell(
        self, key: jax.Array, outer: EvolutionState, lineup: Lineup, trial: Generation
    ) -> tuple[EvolutionState, tuple[Stats, ...]]:
        agents, searches = list(outer.agents), list(outer.searches)
        stats: list[Stats] = [{}] * len(lineup.slots)
        for i, slot, search in self._searched(lineup):
            fitness = trial.fitness[i]
            assert fitness is not None
            searches[i], stats[i] = search.tell(
                _seat_key(key, slot), outer.searches[i], trial.solutions[i], fitness
            )
            agents[i] = _standing(search, slot, outer.agents[i], searches[i])
        after = outer.replace(agents=tuple(agents), searches=tuple(searches))
        return after, tuple(stats)

    def _searched(self, lineup: Lineup) -> Iterator[tuple[int, Slot, Search]]:
        """Yields the slots that are searched, each with its number and its search."""
        every = enumerate(zip(lineup.slots, self.searches, strict=True))
        for i, (slot, search) in every:
            if search is not None:
                yield i, slot, search


def _seat_key(key: jax.Array, slot: Slot) -> jax.Array:
    return jax.random.fold_in(key, min(slot.players))


def _standing(
    search: Search, slot: Slot, agent: TrainingState, state: SearchState
) -> TrainingState:
    """Returns the training state of a search's mean."""
    solution = population.taken(slot.agent, agent.params)
    mean = search.mean(state, solution)
    return agent.replace(
        params=population.with_searched(slot.agent, agent.params, mean)
    )
