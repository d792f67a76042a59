"""The common part of `train_*`: one learner, one game, and a RunnerConfig."""

import contextlib
import dataclasses
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from paxenv.environment import Environment
from paxenv.paths import local_path
from paxenv_agents.agent import Agent
from paxenv_agents.types import TrainingState
from runners.engine.joined_rows import JoinedRows
from runners.engine.program import (
    CompiledProgram,
    StagedProgram,
    evaluation_keys,
    initial_state,
    run_keys,
)
from runners.engine.rows import RETURNS
from runners.report import plots
from runners.session import host_replay
from runners.session.evaluation import greedy_statistics
from runners.session.host_replay import HostReplayProgram
from runners.session.loop import Chunk, Interval, Task
from runners.session.one_learner import LearnerSettings, experiment_of, shown
from runners.session.progress import Line
from runners.session.runner_config import RunnerConfig
from runners.session.session import Session
from runners.storage.checkpoints.files import (
    LATEST,
    DamagedError,
    find_checkpoint,
    read_record,
)
from runners.storage.checkpoints.journal import Journal
from runners.storage.checkpoints.settings import settings_of
from runners.storage.checkpoints.store import CheckpointStore, StartRule, start_rule
from runners.storage.jsonl import JsonLines
from runners.storage.metrics_log import MetricsLog
from runners.storage.places import check_writable, locked
from runners.storage.run_dir import RunDir
from runners.storage.sinks import Position, numbers

#: Most iterations of one compiled call.
CHUNK = 256
RETURN = "episode/return/player_1"
COUNT = "episode/count"
BUFFERS = ("device", "host")
PICTURE = "reward_curve.png"
#: Fields of a RunnerConfig that are no settings of a training, or are recorded already.
NOT_SETTINGS = (
    *("resume", "overwrite", "checkpoint_dir", "plot", "change_rates", "progress"),
    *("seed", "num_envs", "buffer_size", "warmup_steps"),
)

logger = logging.getLogger(__name__)

Callback = Callable[[int, TrainingState, dict[str, float]], None]


