"""Training from replay in host memory: play is compiled, learning is not.

`HostReplayProgram` is a `StagedProgram` of `runners.engine.program` with the state and
the keys of a compiled one.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from paxenv.missing import flagged, on_host
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.learners import replay
from paxenv_agents.learners.off_policy import OffPolicy
from paxenv_agents.learners.replay import HostReplay, Minibatch, Transition
from paxenv_agents.types import TrainingState
from runners.engine.experiment import Experiment, RunState, rollout
from runners.engine.lanes import map_axis
from runners.engine.program import Rows, StagedProgram, with_agents
from runners.engine.rows import update_row


def initial_state(experiment: Experiment, keys: jax.Array, params: Any) -> RunState:
    """Returns the state before the first iteration, without a ring on the device.

    Args:
        experiment: The experiment.
        keys: The run key of the one seed, `[1]`.
        params: The game's numbers.
    """
    return _init(experiment, keys, params)


class HostReplayProgram(StagedProgram):
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

    @property
    def max_iterations(self) -> int:
        """The most iterations of one call of `run`."""
        return 1

    def run(self, num_iterations: int) -> Rows:
        """Runs both stages of one iteration; metrics are `[1, 1]`."""
        if num_iterations != 1:
            raise ValueError(f"a call runs 1 iteration, not {num_iterations}")
        return self.rollout() | self.update()

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
        return {name: x[None, None] for name, x in on_host(learnt).items()}

    def set_agents(self, states: dict[int, Any]) -> None:
        """Replaces the training state by another one, leaves `[1, ...]`."""
        self.state = with_agents(self.state, jax.tree.map(jnp.copy, states))

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
