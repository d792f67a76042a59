"""Training of one on-policy agent with callbacks, logs, checkpoints, evaluation."""

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import gymnasium
from flax import linen as nn
from gymnasium.vector import VectorEnv
from jaxtyping import PyTree

from paxenv.paths import local_path
from paxenv_agents.agent import Agent
from paxenv_agents.types import TrainingState
from runners.engine.devices import count
from runners.engine.program import Rows
from runners.session.loop import Chunk, Interval, Task, check_non_finite
from runners.session.one_learner import (
    LearnerSettings,
    saved_params,
    shown,
    with_hyper,
)
from runners.session.progress import Line
from runners.session.runner_config import GameLike
from runners.session.session import Session
from runners.storage.checkpoints.settings import settings_of
from runners.storage.checkpoints.store import CheckpointStore
from runners.storage.places import check_writable, locked
from runners.storage.sinks import START, Position
from runners.views.on_policy.callbacks import Callbacks
from runners.views.on_policy.log import History, OnPolicyLog, Statistics
from runners.views.on_policy.setup import (
    Evaluation,
    Which,
    chosen,
    find_device,
    last_iteration,
    make_agent,
    make_game,
    make_program,
    register_algorithm,
    replan,
)

FINAL = "checkpoint_final.pt"

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


def _alone(
    method: Callable[Concatenate["OnPolicyRunner", P], T],
) -> Callable[Concatenate["OnPolicyRunner", P], T]:
    """Runs a method with the locks of the runner's folders."""

    @functools.wraps(method)
    def alone(self: "OnPolicyRunner", *args: P.args, **kwargs: P.kwargs) -> T:
        with self._writing():
            return method(self, *args, **kwargs)

    return alone