@dataclasses.dataclass
class Trainer:
    """Trains one agent in one game, as a RunnerConfig says.

    Attributes:
        agent: The learner.
        env: A game of one player.
        env_params: Its numbers.
        config: Lengths and intervals.
        games: Games in parallel over all devices.
        mesh: The devices; None: the default one.
        run_dir: The place of rows and the picture; None: neither is written.
        buffer: The place of replay, one of `BUFFERS`.
        callback: Called with `(step, agent state, metrics)` every `log_interval` steps.
    """

    agent: Agent
    env: Environment
    env_params: PyTree
    config: RunnerConfig
    games: int
    mesh: Mesh | None = None
    run_dir: RunDir | None = None
    buffer: str = "device"
    callback: Callback | None = None

    def __post_init__(self) -> None:
        if self.buffer not in BUFFERS:
            raise ValueError(f"buffer must be one of {BUFFERS}, got {self.buffer!r}")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be a function, got {self.callback!r}")
        for folder in self._folders:
            check_writable(folder, for_checkpoints=True)
        steps = self.agent.rollout_length(self.games)
        per_iteration = steps * self.games
        self.num_iterations = self.config.total_timesteps // per_iteration
        if self.num_iterations < 1:
            raise ValueError(
                f"total_timesteps={self.config.total_timesteps} is less than one "
                f"iteration, {self.games} games of {steps} steps: {per_iteration}"
            )
        self.experiment = experiment_of(
            self.agent.planned(self.num_iterations),
            *(self.env, self.games),
            chunk_size=CHUNK,
            keep_returns=not self.agent.on_policy,
            keep_parts=True,
            mesh=self.mesh,
        )
        self._settings = self._all_settings()
        self._rule = self._checked_rule()
        self._check_picture()
        with self._shown():
            self.program = self._program()
        self.history: dict[str, np.ndarray] = {}
        self.episode_returns: list[float] = []
        self.metrics_log: list[dict[str, Any]] = []
        self._joined = JoinedRows(self.env)
        self._files: MetricsLog | None = None

    def _program(self) -> StagedProgram:
        seed = self.config.seed
        start = self.experiment, run_keys(seed), self.env_params
        if self.buffer == "device":
            return CompiledProgram(self.experiment, initial_state(*start))
        fresh = host_replay.initial_state(*start)
        return HostReplayProgram(self.experiment, fresh, seed)

    @property
    def state(self) -> TrainingState:
        """The learner's training state."""
        return self.program.learner

    def run(self, keep: tuple[str, ...] = ()) -> None:
        """Trains to the end.

        Args:
            keep: Metrics of which `history` holds every iteration, `[num_iterations]`.
                With those of episodes among them the picture shows their means.

        Raises:
            FileExistsError: If there are checkpoints and the config sets neither
                `resume` nor `overwrite`.
            NonFiniteError: If training diverges.
            ValueError: If the budget is less than the steps of the checkpoint.
            KeyboardInterrupt: After Ctrl-C, once the state is saved.
            InUseError: If another run is writing to the same folders.
        """
        with locked(*self._folders):
            self._run(keep)

    @property
    def _folders(self) -> list[Path]:
        """The folders to which this process writes."""
        if jax.process_index() != 0:
            return []
        rows = None if self.run_dir is None else self.run_dir.path
        places = (self.config.checkpoint_dir, rows)
        return [local_path(place) for place in places if place is not None]

    def _run(self, keep: tuple[str, ...]) -> None:
        nan = np.full(self.num_iterations, np.nan, np.float32)
        self.history = {name: nan.copy() for name in keep}
        store = self._open_store()
        history = {} if store is None else {"history": _History(self, store)}
        parts = {"rows": self._joined, **history}
        self.session = Session(self.program, store, self._settings.facts, parts)
        with contextlib.ExitStack() as stack:
            if store is not None:
                stack.enter_context(store)
            position = self._start(store)
            if self.run_dir is not None and jax.process_index() == 0:
                self._files = stack.enter_context(_opened(self.run_dir, position))
                self.session.flush = self._files.flush
            stack.enter_context(self.session.interruptible())
            line = stack.enter_context(self._shown())
            line.doing("compiling", "training")
            self._train(line)
            self.session.save()
        if self.program.iteration < self.num_iterations:
            raise KeyboardInterrupt
        if self.config.plot:
            self._plot()

    def _shown(self) -> contextlib.AbstractContextManager[Line]:
        asked = self.config.progress and jax.process_index() == 0
        return shown(self.agent, self.env, self.num_iterations, asked=asked)

    def _train(self, line: Line) -> None:
        config, session = self.config, self.session
        actions: list[tuple[int, Callable[[Chunk], None]]] = [
            (config.log_interval, self._log),
            (config.eval_every, self._evaluate),
        ]
        if session.store is not None:
            actions.append((config.checkpoint_interval, lambda _: session.save()))
        per_iteration = self.program.steps_per_iteration
        session.run(
            self.num_iterations,
            on_chunk=(self._keep, lambda chunk: line.advance(chunk.last)),
            tasks=[Task(Interval(n, per_iteration), action) for n, action in actions],
        )

    def _keep(self, chunk: Chunk) -> None:
        self._joined.add(chunk.rows)
        for name, values in self.history.items():
            values[chunk.first : chunk.last] = chunk.rows[name][0]
        if RETURNS in chunk.rows:
            ended = chunk.rows[RETURNS][0]  # in the order of iterations, steps, games
            self.episode_returns += ended[~np.isnan(ended)].tolist()

    def _log(self, chunk: Chunk) -> None:
        row = numbers({name: x[0] for name, x in self._joined.take().items()})
        row["time/seconds"] = round(chunk.seconds, 3)
        step = self.program.env_steps
        self.metrics_log.append({"step": step, **row})
        if self._files is not None:
            self._files.log(step, self.program.iteration, row)
        if self.callback is not None:
            self.callback(step, self.state, row)

    def _evaluate(self, chunk: Chunk) -> None:
        del chunk
        step = self.program.env_steps
        (key,) = evaluation_keys(self.config.seed, env_steps=step)
        named = greedy_statistics(
            self.experiment.slots[0].agent,
            self.state,
            self.env,
            self.env_params,
            key,
            self.config.eval_episodes,
        )
        self.metrics_log.append({"step": step, **named})
        if self._files is not None:
            self._files.log_evaluation(step, self.program.iteration, named)

    # The start.

    def _all_settings(self) -> LearnerSettings:
        """Returns the settings of this training, for the records of its checkpoints."""
        config = dataclasses.asdict(self.config)
        values = settings_of(
            *(self.agent, self.env, self.env_params),
            seed=self.config.seed,
            num_games=self.games,
            buffer=self.buffer,
            runner={k: v for k, v in config.items() if k not in NOT_SETTINGS},
        )
        return LearnerSettings(
            *(self.agent, values),
            free=("runner",),
            cure="Give it what it was trained with, or name another checkpoint_dir",
        )

    def _checked_rule(self) -> StartRule:
        """Returns the rule of its start, checked before anything is compiled.

        Raises:
            FileExistsError: If its folders hold files of another training.
            ValueError: If it cannot resume from the checkpoint there.
        """
        config, rule = self.config, "fresh"
        if config.overwrite and config.checkpoint_dir is None and self.run_dir is None:
            raise ValueError(
                "overwrite=True deletes what is in checkpoint_dir and run_dir, and "
                "neither is given"
            )
        if config.checkpoint_dir is not None:
            rule = start_rule(
                config.checkpoint_dir, resume=config.resume, overwrite=config.overwrite
            )
        if rule == "resume":
            # If this one is damaged, `restore` uses the one before it.
            with contextlib.suppress(DamagedError):
                path = find_checkpoint(config.checkpoint_dir or "")
                self._settings.changes(path, change_rates=config.change_rates)
                self._check_budget(path)
        old = [p for p in self._log_files() if p.is_file() and p.stat().st_size]
        if old and not config.resume and not config.overwrite:
            raise FileExistsError(
                f"{old[0]} holds the rows of another training: overwrite=True deletes "
                "them, resume=True with checkpoint_dir goes on, or name another run_dir"
            )
        return rule

    def _check_budget(self, path: Path) -> None:
        """Raises ValueError if the budget is less than the steps of a checkpoint."""
        record = read_record(path)
        if int(record.meta["iteration"]) > self.num_iterations:
            raise ValueError(
                f"total_timesteps={self.config.total_timesteps} is less than the "
                f"{record.meta['env_steps']} steps of the checkpoint {path}"
            )

    def _start(self, store: CheckpointStore | None) -> Position | None:
        """Begins anew and returns None, or continues and returns the position."""
        if self._rule != "resume" or store is None:
            self._clear(store)
            return None
        self._settings.restore(
            *(self.session, self.program, store.candidates(LATEST)),
            change_rates=self.config.change_rates,
            check=self._check_budget,
        )
        return Position(self.program.iteration, self.program.env_steps)

    def _clear(self, store: CheckpointStore | None) -> None:
        """Deletes the files of an earlier training, also of one that was killed."""
        if store is not None:
            store.clear()
        if jax.process_index() != 0:
            return
        if store is not None:
            Journal(store.folder).clear()
        folder = self._picture_folder()
        for path in (*self._log_files(), *([folder / PICTURE] if folder else [])):
            path.unlink(missing_ok=True)

    # Checkpoints.

    def _open_store(self) -> CheckpointStore | None:
        config = self.config
        if config.checkpoint_dir is None:
            return None
        return CheckpointStore(
            config.checkpoint_dir,
            max_to_keep=config.max_checkpoints,
            keep_period=config.keep_period,
        )

    # Files.

    def _log_files(self) -> list[Path]:
        run = self.run_dir
        return [] if run is None else [run.metrics, run.eval_metrics]

    def _picture_folder(self) -> Path | None:
        if self.run_dir is not None:
            return self.run_dir.artifacts
        directory = self.config.checkpoint_dir
        return None if directory is None else Path(directory)

    def _check_picture(self) -> None:
        if self.config.plot and self._picture_folder() is None:
            warnings.warn(
                f"plot=True has no place for {PICTURE}: give run_dir or "
                "checkpoint_dir, or plot=False",
                stacklevel=6,
            )

    def _plot(self) -> None:
        """Draws the returns of the episodes that have ended."""
        folder = self._picture_folder()
        if folder is None or jax.process_index() != 0:
            return
        if RETURN in self.history:
            per_iteration = self.experiment.steps_per_iteration
            ended = self.history[COUNT] > 0
            steps = per_iteration * (1 + np.flatnonzero(ended))
            drawn = plots.draw_means(
                folder / PICTURE, steps, self.history[RETURN][ended]
            )
        else:
            drawn = plots.draw(folder / PICTURE, self.episode_returns)
        if not drawn:
            logger.warning("no episode has ended, so there is no %s", PICTURE)


