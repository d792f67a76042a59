"""The base of loops that stand one level above training."""

import abc
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from paxenv.environment import Environment
from paxenv_agents.agent import Agent
from paxenv_agents.registry import check_agent, make_agent
from paxenv_agents.types import TrainingState
from runners.engine.program import run_keys
from runners.search.outer_options import OuterConfig
from runners.session.loop import Task
from runners.session.one_learner import shown
from runners.session.progress import Line
from runners.session.runner_config import GameLike, game_and_params
from runners.views.outer_loops.handle import AgentHandle, OnRow
from runners.views.outer_loops.inner_loop import Hook

Results = tuple[dict[str, Any], dict[str, Any]]


class Turn:
    """One call of `run`, and where it began in the count of all calls.

    It is a `Part` of a session: a resumed run completes the call that was interrupted.

    Attributes:
        began: The count at its beginning.
    """

    def __init__(self) -> None:
        self.began, self._resumed = 0, False

    def begin(self, done: int) -> None:
        """Begins a call, or continues the one that was resumed."""
        if not self._resumed:
            self.began = done
        self._resumed = False

    def saved(self) -> int:
        """Returns the count at its beginning."""
        return self.began

    def load(self, saved: int | None) -> None:
        """Makes the next call the rest of one that began at a saved count."""
        self.began, self._resumed = int(saved or 0), True

    def left(self, budget: int, done: int) -> int:
        """Returns the rest of a call's budget."""
        return max(self.began + budget - done, 0)


class OuterRunner(abc.ABC):
    """Wraps an agent and a game, and repeats, changes or searches their inner loop.

    A subclass defines `run()` by `train`, `evaluate` and `agent`.

    Attributes:
        config: The options of the loop.
        agent: The inner loop, the only access of a runner to agent and game.
        turn: The present call of `run`, for runners that have a budget.
        session: The session that `run` advances, and that saves its checkpoints.
        on_row: Called with `(iteration, environment steps, metrics)` for every row.
        should_stop: Called during training; true ends it early.
        tasks: Other tasks during training, at intervals.
        non_finite: `"stop"` raises at the first NaN in training, `"continue"` does not.

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
        env: GameLike,
        env_params: PyTree = None,
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
            config: The options of the loop; None: all defaults.
            hooks: Functions that are called inside the inner loop.
            progress: Whether a line of progress is shown on a terminal or in a
                notebook.

        Raises:
            ValueError: If the arguments do not fit together.
        """
        game, numbers = _game(env, env_params)
        made = make_agent(agent, game) if isinstance(agent, str) else agent
        check_agent(made, names=True)
        if not made.learns:
            raise ValueError(
                f"{type(made).__name__} does not learn: an outer loop needs a learner"
            )
        self.config = self.config_class() if config is None else config
        if not isinstance(self.config, self.config_class):
            raise ValueError(
                f"config of {type(self).__name__} must be of the class "
                f"{self.config_class.__name__}, got {self.config!r}"
            )
        for hook in hooks:
            if not isinstance(hook, Hook):
                raise ValueError(f"hooks must be of the class Hook, got {hook!r}")
        (self.key,) = run_keys(self.config.seed)
        self.agent = AgentHandle(
            made, game, numbers, self.config, self.key, tuple(hooks)
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

        The first hold `step` and `env_step`; the second the statistics of `evaluate`,
        such as `mean_eval_reward`.
        """

    def start_from(self, learner: TrainingState) -> None:
        """Gives the agent another training state, before the first iteration."""
        self.agent.training_state = learner

    def train(self, num_steps: int, env: GameLike | None = None) -> dict[str, Any]:
        """Trains the agent and returns its results, as `AgentHandle.train`.

        Args:
            num_steps: Environment steps; rounded up to whole iterations.
            env: Another game of the same spaces in which to continue: the game, its
                name, or (game, numbers). None: the present one.
        """
        if env is not None:
            self.agent.set_env(*_game(env))
        iterations = self.agent.loop.iterations(num_steps)
        with self._shown(self.agent.iteration + iterations):
            return self.agent.train(num_steps, self._row, **self._watched)

    def evaluate(self) -> dict[str, Any]:
        """Returns statistics of whole episodes in games of their own, by name.

        They are `mean_eval_reward`, `eval/mean_reward`, `eval/std_reward` and so on.
        Training is not affected.
        """
        return self.agent.evaluate()

    def snapshot(self) -> dict[str, PyTree]:
        """Returns everything that `run` changes, a pytree of arrays."""
        return {
            "program": self.session.program.arrays(),
            "turn": np.int64(self.turn.began),
        }

    def restore(self, snapshot: Mapping[str, PyTree]) -> None:
        """Continues from a snapshot: `run` then ends as without an interruption."""
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


def _game(env: GameLike, env_params: PyTree = None) -> tuple[Environment, PyTree]:
    game, params = game_and_params(env, env_params)
    return game, jax.tree.map(jnp.asarray, params)


class OnlineRunner(OuterRunner):
    """Trains an agent for `config.num_steps` environment steps and evaluates it.

    Every `run` trains that many more. Only a run that was interrupted and resumed from
    a snapshot counts its earlier steps.

    Example:
        >>> runner = OnlineRunner("PPO", "CartPole-v1", config=OuterConfig(num_envs=8))
        >>> train_results, eval_results = runner.run()
    """

    def run(self) -> Results:
        """Returns (training results, evaluation results)."""
        return self.results(self.advance())

    def advance(self) -> dict[str, Any]:
        """Trains for the rest of the budget and returns the training results."""
        self.turn.begin(self.agent.env_steps)
        left = self.turn.left(self.config.num_steps, self.agent.env_steps)
        return self.train(left)

    def results(self, trained: dict[str, Any]) -> Results:
        """Evaluates the agent, and returns the results of `run`."""
        return trained, self.evaluate()
