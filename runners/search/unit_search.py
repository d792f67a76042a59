"""A search over coordinates that are scaled part by part."""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Key, PyTree

from paxenv_agents.types import Stats
from runners.search import strategies
from runners.search.options import ESOptions
from runners.search.outer_options import ESConfig
from runners.search.search import Search, SearchState
from runners.search.space import Solution

#: Adam's memory of gradients: a search around training has few generations.
BETA_1 = 0.9


class UnitSearch(struct.PyTreeNode):
    """A search that begins at a solution; a larger fitness is better.

    A solution is `start + sigma * u`: the strategy searches `u`, from mean 0 and with
    spread 1. So `sigma` means the same for every strategy, and may differ between
    parameters and hyperparameters.

    Attributes:
        search: The search over `u`.
        start: The solution at which the search begins.
        sigma: The units: a pytree of numbers that is a prefix of a solution.
    """

    search: Search = struct.field(pytree_node=False)
    start: Solution
    sigma: PyTree[float]

    @property
    def num_dims(self) -> int:
        """Numbers of a solution."""
        return sum(jnp.size(x) for x in jax.tree.leaves(self.start))

    def begin(self, key: Key[Array, ""]) -> SearchState:
        """Returns the state before the first generation; consumes the key."""
        return self.search.begin(key, self._origin)

    def ask(
        self, key: Key[Array, ""], state: SearchState
    ) -> tuple[Solution, Solution, SearchState]:
        """Returns (coordinates `u`, solutions, state); consumes the key.

        Leaves are `[population, ...]`; the coordinates are for `tell`.
        """
        units, asked = self.search.ask(key, state, self._origin)
        return units, self._solutions(units), asked

    def tell(
        self,
        key: Key[Array, ""],
        state: SearchState,
        units: Solution,
        fitness: Float[Array, " population"],
    ) -> tuple[SearchState, Stats]:
        """Returns (state, statistics) after a generation, as `Search.tell` does.

        Args:
            key: Consumed.
            state: The state that `ask` returned.
            units: The coordinates that `ask` returned.
            fitness: `[population]`, larger is better.
        """
        return self.search.tell(key, state, units, fitness)

    def mean(self, state: SearchState) -> Solution:
        """Returns the solution at the mean of the search, or its best member."""
        return self._solutions(self.search.mean(state, self._origin))

    def _solutions(self, units: Solution) -> Solution:
        return jax.tree.map(
            lambda sigma, x, u: jax.tree.map(lambda a, b: a + sigma * b, x, u),
            *(self.sigma, self.start, units),
        )

    @property
    def _origin(self) -> Solution:
        return jax.tree.map(jnp.zeros_like, self.start)


def make_search(config: ESConfig) -> Search:
    """Returns the search of a config over scaled coordinates.

    Raises:
        ValueError: If the strategy does not suit the config.
    """
    strategy = strategies.find(config.strategy)
    own = {}
    if strategy.spread_options:
        own["sigma_init"] = 1.0
    if strategy.family == strategies.GRADIENT:
        own["beta_1"] = BETA_1
    return Search(
        ESOptions(
            strategy=config.strategy,
            population_size=config.population_size,
            num_generations=config.iterations,
            learning_rate=config.learning_rate,
            fitness_shaping=config.fit_shaper,
            top_k=1,
            **own,
        )
    )
