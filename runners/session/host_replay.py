"""Training from replay in host memory: play is compiled, learning is not.

`HostReplayProgram` is a `SteppedProgram` of `runners.engine.program` with the state and
the keys of a compiled one.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from paxenv.missing import flagged, on_host
from paxenv.wording import counted
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.learners import replay
from paxenv_agents.learners.off_policy import OffPolicy
from paxenv_agents.learners.replay import Minibatch, Transition
from paxenv_agents.types import TrainingState
from runners.engine.experiment import Experiment, RunState, map_axis, rollout
from runners.engine.program import Rows, SteppedProgram
from runners.engine.rows import update_row


def initial_state(experiment: Experiment, keys: jax.Array, params: Any) -> RunState:
    """Returns the state before the first iteration, without a ring on the device.

    Args:
        experiment: The experiment.
        keys: The run key of the one seed, `[1]`.
        params: The game's numbers.
    """
    return _init(experiment, keys, params)


class HostReplay:
    """A ring of time steps with a random generator of its own."""

    def __init__(self, capacity: int, seed: int) -> None:
        """Makes an empty ring.

        Args:
            capacity: Rows, each a time step of all games.
            seed: Of the generator that draws minibatches.
        """
        if capacity < 1:
            raise ValueError(f"capacity must be >= 1, got {capacity}")
        self.capacity = capacity
        self.head = self.filled = 0
        self._rows: Transition | None = None
        self._generator = np.random.default_rng(seed)

    def add(self, new: Transition) -> None:
        """Adds rows `[T, E, ...]`; of too many, the last ones."""
        new = jax.tree.map(lambda x: np.asarray(x)[-self.capacity :], new)
        if self._rows is None:
            self._rows = jax.tree.map(
                lambda x: np.zeros((self.capacity, *x.shape[1:]), x.dtype), new
            )
        num_rows = new.rewards.shape[0]
        index = (self.head + np.arange(num_rows)) % self.capacity
        for ring, x in zip(
            jax.tree.leaves(self._rows), jax.tree.leaves(new), strict=True
        ):
            ring[index] = x
        self.head = (self.head + num_rows) % self.capacity
        self.filled = min(self.filled + num_rows, self.capacity)

    def sample(self, batch_size: int, gamma: float, n_step: int = 1) -> Minibatch:
        """Returns transitions drawn uniformly; see `replay.sample`.

        Raises:
            ValueError: If fewer than `n_step` rows are filled.
        """
        if self._rows is None or self.filled < n_step:
            raise ValueError(
                f"a window of {counted(n_step, 'step')} needs as many rows, got "
                f"{self.filled}"
            )
        draw = self._generator.integers
        start = draw(self.filled - n_step + 1, size=batch_size)
        game = draw(self._rows.rewards.shape[1], size=batch_size)
        oldest = self.head - self.filled
        rows = (oldest + start[:, None] + np.arange(n_step)) % self.capacity
        window = jax.tree.map(lambda x: x[rows, game[:, None]], self._rows)
        return _windowed(window, gamma)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the ring and of its generator: arrays and numbers."""
        rows = [] if self._rows is None else jax.tree.leaves(self._rows)
        return {
            "rows": {str(i): x.copy() for i, x in enumerate(rows)},
            "head": self.head,
            "filled": self.filled,
            "generator": self._generator.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any], row: Transition) -> None:
        """Goes on from `state_dict`.

        Args:
            state: What `state_dict` gave.
            row: Anything of the rows' structure.
        """
        leaves = [state["rows"][str(i)].copy() for i in range(len(state["rows"]))]
        if leaves:
            self._rows = jax.tree.unflatten(jax.tree.structure(row), leaves)
        self.head, self.filled = int(state["head"]), int(state["filled"])
        self._generator.bit_generator.state = state["generator"]


