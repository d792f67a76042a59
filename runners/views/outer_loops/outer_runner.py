"""The base of loops that stand one level above training."""

import abc
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paxenv_agents.agent import Agent
from paxenv_agents.registry import make_agent
from paxenv_agents.types import TrainingState
from runners.engine.program import run_keys
from runners.search.outer_options import OuterConfig
from runners.session.loop import Task
from runners.session.one_learner import shown
from runners.session.progress import Line
from runners.session.runner_config import game_and_params
from runners.views.outer_loops.handle import AgentHandle, OnRow
from runners.views.outer_loops.inner_loop import Hook

Results = tuple[dict[str, Any], dict[str, Any]]


class Turn:
    """One call of `run`: where it began, on a clock that all calls share.

    A `Part` of a session: a run that is resumed is the rest of the call that it was.

    Attributes:
        began: What had been done before it.
    """

    def __init__(self) -> None:
        self.began, self._resumed = 0, False

    def begin(self, done: int) -> None:
        """Begins a call, or goes on with the one that was resumed."""
        if not self._resumed:
            self.began = done
        self._resumed = False

    def saved(self) -> int:
        """Returns where it began."""
        return self.began

    def load(self, saved: int | None) -> None:
        """Lets the next call be the rest of one that began there."""
        self.began, self._resumed = int(saved or 0), True

    def left(self, budget: int, done: int) -> int:
        """Returns what is left of a call's budget."""
        return max(self.began + budget - done, 0)


