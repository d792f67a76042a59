"""Rollouts on the host: a Gymnasium vector environment played by a compiled agent.

`HostProgram` is a `SteppedProgram` of `runners.engine.program`, so the same loop,
checkpoints and metrics serve it. It cannot save the environment.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from paxenv import keys
from paxenv.missing import flagged, on_host
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.engine.experience import Experience
from paxenv_agents.engine.game_batch import where_games, with_extras
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.types import MemoryState, Sample
from runners.engine.experiment import RunState
from runners.engine.outer import OuterState
from runners.engine.program import Rows, SteppedProgram, run_keys
from runners.engine.rows import LATEST, WINDOW, update_row
from runners.engine.tags import AGENTS, LANES
from runners.session.evaluation import act_on_host

_PARTS = {"reward_components": "reward_components", "log": "env"}


class HostEpisodes:
    """Sums of the episodes in play, and of those that ended since the last row.

    The sums of an episode continue over any number of rows. An episode ends by the
    rules or by a time limit.
    """

    def __init__(self, num_games: int) -> None:
        self._lengths = np.zeros(num_games, np.int64)
        self._returns = np.zeros(num_games)
        self._parts: dict[str, np.ndarray] = {}
        self._ended: list[dict[str, float]] = []

    def add(
        self,
        rewards: np.ndarray,
        parts: Mapping[str, np.ndarray],
        played: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> None:
        """Adds one step of every game.

        Args:
            rewards: `[E]`.
            parts: The result of `parts_of` for the step's infos.
            played: Whether the game was played in this step, bool `[E]`.
            terminated: Whether its rules ended the episode, bool `[E]`.
            truncated: Whether a time limit ended it, bool `[E]`.
        """
        self._lengths += played
        self._returns += np.where(played, rewards, 0.0)
        for name, values in parts.items():
            total = self._parts.setdefault(name, np.zeros(len(self._lengths)))
            total += np.where(played, values, 0.0)
        for i in np.flatnonzero(played & (terminated | truncated)):
            self._end(i, truncated=bool(truncated[i] and not terminated[i]))

    def _end(self, i: Any, *, truncated: bool) -> None:
        length = int(self._lengths[i])
        episode = {
            "return": float(self._returns[i]),
            "length": float(length),
            "truncated": float(truncated),
        }
        for name, total in self._parts.items():
            # A log entry of a game describes one step, so its mean is reported.
            steps = length if name.startswith("env/") else 1
            episode[name] = float(total[i]) / steps
            total[i] = 0.0
        self._ended.append(episode)
        self._lengths[i], self._returns[i] = 0, 0.0

    def row(self) -> dict[str, Any]:
        """Returns the metrics of the episodes that ended since the last call.

        The names are those of native games. Means are NaN where none has ended. The
        last episodes are also listed one by one, as `LATEST`.
        """
        ended, self._ended = self._ended, []
        returns = [episode["return"] for episode in ended]
        lengths = [episode["length"] for episode in ended]
        nan = float("nan")
        latest = np.full((WINDOW, 2), nan, np.float32)
        for at, episode in enumerate(reversed(ended[-WINDOW:]), 1):
            latest[-at] = episode["return"], episode["length"]
        return {
            LATEST: latest,
            "episode/count": len(ended),
            "episode/length": _mean(lengths),
            "episode/truncated": _mean([episode["truncated"] for episode in ended]),
            "episode/return/player_1": _mean(returns),
            "episode/return_min/player_1": min(returns, default=nan),
            "episode/return_max/player_1": max(returns, default=nan),
            "episode/reward_per_step/player_1": (
                sum(returns) / sum(lengths) if ended else nan
            ),
            **{
                name: _mean([episode.get(name, 0.0) for episode in ended])
                for name in self._parts
            },
        }


def parts_of(
    infos: Mapping[str, Any], num_games: int, ended: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns parts of rewards and log entries of one step, `[E]` by metric name.

    Args:
        infos: Infos of a vector environment: `reward_components` and `log` by name, as
            dicts or as `log/name`, one number or one for each game. Where a game has
            been reset in the step that ended it, its own infos are in `final_info`.
        num_games: The number of games, E.
        ended: Whether the game's episode ended in this step, bool `[E]`.
    """
    found = _parts(infos, num_games)
    final: Any = infos.get("final_info")
    if isinstance(final, Mapping):
        last = _parts(final, num_games)
        for name in {**found, **last}:
            before = found.get(name, np.zeros(num_games))
            found[name] = np.where(ended, last.get(name, 0.0), before)
    return found


def _parts(infos: Mapping[str, Any], num_games: int) -> dict[str, np.ndarray]:
    found = {}
    for key, shown in _PARTS.items():
        inside = f"{key}/"
        flat = {k.removeprefix(inside): infos[k] for k in infos if k.startswith(inside)}
        for name, values in _entries({**flat, **(infos.get(key) or {})}):
            array = np.asarray(values, np.float64)
            found[f"{shown}/{name}"] = np.broadcast_to(array, (num_games,))
    return found


def _entries(tree: Mapping[str, Any], before: tuple[str, ...] = ()) -> Any:
    """Yields (name, values) of a nested dict; names with `_` in front are masks."""
    for key, value in tree.items():
        if str(key).startswith("_") and str(key)[1:] in tree:
            continue
        path = (*before, str(key).strip("/"))
        if isinstance(value, Mapping):
            yield from _entries(value, path)
        else:
            yield "/".join(path), value


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