class HostReplayProgram(SteppedProgram):
    """One seed of one learner from replay, whose ring lies in NumPy arrays.

    Attributes:
        experiment: The experiment, of which a call runs one iteration.
        ring: The replay buffer.
        state: Leaves `[1, ...]`; the learner's own `replay` is empty.
        iteration: Iterations that have been run.
    """

    def __init__(self, experiment: Experiment, state: RunState, seed: int) -> None:
        """Makes an empty ring.

        Args:
            experiment: Its first slot learns from replay.
            state: From `initial_state`.
            seed: Of the generator that draws minibatches.
        """
        self.experiment = dataclasses.replace(experiment, chunk_size=1)
        self._agent = cast(OffPolicy, experiment.slots[0].agent)
        self.ring = HostReplay(self._agent.config.capacity, seed)
        self._no_stats = _stats_of_no_step(self._agent, _first(state.agents[0]))
        self.load(state)

    def load(self, state: RunState) -> None:
        """Continues from another state; its buffers are copied."""
        self.state = jax.tree.map(jnp.copy, state)
        self.iteration = int(np.asarray(state.iteration)[0])
        self._played: Any = None

    @property
    def agent(self) -> OffPolicy:
        """The learner."""
        return self._agent

    @property
    def num_games(self) -> int:
        """Games that are played at once."""
        return self.experiment.num_games

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration."""
        return self.experiment.steps_per_iteration

    def rollout(self) -> Rows:
        """Plays the experience of one update; metrics are `[1, 1]`."""
        self._played, seen = _play(self.experiment, self.state)
        return {name: x[:, None] for name, x in on_host(seen).items()}

    def update(self) -> Rows:
        """Keeps the experience and makes the updates due; metrics are `[1, 1]`.

        Raises:
            RuntimeError: If `rollout` has not been run before.
        """
        if self._played is None:
            raise RuntimeError("there is nothing to learn from: call rollout() first")
        (stream, new), self._played = self._played, None
        learner, report = self._learn(self.learner, jax.device_get(_first(new)))
        learnt = _update_row(self.experiment.slots, (report,), (learner,))
        self.end_iteration(learner, stream=stream)
        return {name: x[None, None] for name, x in on_host(learnt).items()}

    def set_agent(self, agent: Agent) -> None:
        """Replaces the agent by another one of the same training state."""
        (slot,) = self.experiment.slots
        slots = (dataclasses.replace(slot, agent=agent),)
        self.experiment = dataclasses.replace(self.experiment, slots=slots)
        self._agent = cast(OffPolicy, agent)

    def _learn(
        self, state: TrainingState, new: Transition
    ) -> tuple[TrainingState, dict[str, Any]]:
        """Keeps new rows and takes, step by step, what is due: (state, stats)."""
        agent, config = self._agent, self._agent.config
        self.ring.add(new)
        since = int(state.timesteps)
        until = since + int(new.valid.sum())
        state = state.replace(timesteps=jnp.int32(until))
        gamma, stats, due = float(state.hyper["gamma"]), self._no_stats, 0
        for step in range(since + 1, until + 1):
            is_turn = step >= config.warmup and step % config.train_every == 0
            if is_turn and self.ring.filled >= config.n_step:
                for _ in range(config.gradient_steps):
                    batch = self.ring.sample(config.batch_size, gamma, config.n_step)
                    state, stats = _learn_step(agent, state, batch)
                due += config.gradient_steps
            if step % config.target_every == 0:
                state = _with_targets(agent, state)
        counts = {"gradient_steps": due, "replay_size": self.ring.filled}
        return state, {**stats, **counts}

    # Checkpoints.

    def arrays(self) -> dict[str, Any]:
        """Returns the state, and the ring as a pytree of arrays of fixed shapes."""
        saved = self.ring.state_dict()
        rows = saved["rows"]
        if not rows:
            rows = {
                str(i): np.zeros((self.ring.capacity, *x.shape), x.dtype)
                for i, x in enumerate(jax.tree.leaves(self._agent.example_row()))
            }
        counts = {name: np.int32(saved[name]) for name in ("head", "filled")}
        return {"run": self.state, "replay": {"rows": rows, **counts}}

    def about(self) -> dict[str, Any]:
        """Returns the state of the generator that draws minibatches; JSON values."""
        return {"generator": self.ring.state_dict()["generator"]}

    def restore(self, arrays: dict[str, Any], about: Mapping[str, Any]) -> None:
        """Continues from what `arrays` and `about` returned."""
        self.load(arrays["run"])
        ring = arrays["replay"]
        rows = {name: np.array(x) for name, x in ring["rows"].items()}
        saved = {**ring, "rows": rows, "generator": about["generator"]}
        self.ring.load_state_dict(saved, self._agent.example_row())


@structure.jit("experiment")
def _init(experiment: Experiment, keys: jax.Array, params: Any) -> RunState:
    state = map_axis(experiment.init, (0, None), 1)(keys, params)
    (learner,) = state.agents
    agents = (learner.replace(replay=()),)
    return state.replace(outer=state.outer.replace(agents=agents))


@structure.jit("experiment")
def _play(experiment: Experiment, state: RunState) -> Any:
    """Plays one rollout: ((stream, transitions), metrics), leaves `[1, ...]`."""
    row_of: Any = experiment.slots[0].agent

    def play(state: RunState) -> Any:
        played, row = rollout(experiment, state)
        sample, last_obs, _ = _first(played.play.experiences[0])  # the one opponent
        new = jax.tree.map(
            lambda x, like: x.astype(like.dtype),
            replay.transitions(sample, last_obs),
            row_of.example_row(),
        )
        stream: Any = played.play
        return (stream.stream, new), flagged(row)

    return map_axis(play, (0,), 1)(state)


@structure.jit("agent")
def _learn_step(agent: OffPolicy, state: TrainingState, batch: Minibatch) -> Any:
    return agent.learn_step(state, batch)


@structure.jit("agent")
def _with_targets(agent: OffPolicy, state: TrainingState) -> TrainingState:
    return agent.with_targets(state, state.hyper["tau"])


@structure.jit("slots")
def _update_row(
    slots: tuple[Slot, ...], stats: tuple[Any, ...], agents: tuple[TrainingState, ...]
) -> Any:
    return flagged(update_row(slots, stats, agents))


def _stats_of_no_step(agent: OffPolicy, state: TrainingState) -> dict[str, float]:
    config = agent.config
    ring = replay.empty(agent.example_row(), config.n_step)

    def stats(state: TrainingState) -> Any:
        batch = replay.sample(ring, state.key, config.batch_size, 1.0, config.n_step)
        return agent.learn_step(state, batch)[1]

    return dict.fromkeys(jax.eval_shape(stats, state), np.nan)


def _first(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0], tree)


def _windowed(window: Transition, gamma: float) -> Minibatch:
    """`replay.windowed` in NumPy, so that a minibatch costs no call of the device."""
    ends = window.ends.astype(np.int32)
    counts = ((np.cumsum(ends, axis=1) - ends) == 0) & window.valid
    decays = np.float32(gamma) ** np.arange(ends.shape[1] + 1, dtype=np.float32)
    powers = decays[np.cumsum(counts, axis=1) - counts]
    batch, steps = np.arange(ends.shape[0]), np.arange(ends.shape[1])
    last = np.max(np.where(counts, steps, 0), axis=1)
    first = jax.tree.map(lambda x: x[:, 0], window)
    return Minibatch(
        observations=first.observations,
        actions=first.actions,
        rewards=np.sum(window.rewards * powers * counts, axis=1, dtype=np.float32),
        discounts=np.where(
            window.dones[batch, last], np.float32(0), decays[counts.sum(axis=1)]
        ),
        next_observations=jax.tree.map(
            lambda x: x[batch, last], window.next_observations
        ),
        weights=first.valid.astype(np.float32),
    )
