"""Rollouts on the host: a Gymnasium vector environment played by a compiled agent.

`HostProgram` has the two stages and the state of `runners.program.Program`, so the same
loop, checkpoints and metrics serve both. What it cannot save is the environment.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from paxenv.missing import flagged, on_host
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.experience import Experience
from paxenv_agents.lineup import Slot
from paxenv_agents.table import where_games
from paxenv_agents.types import MemoryState, Sample
from runners.experiment import RunState
from runners.on_policy.host_episodes import HostEpisodes, parts_of
from runners.on_policy.vector_steps import autoreset_mode, transition
from runners.outer import OuterState
from runners.program import Rows, run_keys, with_agents
from runners.rows import update_row
from runners.tags import AGENTS, LANES


class HostPlan(NamedTuple):
    """What the loop reads of an experiment.

    Attributes:
        steps_per_iteration: Environment steps of one iteration.
        chunk_size: Iterations of one call.
    """

    steps_per_iteration: int
    chunk_size: int = 1


class HostProgram:
    """One agent in a vector environment.

    Attributes:
        agent: Who plays and learns.
        env: What it plays.
        experiment: The sizes that the loop reads.
        state: Leaves `[1, ...]`: one seed.
        iteration: Iterations that have been run.
    """

    def __init__(
        self, agent: Agent, env: VectorEnv, seed: int, device: Any = None
    ) -> None:
        """Opens nothing yet; the first rollout does.

        Args:
            agent: Who learns.
            env: What it plays.
            seed: Of all keys, and of the environment.
            device: Where the numbers are; None: JAX's choice.
        """
        self.env = env
        self.num_games = env.num_envs
        self.agent = agent.sized(self.num_games)
        self.num_steps = self.agent.rollout_length(self.num_games)
        self.experiment = HostPlan(self.num_steps * self.num_games)
        self.autoreset_mode = autoreset_mode(env)
        self._seed = seed
        (run_key,) = run_keys(seed)
        fresh = self.agent.init_state(_tagged(run_key, AGENTS, 0))
        state = RunState(
            iteration=jnp.zeros((), jnp.int32),
            key=run_key,
            params=(),
            outer=OuterState(agents=(fresh,)),
        )
        self.load(jax.device_put(jax.tree.map(lambda x: x[None], state), device))

    def load(self, state: RunState) -> None:
        """Goes on from another state, with all games opened anew."""
        self.state = jax.tree.map(jnp.copy, state)
        self.iteration = int(np.asarray(state.iteration)[0])
        self._episodes = HostEpisodes(self.num_games)
        self._obs: Any = None
        self._dead = np.zeros(self.num_games, bool)
        self._experience: Experience | None = None

    def set_agents(self, states: dict[int, Any]) -> None:
        """Puts another training state, leaves `[1, ...]`, in the place of the old."""
        self.state = with_agents(self.state, jax.tree.map(jnp.copy, states))

    @property
    def env_steps(self) -> int:
        """Environment steps so far."""
        return self.iteration * self.experiment.steps_per_iteration

    def run(self, num_iterations: int) -> Rows:
        """Runs both stages of one iteration."""
        if num_iterations != 1:
            raise ValueError(f"a call plays 1 iteration, not {num_iterations}")
        return self.rollout() | self.update()

    def rollout(self) -> Rows:
        """Plays what one update learns from; returns metrics `[1, 1]`."""
        state = _of_seed(self.state.agents[0])
        key = _tagged(self.state.key[0], LANES, self.iteration)
        memory = self._open(state, key)
        steps = []
        for t in range(self.num_steps):
            step, memory = self._step(state, memory, jax.random.fold_in(key, t))
            steps.append(step)
        sample: Any = jax.tree.map(lambda *xs: np.stack(xs), *steps)
        if self.agent.stores_hiddens == "first":
            sample = sample._replace(hiddens=sample.hiddens[:1])
        self._memory = memory
        self._experience = Experience(sample, self._obs, memory)
        row = self._episodes.row()
        valid = sample.valid
        count = max(int(valid.sum()), 1)
        row["rollout/reward/player_1"] = float(sample.rewards.sum()) / count
        row["rollout/value/player_1"] = (
            float(np.where(valid, sample.behavior_values, 0.0).sum()) / count
        )
        return {name: np.asarray(x, np.float32)[None, None] for name, x in row.items()}

    def update(self) -> Rows:
        """Lets the agent learn from the rollout; returns metrics `[1, 1]`.

        Raises:
            RuntimeError: If `rollout` has not been run before.
        """
        if self._experience is None:
            raise RuntimeError("there is nothing to learn from: call rollout() first")
        experience, self._experience = self._experience, None
        learnt, row = _learn(self.agent, _of_seed(self.state.agents[0]), experience)
        self.state = self.state.replace(
            iteration=self.state.iteration + 1,
            outer=OuterState(agents=(jax.tree.map(lambda x: x[None], learnt),)),
        )
        self.iteration += 1
        return {name: x[None, None] for name, x in on_host(row).items()}

    def _open(self, state: Any, key: jax.Array) -> MemoryState:
        """Returns the memories, of games that are opened if they have not been."""
        if self._obs is not None:
            return self._memory
        # A run that goes on does not see the games of its beginning again.
        self._obs, _ = self.env.reset(seed=self._seed + self.iteration)
        lanes = _lane_keys(jax.random.fold_in(key, self.num_steps), self.num_games)
        hidden = self.agent.init_hidden(self.num_games)
        memory = jax.vmap(self.agent.init_memory)(lanes, hidden)
        memory = self.agent.batch_reset(memory, True)
        after = jax.eval_shape(self.agent.batch_policy, state, self._obs, memory)[2]
        extras = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), after.extras)
        return memory.replace(extras=extras)

    def _step(
        self, state: Any, memory: MemoryState, key: jax.Array
    ) -> tuple[Sample, MemoryState]:
        seen, played = self._obs, ~self._dead
        actions, acted = act(self.agent, state, seen, memory, key)
        move = transition(self.env, self.autoreset_mode, np.asarray(actions))
        ends = played & (move.terminated | move.truncated)
        truncated = played & move.truncated
        final_values = np.zeros(self.num_games, np.float32)
        if truncated.any():
            values = _value(self.agent, state, move.final_obs, acted)
            final_values = np.where(truncated, values, final_values)
        parts = parts_of(move.infos, self.num_games, ends)
        self._episodes.add(move.rewards, parts, played, move.terminated, move.truncated)
        sample = Sample(
            observations=seen,
            actions=actions,
            rewards=np.where(played, move.rewards, 0.0).astype(np.float32),
            behavior_log_probs=acted.extras["log_probs"],
            behavior_values=acted.extras["values"],
            dones=played & move.terminated,
            hiddens=memory.hidden,
            truncations=truncated,
            final_values=final_values,
            valid=played,
            inner_ends=ends,
        )
        self._obs = move.obs
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            self._dead = ends
        if ends.any() or not played.all():
            acted = _cross(self.agent, state, (memory, acted), played, ends)
        return sample, acted


@structure.jit("agent")
def act(
    agent: Agent, state: Any, obs: Any, memory: MemoryState, key: jax.Array
) -> tuple[jax.Array, MemoryState]:
    """Returns (actions, memories after them) of games, whose keys are folded here."""
    scheduled = memory.replace(key=_lane_keys(key, memory.hidden.shape[0]))
    actions, _, after = agent.batch_policy(state, obs, scheduled)
    return actions, after.replace(key=memory.key)


@structure.jit("agent")
def _value(agent: Agent, state: Any, obs: Any, memory: MemoryState) -> jax.Array:
    return agent.batch_value(state, obs, memory)


@structure.jit("agent")
def _cross(
    agent: Agent,
    state: Any,
    memories: tuple[MemoryState, MemoryState],
    played: Any,
    ends: Any,
) -> MemoryState:
    """Returns the memories after a step, given those before and after acting.

    They stand still where nothing was played, and cross the end of an episode.
    """
    before, acted = memories
    memory = where_games(played, acted, before)
    return where_games(ends, agent.batch_end_inner(state, memory), memory)


@structure.jit("agent")
def _learn(agent: Agent, state: Any, experience: Experience) -> Any:
    learnt, _, report = agent.update(
        experience.sample, experience.last_obs, state, experience.memory
    )
    return learnt, flagged(update_row((Slot(agent),), (report,), (learnt,)))


def _of_seed(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0], tree)


def _tagged(run_key: jax.Array, tag: int, number: int) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(run_key, tag), number)


def _lane_keys(key: jax.Array, num_games: int) -> jax.Array:
    return jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(num_games))
