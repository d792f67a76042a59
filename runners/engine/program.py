"""An experiment compiled for all seeds at once: whole chunks, or stage by stage."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from paxenv import keys
from paxenv.missing import flagged, on_host, restored, stops_at_nan
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.types import TrainingState
from runners.engine import placement, tags
from runners.engine.experiment import (
    Experiment,
    RunState,
    map_axis,
    rollout,
    train_chunk,
    update,
)

Rows = dict[str, np.ndarray]


def run_keys(seed: int, num_seeds: int = 1) -> jax.Array:
    """Returns each seed's run key, `[seeds]`: `fold_in(keys.of_seed(seed), i)`."""
    return keys.folds(keys.of_seed(seed), num_seeds)


def evaluation_keys(
    seed: int, num_seeds: int = 1, env_steps: int | None = None
) -> jax.Array:
    """Returns the key of an evaluation for every seed, `[seeds]`.

    Args:
        seed: The run's seed.
        num_seeds: Repetitions.
        env_steps: As of `tags.evaluation_key`.
    """
    evaluated = functools.partial(tags.evaluation_key, env_steps=env_steps)
    return jax.vmap(evaluated)(run_keys(seed, num_seeds))


def initial_state(experiment: Experiment, keys: jax.Array, params: PyTree) -> RunState:
    """Returns the state before the first iteration, leaves `[seeds, ...]`.

    Args:
        experiment: The experiment.
        keys: The run keys, `[seeds]`.
        params: The game's numbers, the same for all seeds.
    """
    # One compile instead of one for each operation of an initialiser.
    return _init(experiment, keys, params)


@structure.jit("experiment")
def _init(experiment: Experiment, keys: jax.Array, params: PyTree) -> RunState:
    return map_axis(experiment.init, (0, None), keys.shape[0])(keys, params)