class OnPolicyRunner:
    """Trains one agent by rollouts and updates, with logs and checkpoints.

    Without callbacks between the stages many iterations are one compiled call; with
    them each stage is a call. The numbers are the same.

    Attributes:
        env: The game, or the vector environment.
        program: The program of the training.
        stats: The metrics of the last iteration.
        metrics: The iterations since the last logged row.
        callbacks: The functions that are called at events.
        log_interval: Iterations between logged rows.
        save_interval: Iterations between checkpoints.
        non_finite: The reaction to the first NaN.
        progress: Whether `learn` shows a line of progress.
        session: The session, which advances the program and saves its checkpoints.
    """

    register_algorithm = staticmethod(register_algorithm)

    def __init__(
        self,
        env: GameLike | gymnasium.Env | VectorEnv,
        algorithm: str = "ppo",
        actor_class: type[nn.Module] | None = None,
        critic_class: type[nn.Module] | None = None,
        actor_cfg: dict[str, Any] | None = None,
        critic_cfg: dict[str, Any] | None = None,
        log_dir: str | os.PathLike[str] | None = None,
        save_dir: str | os.PathLike[str] | None = None,
        device: Any = None,
        log_interval: int = 10,
        save_interval: int = 100,
        log_reward_components: bool = True,
        agent: Agent | None = None,
        cfg: Any = None,
        *,
        env_params: PyTree = None,
        num_envs: int | None = None,
        seed: int = 0,
        on_callback_error: str = "raise",
        eval_env: GameLike | gymnasium.Env | None = None,
        non_finite: str = "stop",
        progress: bool = True,
    ) -> None:
        """Makes the runner; trains nothing and writes nothing.

        Args:
            env: A native game of one player, (game, params), an id such as
                `"CartPole-v1"`, or a Gymnasium vector environment (then games are
                played on the host).
            algorithm: Name of the learner that is made if `agent` is None.
            actor_class: Flax module of its policy; see `PPO.from_env`.
            critic_class: Flax module of its value.
            actor_cfg: Keywords for `actor_class`, such as `{"hidden_dims": [256]}`.
            critic_cfg: Keywords for `critic_class`.
            log_dir: The folder of TensorBoard files and `metrics.jsonl`; None: no logs.
            save_dir: The folder of checkpoints; None: `log_dir`.
            device: `"cpu"`, `"gpu"`, `"cuda:0"`, a `jax.Device` or a `torch.device`.
            log_interval: Iterations between logged rows; 0: none.
            save_interval: Iterations between checkpoints; 0: only the last one.
            log_reward_components: Whether `reward_components/*` are metrics.
            agent: A learner that is used as it is.
            cfg: Options of the learner, such as `PPOConfig(...)` or a dict.
            env_params: Numbers of a native game.
            num_envs: Games at once; None: the config's, or 16. A vector environment has
                its own number.
            seed: The seed of all random numbers.
            on_callback_error: `"raise"`, or `"warn"` to log the error and continue.
            eval_env: The environment of `eval`; None: a new copy of the game. A
                Gymnasium environment without a record of its making needs one.
            non_finite: `"stop"` raises at the first NaN in training, or `"continue"`.
            progress: Whether `learn` shows a line of progress on a terminal or in a
                notebook.

        Raises:
            ValueError: If an argument is refused; the message names it.
        """
        networks = {
            "actor_class": actor_class,
            "critic_class": critic_class,
            "actor_cfg": actor_cfg,
            "critic_cfg": critic_cfg,
        }
        save_dir = log_dir if save_dir is None else save_dir
        self._folders = [folder for folder in (log_dir, save_dir) if folder is not None]
        for folder in self._folders:
            check_writable(folder, for_checkpoints=True)
        self.env, self.env_params = make_game(env, env_params)
        self._wanted = make_agent(algorithm, self.env, cfg, networks, agent)
        self.program: Any = make_program(
            *(self.env, self.env_params, self._wanted),
            *(num_envs, seed, find_device(device)),
        )
        values = settings_of(
            *(self._wanted, self.env, self.env_params),
            seed=seed,
            num_envs=self.program.num_games,
        )
        self._settings = LearnerSettings(
            *(self._wanted, values),
            free=("agent.config.num_updates",),
            cure="Make the runner as that training was made, or load with "
            "weights_only=True, which needs the same networks alone",
        )
        self._evaluation = Evaluation(self.env, self.env_params, eval_env, seed)
        self.callbacks = Callbacks(on_callback_error)
        self.log_interval = Interval(count("log_interval", log_interval, 0))
        self.save_interval = Interval(count("save_interval", save_interval, 0))
        self.non_finite = check_non_finite(non_finite)
        self.progress = progress
        self._log = OnPolicyLog(None if log_dir is None else local_path(log_dir))
        self._stop_requested = self._is_writing = False
        self.stats: dict[str, float] = {}
        self.metrics = Statistics(
            None if self.env_params is None else self.env,
            components=log_reward_components,
        )
        self.session = Session(
            self.program,
            None if save_dir is None else CheckpointStore(save_dir, max_to_keep=1),
            self._facts,
            parts={"rows": self.metrics},
            flush=self._log.flush,
        )
        self._collected: Rows = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def iteration(self) -> int:
        """Iterations that have been run, also before a checkpoint was loaded."""
        return self.program.iteration

    @property
    def total_timesteps(self) -> int:
        """Environment steps of these iterations."""
        return self.program.env_steps

    @property
    def agent(self) -> Agent:
        """The learner; its training state is `state`."""
        return self.program.agent

    @property
    def state(self) -> TrainingState:
        """The agent's training state: parameters, optimiser, key, hyperparameters."""
        return self.program.learner

    @property
    def hyperparams(self) -> dict[str, float]:
        """The current hyperparameters of the learner, by name.

        `agent.config` holds their first values.
        """
        return {name: float(x) for name, x in self.state.hyper.items()}

    @_alone
    def learn(
        self, total_timesteps: int | None = None, num_iterations: int | None = None
    ) -> dict[str, Any]:
        """Trains; saves `checkpoint_final.pt` at the end if there is a folder for it.

        Ctrl-C, SIGTERM and `request_stop` end it after the iterations that are running.

        Args:
            total_timesteps: Environment steps at the end, counted from the beginning of
                training, rounded up to whole iterations.
            num_iterations: Iterations of this call; wins over `total_timesteps`. If
                both are None, `num_updates` of the agent's config decides.

        Returns:
            `history` with the lists `iterations`, `timesteps`, `episode_rewards`,
            `episode_lengths`, `policy_losses` and `value_losses`, an entry for each
            iteration of this call (NaN where no episode has ended); `final_iteration`;
            `total_timesteps`.

        Raises:
            ValueError: If no length is given, or it is less than an iteration.
            NonFiniteError: If training diverges.
            InUseError: If another run is writing to the same folders.
        """
        store = self.session.store
        if self.iteration == 0 and store is not None and store.is_empty():
            # Rows there belong to a training that never saved a checkpoint.
            self._log.resume(START)
        end = last_iteration(
            self.program, self._wanted, total_timesteps, num_iterations
        )
        replan(self.program, self._wanted, end)
        self._stop_requested = False
        if self.metrics.has_row and self.log_interval.is_due(self.iteration):
            self.log_metrics()
        shown_line = shown(self.agent, self.env, end, asked=self.progress)
        with self.session.interruptible() as interrupt, shown_line as line:
            history = self._advance(end, line)
            if self.log_interval.every and self.stats and self.metrics.has_row:
                self._log.write(self._position, self._row())
            if self.has_store:
                self.save_checkpoint(FINAL)
        asked = "requested" if self._stop_requested else "finished"
        reason = "interrupted" if interrupt.requested else asked
        self.callbacks.fire("on_stop", 0, self, reason)
        return {
            "history": history.lists,
            "final_iteration": self.iteration,
            "total_timesteps": self.total_timesteps,
        }

    def _advance(self, end: int, line: Line) -> History:
        """Runs iterations up to number `end`, and returns their history.

        Events of an iteration come before its log and its save.
        """
        line.doing("compiling", "training")
        history, stages = History(), self.callbacks.need_stages
        if stages:
            logger.info("callbacks between the stages: each stage is a call of its own")
        self.session.run(
            end,
            on_chunk=(
                functools.partial(self._keep, history),
                lambda chunk: line.advance(chunk.last),
            ),
            tasks=self._tasks(),
            before_chunk=lambda: self.callbacks.fire(
                "pre_iteration", self.iteration, self
            ),
            advance=self._in_stages if stages else None,
            non_finite=self.non_finite,
            stop=lambda: self._stop_requested,
        )
        return history

    def _in_stages(self) -> Rows:
        """Runs one iteration and fires the events between its stages.

        Events before a stage have the number of completed iterations, events after it
        the number of their own iteration, from 1.
        """
        fire = self.callbacks.fire
        fire("pre_rollout", self.iteration, self)
        seen = self.program.rollout()
        fire("post_rollout", self.iteration + 1, self, self.metrics.current(seen))
        fire("pre_update", self.iteration, self)
        learnt = self.program.update()
        fire("post_update", self.iteration, self, self.stats_of(learnt))
        return seen | learnt

    def _tasks(self) -> list[Task]:
        callbacks = self.callbacks
        ends = {
            *callbacks.intervals("pre_iteration"),
            *callbacks.intervals("post_iteration"),
        }
        tasks = [Task(Interval(every), lambda _: None) for every in sorted(ends)]
        tasks.append(Task(self.log_interval, lambda _: self.log_metrics()))
        if self.has_store:
            tasks.append(Task(self.save_interval, lambda _: self.save_checkpoint()))
        return tasks

    def _keep(self, history: History, chunk: Chunk) -> None:
        per_iteration = self.program.steps_per_iteration
        for i in range(chunk.length):
            number = chunk.first + i + 1
            history.add(number, number * per_iteration, self.stats_of(chunk.rows, i))
        stats = self.metrics.add(chunk.rows)
        stats["time/fps"] = chunk.length * per_iteration / chunk.taken
        stats["time/iteration"] = float(chunk.last)
        self.stats = stats
        self.callbacks.fire("post_iteration", chunk.last, self, stats)

    # The stages of an iteration, for the user's own loops; they fire no events.

    def collect_rollout(self) -> dict[str, float]:
        """Plays the experience of one update, and returns its metrics."""
        self._collected = self.program.rollout()
        self.stats = self.metrics.current(self._collected)
        return self.stats

    def update(self) -> dict[str, float]:
        """Learns from the rollout, which ends the iteration; returns all its metrics.

        Raises:
            RuntimeError: If no rollout has been collected.
        """
        self.stats = self.metrics.add({**self._collected, **self.program.update()})
        return self.stats

    def adjust_learning_rate(self, learning_rate: float | None = None) -> float:
        """Returns the learning rate of the last update; sets the base of the next ones.

        A schedule (`learning_rate_end`) needs no call: the update follows it.

        Args:
            learning_rate: The new base; None keeps the old one.
        """
        if learning_rate is not None:
            self.set_hyperparam("learning_rate", learning_rate)
        base = float(self.state.hyper["learning_rate"])
        return self.stats.get("train/learning_rate", base)

    @_alone
    def log_metrics(self) -> dict[str, float]:
        """Writes a row of all iterations since the last row, and returns it."""
        row = self._row()
        self._log.write(self._position, row)
        self.callbacks.fire("on_log", self.iteration, self, row)
        return row

    def _row(self) -> dict[str, float]:
        if not self.metrics.has_row:
            return self.stats
        times = {n: x for n, x in self.stats.items() if n.startswith("time/")}
        return {**self.metrics.take_row(), **times}

    @_alone
    def eval(
        self, num_episodes: int = 10, *, env: GameLike | gymnasium.Env | None = None
    ) -> dict[str, float]:
        """Returns statistics of whole greedy episodes, and logs them.

        Training is not affected. If there is a folder for checkpoints and the mean is
        the highest so far, the state is saved as "best".

        Args:
            num_episodes: The number of episodes; each is played to its end.
            env: The environment from now on, as `eval_env` of the constructor; None:
                that of the last evaluation.

        Raises:
            ValueError: If the environment of training has no record from which another
                one can be made.
        """
        if env is not None:
            self._evaluation, old = self._evaluation.elsewhere(env), self._evaluation
            old.close()
        stats = self._evaluation.play(
            self.agent, self.state, num_episodes, self.total_timesteps
        )
        self._log.write(self._position, stats)
        if self.session.store is not None:
            self.session.save_if_best(stats["eval/mean_reward"])
            self.session.store.wait()
        self.callbacks.fire("on_eval", 0, self, stats)
        return stats

    @_alone
    def save_checkpoint(self, name: str | None = None) -> Path:
        """Saves everything that resuming needs, and returns the path.

        Args:
            name: A file name; None: `checkpoint_<iteration>.pt`.

        Raises:
            ValueError: If there is no folder for it, or the name is not a file name.
        """
        name = f"checkpoint_{self.iteration}.pt" if name is None else name
        path = self.session.save_named(name)
        self.callbacks.fire("on_checkpoint", 0, self, path)
        return path

    @_alone
    def load_checkpoint(
        self,
        which: Which = "latest",
        *,
        weights_only: bool = False,
        change_rates: bool = False,
    ) -> None:
        """Continues from a checkpoint; later rows are removed from the logs.

        Args:
            which: A name, the environment steps, a path, "latest" or "best".
            weights_only: Whether only the networks' weights are loaded, also into a
                runner with other settings, such as another number of games. Its
                optimiser, iteration, rates and logs stay unchanged.
            change_rates: Whether numbers of the agent's config (`learning_rate`,
                `gamma`, ...) may differ from those of the checkpoint; the agent's are
                used then, and a warning names them.

        Raises:
            CheckpointError: If there is none, or it belongs to another training; names
                what differs.
        """
        paths = chosen(self.session.store, which)
        if weights_only:
            learner = self.program.state.agents[0]
            params = saved_params(paths[0], learner.params)
            self.program.set_agents({0: learner.replace(params=params)})
            return
        self._settings.restore(
            self.session, self.program, paths, change_rates=change_rates
        )
        self.stats = {}
        if self._log.resume(self._position) and self.metrics.has_row:
            # The checkpoint was saved before the row of its iteration was written.
            self.metrics.take_row()

    def add_callback(self, event: str, fn: Callable[..., Any], every: int = 1) -> None:
        """Adds a function to be called at an event, from the next `learn` on.

        Args:
            event: One of `EVENTS`. `pre_*` get (runner), `post_*`, `on_log` and
                `on_eval` (runner, stats), `on_checkpoint` (runner, path), `on_stop`
                (runner, reason).
            fn: The function.
            every: Iterations between two calls, for events of iterations.

        Raises:
            ValueError: If there is no such event, or `every` is below 1.
        """
        self.callbacks.add(event, fn, every)

    def set_hyperparam(self, name: str, value: float) -> None:
        """Sets a hyperparameter, such as `learning_rate`, without a compile.

        Raises:
            ValueError: If the learner has no such hyperparameter, or refuses the value.
        """
        state = self.program.state.agents[0]
        if name not in state.hyper:
            raise ValueError(
                f"the agent has no hyperparameter {name!r}; it has "
                f"{', '.join(sorted(state.hyper))}"
            )
        self.program.set_agents({0: with_hyper(self.agent, state, name, value)})

    def request_stop(self) -> None:
        """Lets `learn` end after the iterations that are running."""
        self._stop_requested = True

    def close(self) -> None:
        """Closes logs and checkpoints; its owner closes the environment."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._evaluation.close)
            stack.callback(self._log.close)
            if self.session.store is not None:
                stack.callback(self.session.store.close)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Holds the locks of its folders, and flushes the log; may be nested."""
        with contextlib.ExitStack() as stack:
            if not self._is_writing:
                stack.enter_context(locked(*self._folders))
                self._is_writing = True
                stack.callback(setattr, self, "_is_writing", False)
                stack.callback(self._log.flush)
            yield

    @property
    def has_store(self) -> bool:
        """Whether there is a folder for checkpoints."""
        return self.session.store is not None

    def stats_of(self, rows: Rows, index: int = -1) -> dict[str, float]:
        """Returns one iteration of the program's rows under the names of this runner.

        Means over episodes are NaN where none has ended in it.
        """
        return self.metrics.of(rows, index)

    @property
    def _position(self) -> Position:
        return Position(self.iteration, self.total_timesteps)

    def _facts(self) -> Mapping[str, Any]:
        return {**self._settings.facts(), "total_timesteps": self.total_timesteps}
