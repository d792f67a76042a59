"""Training from a replay in host memory: play is compiled, turns of learning are not.

`HostReplayProgram` has the state of `runners.engine.program.Program` and advances it
by the same keys, so the same loop serves both.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paxenv.missing import flagged, on_host
from paxenv_agents import structure
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.learners import replay
from paxenv_agents.learners.off_policy import OffPolicy
from paxenv_agents.learners.replay import HostReplay, Minibatch, Transition
from paxenv_agents.types import TrainingState
from runners.engine.experiment import Experiment, RunState, rollout
from runners.engine.lanes import map_axis
from runners.engine.program import Rows
from runners.engine.rows import update_row


def initial_state(experiment: Experiment, keys: jax.Array, params: Any) -> RunState:
    """Returns the state before the first iteration, without a ring on the device.

    Args:
        experiment: What will run.
        keys: The run key of the one seed, `[1]`.
        params: The game's numbers.
    """
    return _init(experiment, keys, params)


class HostReplayProgram:
    """One seed of one learner from replay, whose ring lies in NumPy arrays.

    Attributes:
        experiment: What runs, an iteration a call.
        ring: The experience.
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
        agent: Any = experiment.slots[0].agent
        self._agent: OffPolicy = agent
        self.ring = HostReplay(self._agent.config.capacity, seed)
        self._no_stats = _stats_of_no_step(self._agent, _first(state.agents[0]))
        self.load(state)

    def load(self, state: RunState) -> None:
        """Goes on from another state; its buffers are copied."""
        self.state = jax.tree.map(jnp.copy, state)
        self.iteration = int(np.asarray(state.iteration)[0])

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        return self.iteration * self.experiment.steps_per_iteration

    def run(self, num_iterations: int) -> Rows:
        """Runs one iteration and returns its metrics, float32 `[1, 1]`."""
        if num_iterations != 1:
            raise ValueError(f"a call runs 1 iteration, not {num_iterations}")
        stream, new, seen = _play(self.experiment, self.state)
        learner, report = self._learn(
            _first(self.state.agents[0]), jax.device_get(_first(new))
        )
        learnt = _update_row(self.experiment.slots, (report,), (learner,))
        self.iteration += 1
        agents = (jax.tree.map(lambda x: x[None], learner),)
        self.state = self.state.replace(
            iteration=self.state.iteration + 1,
            outer=self.state.outer.replace(agents=agents),
            stream=stream,
        )
        rows = {name: x[:, None] for name, x in on_host(seen).items()}
        return rows | {name: x[None, None] for name, x in on_host(learnt).items()}

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

    def saved_ring(self) -> dict[str, Any]:
        """Returns the ring as a pytree of arrays of fixed shapes."""
        saved = self.ring.state_dict()
        rows = saved["rows"]
        if not rows:
            rows = {
                str(i): np.zeros((self.ring.capacity, *x.shape), x.dtype)
                for i, x in enumerate(jax.tree.leaves(self._agent.example_row()))
            }
        counts = {name: np.int32(saved[name]) for name in ("head", "filled")}
        return {"rows": rows, **counts}

    def load_ring(self, saved: dict[str, Any], generator: dict[str, Any]) -> None:
        """Goes on from `saved_ring` and the generator's state, `generator`."""
        rows = {name: np.array(x) for name, x in saved["rows"].items()}
        self.ring.load_state_dict(
            {**saved, "rows": rows, "generator": generator}, self._agent.example_row()
        )

    @property
    def generator(self) -> dict[str, Any]:
        """The state of the ring's random generator; JSON values."""
        return self.ring.state_dict()["generator"]


@structure.jit("experiment")
def _init(experiment: Experiment, keys: jax.Array, params: Any) -> RunState:
    state = map_axis(experiment.init, (0, None), 1)(keys, params)
    (learner,) = state.agents
    agents = (learner.replace(replay=()),)
    return state.replace(outer=state.outer.replace(agents=agents))


@structure.jit("experiment")
def _play(experiment: Experiment, state: RunState) -> tuple[Any, Transition, Any]:
    """Plays one rollout: (stream, transitions, metrics), leaves `[1, ...]`."""
    row_of: Any = experiment.slots[0].agent

    def play(state: RunState) -> tuple[Any, Transition, Any]:
        played, row = rollout(experiment, state)
        sample, last_obs, _ = _first(played.play.experiences[0])  # the one opponent
        new = jax.tree.map(
            lambda x, like: x.astype(like.dtype),
            replay.transitions(sample, last_obs),
            row_of.example_row(),
        )
        stream: Any = played.play
        return stream.stream, new, flagged(row)

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