class Program(Protocol):
    """The interface by which a session advances and saves a computation.

    Loops and checkpoints need no more. Training (`StagedProgram`), an inner loop
    (`runners.AgentHandle`) and the generations around it
    (`runners.views.outer_loops.es_runner`) are such programs.

    Attributes:
        iteration: Iterations that have been run.
    """

    iteration: int

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration of one seed."""
        ...

    @property
    def max_iterations(self) -> int:
        """The most iterations of one call of `run`."""
        ...

    @property
    def env_steps(self) -> int:
        """Environment steps of one seed so far."""
        ...

    def run(self, num_iterations: int) -> Rows:
        """Runs iterations and returns their metrics, `[seeds, iterations]`."""
        ...

    def arrays(self) -> PyTree:
        """Returns everything that resuming needs, a pytree of arrays."""
        ...

    def about(self) -> dict[str, Any]:
        """Returns the part of the state that is no array, as JSON; by default empty."""
        return {}

    def template(self, about: Mapping[str, Any]) -> PyTree:
        """Returns a pytree like that of `arrays`, to read it from a file.

        Args:
            about: The result of `about` when it was saved.
        """
        del about
        return self.arrays()

    def restore(self, arrays: PyTree, about: Mapping[str, Any]) -> None:
        """Continues from what `arrays` and `about` returned."""
        ...


class StagedProgram(Program, Protocol):
    """A program of agents in slots, whose iterations can be run in two stages.

    There are three: `CompiledProgram`, one that learns from replay in host memory
    (`runners.session.host_replay`), and one that plays an environment of Gymnasium
    (`runners.session.host_play`).

    Attributes:
        state: The state that most of them save, leaves `[seeds, ...]`.
    """

    state: RunState

    @property
    def env_steps(self) -> int:
        """Environment steps of one seed so far."""
        return self.iteration * self.steps_per_iteration

    def arrays(self) -> PyTree:
        """Returns the state."""
        return self.state

    def restore(self, arrays: PyTree, about: Mapping[str, Any]) -> None:
        """Continues from the state that was saved."""
        del about
        self.load(arrays)

    @property
    def agent(self) -> Agent:
        """The agent of the first slot."""
        ...

    @property
    def num_games(self) -> int:
        """Games that are played at once."""
        ...

    @property
    def learner(self) -> Any:
        """The training state of the first slot in the first seed."""
        return jax.tree.map(lambda x: x[0], self.state.agents[0])

    def rollout(self) -> Rows:
        """Runs the first stage of an iteration; metrics are `[seeds, 1]`."""
        ...

    def update(self) -> Rows:
        """Runs the second stage of an iteration; metrics are `[seeds, 1]`."""
        ...

    def load(self, state: RunState) -> None:
        """Continues from another state; its buffers are copied."""
        ...

    def set_agents(self, states: dict[int, TrainingState]) -> None:
        """Puts other training states into slots, leaves `[seeds, ...]`."""
        ...

    def set_agent(self, agent: Agent) -> None:
        """Puts another agent of the same training state into the first slot."""
        ...


class SteppedProgram(StagedProgram, Protocol):
    """A program of one agent in one seed, whose iterations are run by the host.

    Attributes:
        state: Leaves `[1, ...]`.
        iteration: Iterations that have been run.
    """

    state: RunState
    iteration: int

    @property
    def max_iterations(self) -> int:
        """The most iterations of one call of `run`."""
        return 1

    def run(self, num_iterations: int) -> Rows:
        """Runs both stages of one iteration; metrics are `[1, 1]`."""
        if num_iterations != 1:
            raise ValueError(f"a call runs 1 iteration, not {num_iterations}")
        return self.rollout() | self.update()

    def set_agents(self, states: dict[int, Any]) -> None:
        """Replaces the training state by another one, leaves `[1, ...]`."""
        self.state = with_agents(self.state, jax.tree.map(jnp.copy, states))

    def end_iteration(self, learner: Any, **parts: Any) -> None:
        """Ends an iteration.

        Args:
            learner: The training state after it, leaves without an axis of seeds.
            **parts: Other changed parts of the state, by field.
        """
        agents = (jax.tree.map(lambda x: x[None], learner),)
        self.iteration += 1
        self.state = self.state.replace(
            iteration=self.state.iteration + 1,
            outer=self.state.outer.replace(agents=agents),
            **parts,
        )


class CompiledProgram(StagedProgram):
    """An experiment, the state of all its seeds, and the calls that advance it.

    `run` takes many iterations in one compiled call. `rollout` and `update` take one
    in two calls, with the same keys. Each call consumes the current state: keep copies,
    not references.

    Attributes:
        experiment: The experiment.
        state: Leaves `[seeds, ...]`, on the device.
        iteration: Iterations that have been run.
    """

    def __init__(self, experiment: Experiment, state: RunState) -> None:
        self.experiment = experiment
        self._lowered: Any = None
        self._compiled: Any = None
        self._played: Any = None
        self.load(state)

    def load(self, state: RunState) -> None:
        """Continues from another state; its buffers are copied."""
        mesh = self.experiment.mesh
        if mesh is None:
            self.state = _copied(state)
        else:
            # Compiled, since other processes may hold a part of the state.
            places = _shardings(mesh, state)
            self.state = jax.jit(_copied, out_shardings=places)(state)
        self.iteration = int(np.asarray(state.iteration)[0])

    @property
    def agent(self) -> Agent:
        """The agent of the first slot."""
        return self.experiment.slots[0].agent

    @property
    def num_games(self) -> int:
        """Games that are played at once against each opponent."""
        return self.experiment.num_games

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration of one seed."""
        return self.experiment.steps_per_iteration

    @property
    def max_iterations(self) -> int:
        """The most iterations of one call of `run`."""
        return self.experiment.chunk_size

    def set_agent(self, agent: Agent) -> None:
        """Puts another agent of the same training state into the first slot.

        The next call of `run` compiles anew.
        """
        first, *others = self.experiment.slots
        slots = (dataclasses.replace(first, agent=agent), *others)
        self.experiment = dataclasses.replace(self.experiment, slots=slots)
        self._lowered = self._compiled = None

    def trace(self) -> None:
        """Checks that all shapes fit together, before anything is compiled.

        Raises:
            ValueError: If shapes do not fit, such as those of a batch and minibatches.
        """
        chunk = self._chunk()
        self._lowered = chunk.lower(self.experiment, self.state, jnp.int32(1))

    def _chunk(self) -> Any:
        mesh = self.experiment.mesh
        if mesh is None:
            return _chunk
        # The compiler must not move the state to other devices.
        stay = (_shardings(mesh, self.state), None)
        return _chunk.with_options(out_shardings=stay)

    def compile(self) -> None:
        """Compiles `run`."""
        if stops_at_nan():
            # Only a function that JAX itself calls is checked for NaN.
            self._compiled = self._chunk()
            return
        if self._lowered is None:
            self.trace()
        lowered: Any = self._lowered
        self._compiled = lowered.compile()

    def run(self, num_iterations: int) -> Rows:
        """Runs iterations and returns their metrics, float32 `[seeds, iterations]`.

        Args:
            num_iterations: At most `experiment.chunk_size`.
        """
        if not 1 <= num_iterations <= self.experiment.chunk_size:
            raise ValueError(
                f"num_iterations must be in [1, {self.experiment.chunk_size}], the "
                f"chunk size, got {num_iterations}"
            )
        if self._compiled is None:
            self.compile()
        run: Any = self._compiled
        number = jnp.int32(num_iterations)
        try:
            state, rows = run(self.experiment, self.state, number)
        except FloatingPointError:
            self._find_nan(num_iterations)
            raise
        self.state, self.iteration = state, self.iteration + num_iterations
        return {k: v[:, :num_iterations] for k, v in on_host(rows).items()}

    def _find_nan(self, num_iterations: int) -> None:
        """Raises where a NaN arises, stage by stage: a chunk is one operation.

        JAX consumes no state while its flag is set, so the iterations can be repeated.
        """
        for _ in range(num_iterations):
            try:
                self.rollout()
                self.update()
            except FloatingPointError as error:
                error.add_note(
                    f"JAX's flag jax_debug_nans stopped update {self.iteration + 1}"
                )
                raise

    def rollout(self) -> Rows:
        """Runs the first stage of an iteration; metrics are `[seeds, 1]`."""
        self._played, row = _rollout(self.experiment, self.state)
        return {k: v[:, None] for k, v in on_host(row).items()}

    def update(self) -> Rows:
        """Runs the second stage of an iteration; metrics are `[seeds, 1]`.

        Raises:
            RuntimeError: If `rollout` has not been run before.
        """
        if self._played is None:
            raise RuntimeError("there is nothing to learn from: call rollout() first")
        played, self._played = self._played, None
        self.state, row = _update(self.experiment, self.state, played)
        self.iteration += 1
        return {k: v[:, None] for k, v in on_host(row).items()}

    def set_agents(self, states: dict[int, TrainingState]) -> None:
        """Puts other training states into slots, also between the two stages.

        Args:
            states: Training states by slot, leaves `[seeds, ...]`; they are copied.

        Raises:
            ValueError: If a shape is not the slot's.
        """
        self.state = with_agents(self.state, jax.tree.map(jnp.copy, states))
        if self._played is None:
            return
        # `update` consumes the state, so the rollout needs copies of its own.
        agents = jax.tree.map(jnp.copy, self.state.agents)
        self._played = self._played._replace(
            play=self._played.play._replace(states=agents),
            outer=self._played.outer.replace(agents=agents),
        )

    def agents(self, seed_index: int) -> tuple[TrainingState, ...]:
        """Returns one seed's training states, in the order of the slots."""
        return jax.tree.map(lambda x: x[seed_index], self.state.agents)


