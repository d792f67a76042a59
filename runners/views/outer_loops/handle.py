"""The inner loop as an outer loop sees it: its agent, game and training."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from paxenv import missing
from paxenv.environment import Environment
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.types import MemoryState, Sample, Stats, TrainingState
from runners.engine import tags
from runners.engine.joined_rows import JoinedRows
from runners.engine.program import Program, Rows
from runners.engine.rows import is_metric
from runners.search import space
from runners.search.dims import ALIASES
from runners.search.outer_options import OuterConfig
from runners.session.loop import Chunk, Interval, Task
from runners.session.one_learner import with_hyper
from runners.session.runner_config import (
    OnePlayerGame,
    RunnerConfig,
    check_made_for,
    game_of,
    num_games,
    params_of,
)
from runners.session.session import Session
from runners.views.outer_loops import inner_loop
from runners.views.outer_loops.inner_loop import Hook, InnerLoop, InnerState

#: `(iteration, environment steps, metrics)`.
OnRow = Callable[[int, int, dict[str, float]], None]


class AgentHandle(Program):
    """An agent, its game and its training so far: a `Program` of a `Session`.

    Attributes:
        loop: The inner loop, as a value.
        state: The states of games, learner and hooks; leaves are on the device.
        env_params: The game's numbers.
        iteration: Iterations of the inner loop so far, over all games.
        rows: The iterations since the last row of the log.
        session: Advances it, and saves it if there is a folder for checkpoints.
    """

    def __init__(
        self,
        agent: Agent,
        env: OnePlayerGame,
        env_params: PyTree,
        config: OuterConfig,
        key: jax.Array,
        hooks: tuple[Hook, ...] = (),
    ) -> None:
        """Makes a handle with a fresh agent; compiles nothing yet.

        Args:
            agent: The learner.
            env: A native game of one player, or with `AutoResetWrapper` around it.
            env_params: Its numbers.
            config: The length of training and the number of games.
            key: The key of all random numbers; only folded.
            hooks: Functions that are called in every iteration.

        Raises:
            ValueError: If agent and game do not fit together.
        """
        own = getattr(getattr(agent, "config", None), "num_envs", None)
        self.config = config
        self.num_envs = num_games(own, RunnerConfig(num_envs=config.num_envs))
        self.env_params = env_params
        self.iteration = self._env_steps = 0
        self.rows = JoinedRows(game_of(env))
        self._key, self._hooks, self._visits = key, tuple(hooks), 0
        self._agent = agent
        self.loop = self._make_loop(agent, game_of(env))
        carried = tuple(hook.init() for hook in self._hooks)
        self.state = self._begin_inner(
            inner_loop.fresh_learner(self.loop, key), carried
        )
        self.session = Session(self, parts={"rows": self.rows})

    # Its parts.

    @property
    def agent(self) -> Agent:
        """The learner: code and options."""
        return self.loop.agent

    @property
    def unplanned(self) -> Agent:
        """The learner without the plan by which its schedules end."""
        return self._agent

    @property
    def env(self) -> Environment:
        """The game."""
        return self.loop.experiment.env

    @property
    def training_state(self) -> TrainingState:
        """The learner's whole state; assigning another one copies it."""
        return self.state.learner

    @training_state.setter
    def training_state(self, learner: TrainingState) -> None:
        _check_alike(self.state.learner, learner)
        self.state = self.state.with_learner(jax.tree.map(jnp.copy, learner))

    @property
    def params(self) -> PyTree:
        """The learner's parameters; assigning others copies them."""
        return self.state.learner.params

    @params.setter
    def params(self, params: PyTree) -> None:
        self.training_state = self.state.learner.replace(params=params)

    @property
    def buffer(self) -> Any:
        """The learner's replay.

        Raises:
            ValueError: If it has none.
        """
        ring = self.state.learner.replay
        if isinstance(ring, tuple) and not ring:
            raise ValueError(f"{type(self.agent).__name__} keeps no replay")
        return ring

    @property
    def hyperparams(self) -> dict[str, float]:
        """The hyperparameters that may change in training, by name."""
        return {name: float(x) for name, x in self.state.learner.hyper.items()}

    @property
    def hook_states(self) -> tuple[Any, ...]:
        """The states of the hooks, in their order, which may be assigned."""
        return self.state.hooks

    @hook_states.setter
    def hook_states(self, states: tuple[Any, ...]) -> None:
        self.state = self.state.replace(hooks=tuple(states))

    # Its actions.

    def set_hyperparam(self, name: str, value: Any) -> None:
        """Sets a hyperparameter, an option of the agent, or a number of the game.

        Hyperparameters (`hyperparams`) and numbers of the game (`env.gravity`) are
        replaced in place. An option such as `batch_size` changes the program: it is
        compiled anew, and if the shapes of the training state change, the agent gets a
        new training state, with a warning.

        Raises:
            ValueError: If there is no such name, or the value is refused.
        """
        kind = space.find_target(name, self.agent, self.state.learner, self.env_params)
        target = ALIASES.get(name, name)
        if kind == "hyper":
            learner = with_hyper(self.agent, self.state.learner, target, value, name)
            self.state = self.state.with_learner(learner)
        elif kind == "env":
            self.env_params = space.with_env_values(self.env_params, {target: value})
            run = self.state.run.replace(params=self.env_params)
            self.state = self.state.replace(run=run)
        elif kind == "option":
            self._set_option(target, value)
        else:
            raise ValueError("parameters are set by `params`, not by set_hyperparam")

    def set_env(self, env: OnePlayerGame, env_params: PyTree = None) -> None:
        """Continues in another game of the same spaces, or with other numbers.

        The games are opened anew; the agent stays unchanged.

        Raises:
            ValueError: If the spaces differ.
        """
        game = game_of(env)
        check_made_for(self.agent, game)
        self.loop = self._make_loop(self._agent, game)
        self.rows = JoinedRows(game)
        self.session.parts = {**self.session.parts, "rows": self.rows}
        self.env_params = params_of(game, env_params)
        self.state = self._begin_inner(self.state.learner, self.state.hooks)

    def restart(self, learner: TrainingState, env_steps: int | None = None) -> None:
        """Begins another inner loop: new games, from a given training state.

        Args:
            learner: The training state.
            env_steps: The new count of environment steps; None: the present one.
        """
        self.state = self._begin_inner(learner, self.state.hooks)
        self._env_steps = self._env_steps if env_steps is None else env_steps

    def train(
        self, num_steps: int, on_row: OnRow | None = None, **watched: Any
    ) -> dict[str, Any]:
        """Trains for at least `num_steps` environment steps, in whole iterations.

        Args:
            num_steps: Environment steps.
            on_row: Called with every row that is due: metrics of all iterations since
                the last row.
            **watched: Arguments of `Session.run`: `tasks`, `stop`, and `non_finite`,
                which is `"continue"` by default.

        Returns:
            `env_step` and `step`, environment steps so far; `iteration`; and the
            metrics of the last iteration, by name.
        """
        end = self.iteration + self.loop.iterations(num_steps)
        interval = Interval(self.config.log_interval, self.steps_per_iteration)
        last: dict[str, float] = {}

        def look(chunk: Chunk) -> None:
            self.rows.add(chunk.rows)
            named = {name: x for name, x in chunk.rows.items() if is_metric(name)}
            last.update({name: float(x[0, -1]) for name, x in named.items()})
            if interval.is_due(chunk.last) or chunk.last == end:
                row = {name: float(x[0]) for name, x in self.rows.take().items()}
                if on_row is not None:
                    on_row(chunk.last, self.env_steps, row)

        tasks = (Task(interval, lambda _: None), *watched.pop("tasks", ()))
        watched = {"non_finite": "continue", **watched}
        self.session.run(end, on_chunk=(look,), tasks=tasks, **watched)
        clock = {"step": self.env_steps, "env_step": self.env_steps}
        return {**clock, "iteration": self.iteration, **last}

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration."""
        return self.loop.steps_per_iteration

    @property
    def max_iterations(self) -> int:
        """The most iterations of one call of `run`."""
        return inner_loop.ROWS

    @property
    def env_steps(self) -> int:
        """Environment steps so far, also in other games and with other options."""
        return self._env_steps

    def run(self, num_iterations: int) -> Rows:
        """Runs iterations and returns their metrics, `[1, iterations]`."""
        self.state, buffer = inner_loop.advance_rows_compiled(
            self.loop, self.state, jnp.int32(num_iterations)
        )
        self.iteration += num_iterations
        self._env_steps += num_iterations * self.steps_per_iteration
        return {
            name: x[None, :num_iterations]
            for name, x in missing.on_host(buffer).items()
        }

    def evaluate(self, key: jax.Array | None = None) -> dict[str, Any]:
        """Returns statistics of whole episodes in games of their own, by name.

        Training is not affected.

        Args:
            key: The key of the episodes; None: one that follows from the seed and the
                number of environment steps so far.
        """
        if key is None:
            key = tags.evaluation_key(self._key, self.env_steps)
        named = inner_loop.evaluate_compiled(
            self.loop, self.state.learner, self.env_params, key
        )
        return as_statistics(named)

    def update(
        self, traj: Sample, last_obs: Any, memory: MemoryState | None = None
    ) -> Stats:
        """Learns from given experience `[T, E, ...]`; returns statistics.

        Args:
            traj: The experience, on the learner's own clock.
            last_obs: The players' observations after it, `[E, ...]`.
            memory: Memory of the E games; None: as at the opening of a trial.
        """
        games = int(traj.rewards.shape[1])
        if memory is None:
            hidden = self.agent.init_hidden(games)
            _, memory = self.agent.batch_init(jax.random.key(0), hidden)
        learner, _, stats = _update(
            self.agent, traj, last_obs, self.state.learner, memory
        )
        self.state = self.state.with_learner(learner)
        return missing.on_device(stats)

    # Private parts.

    def _make_loop(self, agent: Agent, game: Environment) -> InnerLoop:
        return inner_loop.make_loop(
            agent, game, self.config, self.num_envs, self._hooks
        )

    def _begin_inner(
        self, learner: TrainingState, carried: tuple[Any, ...]
    ) -> InnerState:
        key = jax.random.fold_in(
            jax.random.fold_in(self._key, tags.LANES), self._visits
        )
        self._visits += 1
        return inner_loop.begin_compiled(
            self.loop, learner, self.env_params, key, carried
        )

    def _set_option(self, name: str, value: Any) -> None:
        self._agent = space.with_option(self._agent, name, value)
        self.loop = self._make_loop(self._agent, self.env)
        old = self.state.learner
        learner = inner_loop.fitting_learner(self.loop, self._key, old)
        if learner is not old:
            warnings.warn(
                f"{name}={value!r} changes the shapes of the training state: the agent "
                "starts afresh",
                stacklevel=3,
            )
            hyper = {n: old.hyper.get(n, x) for n, x in learner.hyper.items()}
            learner = learner.replace(hyper=hyper)
        self.state = self._begin_inner(learner, self.state.hooks)

    # State for checkpoints.

    def snapshot(self) -> Any:
        """Returns everything that a training changes, a pytree of arrays."""
        clock = np.array([self.iteration, self.env_steps, self._visits], np.int64)
        return {"inner": self.state, "clock": clock}

    def arrays(self) -> Any:
        """Returns the snapshot."""
        return self.snapshot()

    def restore(self, arrays: Any, about: Mapping[str, Any] | None = None) -> None:
        """Continues from a snapshot."""
        del about
        self.state = arrays["inner"]
        self.iteration, self._env_steps, self._visits = map(int, arrays["clock"])


def as_statistics(named: dict[str, Any]) -> dict[str, Any]:
    """Returns the statistics of an evaluation as Python numbers."""
    numbers: dict[str, Any] = {name: float(x) for name, x in named.items()}
    numbers["eval/n_episodes"] = int(named["eval/n_episodes"])
    return numbers


def _check_alike(old: Any, new: Any) -> None:
    if jax.tree.structure(old) != jax.tree.structure(new):
        raise ValueError("this is the state of another agent: its structure differs")
    for a, b in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True):
        if jnp.shape(a) != jnp.shape(b):
            raise ValueError(
                f"a number of shape {jnp.shape(b)} stands where the agent has "
                f"{jnp.shape(a)}: this is the state of another agent"
            )


@structure.jit("agent")
def _update(
    agent: Agent, traj: Sample, last_obs: Any, state: TrainingState, memory: MemoryState
) -> Any:
    state, memory, stats = agent.update(traj, last_obs, state, memory)
    return state, memory, missing.flagged(stats)
