"""A plan compiled for all seeds at once, and the loop of the host around it."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from runners.experiment import RunState, train_chunk
from runners.plan import Plan

#: Seconds between two visits of the host that the loop aims at.
CHUNK_SECONDS = 1.0
#: Tag of evaluations under a run key; 0 to 3 belong to the experiment.
EVALUATION = 4


class Chunk(NamedTuple):
    """What one visit of the host sees.

    Attributes:
        first: Number of the first iteration, from 0.
        rows: Metrics by name, float32 `[seeds, iterations of the chunk]`.
        seconds: Wall-clock seconds since the loop began, without compilation.
    """

    first: int
    rows: dict[str, np.ndarray]
    seconds: float

    @property
    def length(self) -> int:
        """The number of iterations."""
        return next(iter(self.rows.values())).shape[1]


@dataclasses.dataclass
class Program:
    """A compiled plan and where it stands.

    Attributes:
        plan: What runs.
        state: The state of all seeds, leaves `[seeds, ...]`, on the device.
        compiled: `(state, number of iterations) -> (state, rows)`; takes the state.
    """

    plan: Plan
    state: RunState
    compiled: Callable[[RunState, jax.Array], tuple[RunState, dict[str, jax.Array]]]

    def chunks(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Chunk]:
        """Runs to the end, and yields after each chunk; `stop` is asked in between.

        The length of a chunk follows from the time that the last one took; results do
        not depend on it.
        """
        first, length, start = 0, 1, time.perf_counter()
        while first < self.plan.num_iterations and not stop():
            length = min(length, self.plan.num_iterations - first)
            began = time.perf_counter()
            self.state, rows = self.compiled(self.state, jnp.int32(length))
            host = {k: np.asarray(v)[:, :length] for k, v in rows.items()}
            now = time.perf_counter()
            yield Chunk(first, host, now - start)
            first += length
            wanted = int(length * CHUNK_SECONDS / max(now - began, 1e-6))
            length = max(1, min(wanted, 4 * length, self.plan.experiment.chunk_size))

    def agents(self, seed_index: int) -> tuple[Any, ...]:
        """Returns one seed's training states, in the order of the slots."""
        return jax.tree.map(lambda x: x[seed_index], self.state.agents)


def run_keys(plan: Plan) -> jax.Array:
    """Returns the run key of every seed, `[seeds]`.

    Run i gets `fold_in(key(seed), i)`, and an evaluation that key folded once more:
    it never meets a key of training.
    """
    root = jax.random.key(plan.config.seed)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(
        root, jnp.arange(plan.config.num_seeds)
    )
    if plan.config.runner == "eval":
        keys = jax.vmap(jax.random.fold_in, (0, None))(keys, EVALUATION)
    return keys


@dataclasses.dataclass
class Traced:
    """A plan that has been traced, so that its shapes are known to fit.

    Attributes:
        plan: What will run.
        state: The state before the first iteration, leaves `[seeds, ...]`.
        lowered: The traced program.
    """

    plan: Plan
    state: RunState
    lowered: Any

    def compile(self) -> Program:
        """Returns the program, ready to run."""
        return Program(self.plan, self.state, self.lowered.compile())


def trace_plan(plan: Plan, states: dict[int, Any] | None = None) -> Traced:
    """Returns the traced plan.

    Args:
        plan: What to run.
        states: Training states to start from, by slot, leaves `[seeds, ...]`; the
            other slots start afresh.

    Raises:
        ValueError: If shapes do not fit, such as a batch and its minibatches.
    """
    experiment = plan.experiment

    def chunk(state: RunState, num_iterations: jax.Array) -> Any:
        return jax.vmap(lambda s: train_chunk(experiment, s, num_iterations))(state)

    # One compile instead of one for each operation of an initialiser.
    init = jax.jit(jax.vmap(lambda key: experiment.init(key, plan.params)))
    state = init(run_keys(plan))
    state = with_agents(state, states or {})
    lowered = jax.jit(chunk, donate_argnums=0).lower(state, jnp.int32(1))
    return Traced(plan, state, lowered)


def with_agents(state: RunState, states: dict[int, Any]) -> RunState:
    """Returns the state with copies of other training states in some slots."""
    agents = list(state.agents)
    for index, given in states.items():
        agents[index] = jax.tree.map(_fitted, agents[index], given)
    return state.replace(outer=state.outer.replace(agents=tuple(agents)))


def _fitted(old: jax.Array, new: jax.Array) -> jax.Array:
    if old.shape != new.shape:
        raise ValueError(
            f"the weights have shape {new.shape[1:]} where the agent has "
            f"{old.shape[1:]}: they belong to another agent or another game"
        )
    return jnp.array(new, dtype=old.dtype, copy=True)