def _shardings(mesh: Mesh, state: RunState) -> RunState:
    """Returns the sharding of every leaf of a `RunState` of all seeds.

    Games `[seeds, opponents, games, ...]` are spread, large parameters divided, and
    everything else lies on every device.
    """
    whole = NamedSharding(mesh, PartitionSpec())
    spread = NamedSharding(mesh, PartitionSpec(None, None, placement.AXES))

    def of_learner(leaf: Any) -> NamedSharding:
        one_seed = jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)
        spec = placement.fsdp_sharding(one_seed, mesh).spec
        return NamedSharding(mesh, PartitionSpec(None, *spec)) if spec else whole

    placed = jax.tree.map(lambda _: whole, state)
    agents = jax.tree.map(of_learner, state.outer.agents)
    return placed.replace(
        outer=placed.outer.replace(agents=agents),
        stream=jax.tree.map(lambda _: spread, state.stream),
    )


def _copied(state: RunState) -> RunState:
    return jax.tree.map(jnp.copy, state)


@structure.jit("experiment", donate=("state",))
def _chunk(
    experiment: Experiment, state: RunState, num_iterations: jax.Array
) -> tuple[RunState, Any]:
    def run(state: RunState) -> Any:
        return train_chunk(experiment, state, num_iterations)

    state, rows = map_axis(run, (0,), state.iteration.shape[0])(state)
    return state, flagged(rows)


@structure.jit("experiment")
def _rollout(experiment: Experiment, state: RunState) -> Any:
    play = functools.partial(rollout, experiment)
    played, row = map_axis(play, (0,), state.iteration.shape[0])(state)
    return _with_stats(played, flagged), flagged(row)


@structure.jit("experiment", donate=("state",))
def _update(experiment: Experiment, state: RunState, played: Any) -> Any:
    learn = functools.partial(update, experiment)
    played = _with_stats(played, restored)
    state, row = map_axis(learn, (0, 0), state.iteration.shape[0])(state, played)
    return state, flagged(row)


def _with_stats(played: Any, change: Callable[[Any], Any]) -> Any:
    """Returns the play with the reports of its updates changed."""
    play = played.play
    return played._replace(play=play._replace(stats=change(play.stats)))


def with_agents(state: RunState, states: dict[int, TrainingState]) -> RunState:
    """Returns the state with other training states in some slots.

    Buffers are shared with the arguments; a `CompiledProgram` copies them.

    Args:
        state: The state of all seeds.
        states: Training states by slot, leaves `[seeds, ...]`.

    Raises:
        ValueError: If a shape is not the slot's.
    """
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
    return jnp.asarray(new, dtype=old.dtype)