def _opened(run: RunDir, position: Position | None) -> MetricsLog:
    evaluations = JsonLines(run.eval_metrics, resume_from=position)
    rows = JsonLines(run.metrics, resume_from=position)
    return MetricsLog(rows, evaluations=evaluations)


class _History:
    """The growing results of a training, in a journal beside its checkpoints."""

    def __init__(self, trainer: Trainer, store: CheckpointStore) -> None:
        self._trainer, self._journal = trainer, Journal(store.folder)
        self._written = {"iterations": 0, "returns": 0, "rows": 0}

    def saved(self) -> dict[str, int]:
        """Appends new results to the journal, and returns its sizes."""
        trainer, journal, done = self._trainer, self._journal, self._written
        now = self._gathered()
        if jax.process_index() == 0:
            new = slice(done["iterations"], now["iterations"])
            for name, values in trainer.history.items():
                journal.add_numbers(_file_name(name), values[new])
            returns = trainer.episode_returns[done["returns"] :]
            journal.add_numbers("episode_returns", returns)
            journal.add_rows("metrics_log", trainer.metrics_log[done["rows"] :])
        self._written = now
        return journal.sizes()

    def load(self, sizes: dict[str, int]) -> None:
        """Restores the results up to a checkpoint."""
        trainer, journal = self._trainer, self._journal
        for name, values in trainer.history.items():
            saved = journal.numbers(_file_name(name), sizes)
            values[: saved.size] = saved
        trainer.episode_returns = journal.numbers("episode_returns", sizes).tolist()
        trainer.metrics_log = journal.rows("metrics_log", sizes)
        if jax.process_index() == 0:
            journal.cut(sizes)
        self._written = self._gathered()

    def _gathered(self) -> dict[str, int]:
        """Returns the lengths of the lists in the journal."""
        return {
            "iterations": self._trainer.program.iteration,
            "returns": len(self._trainer.episode_returns),
            "rows": len(self._trainer.metrics_log),
        }


def _file_name(metric: str) -> str:
    return metric.replace("/", ".")