class Transition(NamedTuple):
    """The step that one call of a vector environment played.

    Attributes:
        obs: Observations from which the agent acts next, `[E, ...]`.
        final_obs: Observations after the step, before any reset, `[E, ...]`.
        rewards: `[E]`.
        terminated: Whether the rules ended the episode, bool `[E]`.
        truncated: Whether a time limit did, bool `[E]`; never both.
        infos: The infos of the environment.
    """

    obs: Any
    final_obs: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: Mapping[str, Any]


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """Returns when a vector environment opens the next episode.

    Raises:
        ValueError: If `metadata["autoreset_mode"]` does not name the mode.
    """
    mode = (env.metadata or {}).get("autoreset_mode", AutoresetMode.NEXT_STEP)
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(
            f"{env} has the autoreset mode {mode!r}; known are "
            f"{', '.join(str(known) for known in AutoresetMode)}"
        ) from None


def as_vector_env(env: gymnasium.Env | VectorEnv) -> VectorEnv:
    """Returns a vector environment; a plain environment becomes one of one game."""
    if isinstance(env, VectorEnv):
        return env
    return gymnasium.vector.SyncVectorEnv([lambda: env])


def transition(env: VectorEnv, mode: AutoresetMode, actions: np.ndarray) -> Transition:
    """Plays one step of every game, and opens the next episodes if the mode says so."""
    obs, rewards, terminated, truncated, infos = env.step(actions)
    # A vector environment may reuse its arrays.
    obs, ended = np.array(obs), terminated | truncated
    timed_out = np.asarray(infos.get("time_outs", False))
    if isinstance(infos.get("final_info"), Mapping):
        timed_out = timed_out | infos["final_info"].get("time_outs", False)
    timed_out = ended & timed_out
    final_obs = obs
    if mode == AutoresetMode.SAME_STEP and ended.any():
        final_obs = obs.copy()
        for i in np.flatnonzero(ended):
            final_obs[i] = infos["final_obs"][i]
    if mode == AutoresetMode.DISABLED and ended.any():
        obs = np.array(env.reset(options={"reset_mask": ended})[0])
    terminated = terminated & ~timed_out
    return Transition(
        obs=obs,
        final_obs=final_obs,
        rewards=np.array(rewards, np.float64),
        terminated=terminated,
        truncated=(truncated | timed_out) & ~terminated,
        infos=infos,
    )


class HostProgram(SteppedProgram):
    """One agent in a vector environment.

    A checkpoint of it holds the agent and not the games, which are opened anew.

    Attributes:
        env: The vector environment.
        state: Leaves `[1, ...]`: one seed.
        iteration: Iterations that have been run.
    """

    def __init__(
        self, agent: Agent, env: VectorEnv, seed: int, device: Any = None
    ) -> None:
        """Makes the program; the first rollout opens the games.

        Args:
            agent: The learner.
            env: The vector environment.
            seed: The seed of all keys and of the environment.
            device: The device of all arrays; None: JAX's choice.

        Raises:
            ValueError: If a rollout does not split into minibatches.
        """
        self.env = env
        self._agent = agent.sized(self.num_games)
        self.num_steps = self.agent.rollout_length(self.num_games)
        agent.check_batch(self.num_steps, self.num_games)
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
        """Continues from another state, with all games opened anew."""
        self.state = jax.tree.map(jnp.copy, state)
        self.iteration = int(np.asarray(state.iteration)[0])
        self._episodes = HostEpisodes(self.num_games)
        self._obs: Any = None
        self._dead = np.zeros(self.num_games, bool)
        self._experience: Experience | None = None

    def set_agent(self, agent: Agent) -> None:
        """Replaces the agent by another one with the same training state."""
        self._agent = agent.sized(self.num_games)

    @property
    def agent(self) -> Agent:
        """The learner."""
        return self._agent

    @property
    def num_games(self) -> int:
        """Games that are played at once."""
        return self.env.num_envs

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration."""
        return self.num_steps * self.num_games

    def rollout(self) -> Rows:
        """Plays the experience of one update; returns metrics `[1, 1]`."""
        state = self.learner
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
        learnt, row = _learn(self.agent, self.learner, experience)
        self.end_iteration(learnt)
        return {name: x[None, None] for name, x in on_host(row).items()}

    def _open(self, state: Any, key: jax.Array) -> MemoryState:
        """Returns the agent's memories; opens the games if they are not open yet."""
        if self._obs is not None:
            return self._memory
        # A resumed run does not play the games of its beginning again.
        self._obs, _ = self.env.reset(seed=self._seed + self.iteration)
        lanes = keys.folds(jax.random.fold_in(key, self.num_steps), self.num_games)
        hidden = self.agent.init_hidden(self.num_games)
        memory = jax.vmap(self.agent.init_memory)(lanes, hidden)
        memory = self.agent.batch_reset(memory, True)
        return with_extras(self.agent, state, self._obs, memory)

    def _step(
        self, state: Any, memory: MemoryState, key: jax.Array
    ) -> tuple[Sample, MemoryState]:
        seen, played = self._obs, ~self._dead
        actions, acted = act_on_host(self.agent, state, seen, memory, key)
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

    They stay unchanged where no step was played, and cross the end of an episode.
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


def _tagged(run_key: jax.Array, tag: int, number: int) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(run_key, tag), number)