class OuterRunner(abc.ABC):
    """Wraps an agent and a game, and repeats, changes or searches their inner loop.

    A subclass writes `run()`, in terms of `train`, `evaluate` and `agent`.

    Attributes:
        config: How it runs.
        agent: The inner loop: everything that a runner may see or do goes through it.
        turn: Where the present call of `run` began, for runners that have a budget.
        session: What `run` advances, and its checkpoints where there is a place.
        on_row: Told `(iteration, environment steps, metrics)` when a row is due.
        should_stop: Asked on the way whether training is to end early.
        tasks: What else is done on the way, at intervals.
        non_finite: `"stop"` raises at the first NaN in training, `"continue"` goes on.

    Example:
        >>> class Curriculum(OuterRunner):
        ...     def run(self):
        ...         for gravity in (5.0, 9.8, 15.0):
        ...             self.agent.set_hyperparam("env.gravity", gravity)
        ...             train_results = self.train(self.config.num_steps)
        ...         return train_results, self.evaluate()
    """

    config_class: type[OuterConfig] = OuterConfig

    def __init__(
        self,
        agent: Agent | str,
        env: Any,
        env_params: Any = None,
        config: OuterConfig | None = None,
        *,
        hooks: Sequence[Hook] = (),
        progress: bool = True,
    ) -> None:
        """Makes a runner with a fresh agent.

        Args:
            agent: A learner made for the game, or its name.
            env: A native game of one player (`SinglePlayer` makes one of a dilemma),
                the name of one, or (game, numbers).
            env_params: Its numbers; None: its own.
            config: How it runs; None: all defaults.
            hooks: Components inside the inner loop.
            progress: Whether a line of progress is shown on a terminal or in a
                notebook.

        Raises:
            ValueError: If something does not fit together.
        """
        env, env_params = _game(env, env_params)
        made = make_agent(agent, env) if isinstance(agent, str) else agent
        if not made.learns:
            raise ValueError(
                f"{type(made).__name__} does not learn: an outer loop needs a learner"
            )
        self.config = self.config_class() if config is None else config
        if not isinstance(self.config, self.config_class):
            raise ValueError(
                f"{type(self).__name__} takes a {self.config_class.__name__}, got "
                f"{type(self.config).__name__}"
            )
        (self.key,) = run_keys(self.config.seed)
        self.agent = AgentHandle(
            made, env, env_params, self.config, self.key, tuple(hooks)
        )
        self.turn = Turn()
        self.session = self.agent.session
        self.session.parts = {**self.session.parts, "turn": self.turn}
        self.on_row: OnRow | None = None
        self.should_stop: Callable[[], bool] = lambda: False
        self.tasks: tuple[Task, ...] = ()
        self.non_finite = "continue"
        self.progress = progress
        self._line: Line | None = None

    @abc.abstractmethod
    def run(self) -> Results:
        """Runs to the end and returns (training results, evaluation results).

        The first has `step` and `env_step`; the second the statistics of `evaluate`,
        `mean_eval_reward` among them.
        """

    def start_from(self, learner: TrainingState) -> None:
        """Makes another training state the agent's, before anything is run."""
        self.agent.training_state = learner

    def train(self, num_steps: int, env: Any = None) -> dict[str, Any]:
        """Trains the agent and returns what it came to, as `AgentHandle.train`.

        Args:
            num_steps: Environment steps; rounded up to whole iterations.
            env: Another game of the same spaces to go on in: the game, its name, or
                (game, numbers). None: the one where the agent is.
        """
        if env is not None:
            self.agent.set_env(*_game(env))
        iterations = self.agent.loop.iterations(num_steps)
        with self._shown(self.agent.iteration + iterations):
            return self.agent.train(num_steps, self._row, **self._watched)

    def evaluate(self) -> dict[str, Any]:
        """Returns statistics of whole episodes in games of their own, by name.

        `mean_eval_reward`, `eval/mean_reward`, `eval/std_reward` and so on. Changes
        nothing.
        """
        return self.agent.evaluate()

    def snapshot(self) -> Any:
        """Returns everything that `run` changes, a pytree of arrays."""
        return {
            "program": self.session.program.arrays(),
            "turn": np.int64(self.turn.began),
        }

    def restore(self, snapshot: Any) -> None:
        """Goes on from a snapshot: `run` then ends as if it had not stopped."""
        self.session.program.restore(snapshot["program"], {})
        self.turn.load(int(snapshot["turn"]))

    @property
    def _watched(self) -> dict[str, Any]:
        return {
            "tasks": self.tasks,
            "stop": self.should_stop,
            "non_finite": self.non_finite,
        }

    @contextlib.contextmanager
    def _shown(self, total: int) -> Iterator[None]:
        """Shows a line of progress until `total` iterations or generations are done."""
        agent, env = self.agent.agent, self.agent.env
        with shown(agent, env, total, asked=self.progress) as self._line:
            self._line.doing("compiling", "training")
            yield

    def _row(self, iteration: int, env_steps: int, metrics: dict[str, float]) -> None:
        if self._line is not None:
            self._line.advance(iteration)
        if self.on_row is not None:
            self.on_row(iteration, env_steps, metrics)


def _game(env: Any, env_params: Any = None) -> tuple[Any, Any]:
    game, params = game_and_params(env, env_params)
    return game, jax.tree.map(jnp.asarray, params)


class OnlineRunner(OuterRunner):
    """Trains an agent for `config.num_steps` environment steps and evaluates it.

    Every `run` trains that much more. Only a run that was cut off and goes on from a
    snapshot counts what it has done before.

    Example:
        >>> runner = OnlineRunner("PPO", "CartPole-v1", config=OuterConfig(num_envs=8))
        >>> train_results, eval_results = runner.run()
    """

    def run(self) -> Results:
        """Returns (training results, evaluation results)."""
        return self.results(self.advance())

    def advance(self) -> dict[str, Any]:
        """Trains what is left of the budget and returns what it came to."""
        self.turn.begin(self.agent.env_steps)
        left = self.turn.left(self.config.num_steps, self.agent.env_steps)
        return self.train(left)

    def results(self, trained: dict[str, Any]) -> Results:
        """Evaluates the agent, and returns what `run` returns."""
        return trained, self.evaluate()
