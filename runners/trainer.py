"""What the functions `train_*` share: one learner, one game, and a RunnerConfig."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from paxenv_agents.agent import Agent
from paxenv_agents.lineup import Slot
from paxenv_agents.types import TrainingState
from runners import host_replay_program, reward_curve
from runners.checkpoints.files import read_record
from runners.checkpoints.store import CheckpointStore, start_rule
from runners.experiment import Experiment
from runners.host_replay_program import HostReplayProgram
from runners.interrupt import Interrupt
from runners.intervals import Interval
from runners.jsonl import JsonLines
from runners.loop import Chunk, Loop, Task
from runners.places import check_writable, locked
from runners.program import EVALUATION, Program, initial_state, run_keys
from runners.rows import RETURNS
from runners.run_dir import RunDir
from runners.runner_config import RunnerConfig
from runners.sinks import Position, scalars
from runners.whole_episodes import greedy_statistics

#: Most iterations of one compiled call.
CHUNK = 256
RETURN = "episode/return/player_1"
COUNT = "episode/count"
BUFFERS = ("device", "host")

Callback = Callable[[int, TrainingState, dict[str, float]], None]


@dataclasses.dataclass
class Trainer:
    """Trains one agent in one game, with everything that a RunnerConfig asks for.

    Attributes:
        agent: The learner.
        env: A game of one player.
        env_params: Its numbers.
        config: How long, how often.
        games: Games in parallel over all devices.
        mesh: The devices; None: the default one.
        run_dir: Where rows and the picture go; None: nowhere.
        buffer: Where replay lies: one of `BUFFERS`.
        callback: Told `(step, agent state, metrics)` every `log_interval` steps.
    """

    agent: Agent
    env: Any
    env_params: Any
    config: RunnerConfig
    games: int
    mesh: Any = None
    run_dir: RunDir | None = None
    buffer: str = "device"
    callback: Callback | None = None

    def __post_init__(self) -> None:
        if self.buffer not in BUFFERS:
            raise ValueError(f"buffer must be one of {BUFFERS}, got {self.buffer!r}")
        for folder in self._folders:
            check_writable(folder)
        steps = self.agent.rollout_length(self.games)
        per_iteration = steps * self.games
        self.num_iterations = self.config.total_timesteps // per_iteration
        if self.num_iterations < 1:
            raise ValueError(
                f"total_timesteps={self.config.total_timesteps} is less than one "
                f"iteration, {self.games} games of {steps} steps: {per_iteration}"
            )
        agent = self.agent.planned(self.num_iterations)
        agent.check_batch(steps, self.games)
        self.experiment = Experiment(
            env=self.env,
            slots=(Slot(agent),),
            num_games=self.games,
            num_steps=steps,
            chunk_size=CHUNK,
            keep_returns=not agent.on_policy,
            mesh=self.mesh,
        )
        self.program = self._program()
        self.history: dict[str, np.ndarray] = {}
        self.episode_returns: list[float] = []
        self.metrics_log: list[dict[str, Any]] = []
        self._rows: JsonLines | None = None
        self._evaluations: JsonLines | None = None
        self._saved, self._seconds = -1, 0.0

    def _program(self) -> Program | HostReplayProgram:
        seed = self.config.seed
        start = self.experiment, run_keys(seed), self.env_params
        if self.buffer == "device":
            return Program(self.experiment, initial_state(*start))
        fresh = host_replay_program.initial_state(*start)
        return HostReplayProgram(self.experiment, fresh, seed)

    @property
    def state(self) -> TrainingState:
        """The learner's training state."""
        return jax.tree.map(lambda x: x[0], self.program.state.agents[0])

    def run(self, keep: tuple[str, ...] = ()) -> None:
        """Trains to the end.

        Args:
            keep: Metrics of which `history` holds every iteration, `[num_iterations]`.

        Raises:
            FileExistsError: If there are checkpoints and the config says neither
                `resume` nor `overwrite`.
            NonFiniteError: If training diverges.
            ValueError: If the budget is less than what the checkpoint has used.
            KeyboardInterrupt: After Ctrl-C, once the state is saved.
            InUseError: If another run is writing to the same folders.
        """
        with locked(*self._folders):
            self._run(keep)

    @property
    def _folders(self) -> list[Path]:
        """Where this process writes."""
        if jax.process_index() != 0:
            return []
        rows = None if self.run_dir is None else self.run_dir.path
        places = (self.config.checkpoint_dir, rows)
        return [Path(place) for place in places if place is not None]

    def _run(self, keep: tuple[str, ...]) -> None:
        nan = np.full(self.num_iterations, np.nan, np.float32)
        self.history = {name: nan.copy() for name in keep}
        store = self._open_store()
        try:
            position = self._start(store)
            self._open_logs(position)
            with Interrupt() as interrupt:
                self._loop(store).run(lambda: interrupt.requested)
                self._save(store)
        finally:
            if store is not None:
                store.close()
            self._close_logs()
        if self.program.iteration < self.num_iterations:
            raise KeyboardInterrupt
        if self.config.plot:
            self._plot()

    def _loop(self, store: CheckpointStore | None) -> Loop:
        per_iteration = self.experiment.steps_per_iteration
        config = self.config
        tasks = [
            Task(Interval(config.log_interval, per_iteration), self._log),
            Task(Interval(config.eval_every, per_iteration), self._evaluate),
        ]
        if store is not None:
            interval = Interval(config.checkpoint_interval, per_iteration)
            tasks.append(Task(interval, lambda _: self._save(store)))
        program: Any = self.program
        return Loop(
            program,
            self.num_iterations,
            on_chunk=(self._keep,),
            tasks=tasks,
            seconds=self._seconds,
        )

    def _keep(self, chunk: Chunk) -> None:
        self._seconds = chunk.seconds
        for name, values in self.history.items():
            values[chunk.first : chunk.last] = chunk.rows[name][0]
        if RETURNS in chunk.rows:
            ended = chunk.rows[RETURNS][0]  # in the order of iterations, steps, games
            self.episode_returns += ended[~np.isnan(ended)].tolist()
            return
        counts, returns = chunk.rows[COUNT][0], chunk.rows[RETURN][0]
        for i in np.flatnonzero(counts):
            self.episode_returns += [float(returns[i])] * int(counts[i])

    def _log(self, chunk: Chunk) -> None:
        row = scalars({k: v[0, -1] for k, v in chunk.rows.items() if k != RETURNS})
        row["time/seconds"] = round(chunk.seconds, 3)
        step = self.program.env_steps
        self.metrics_log.append({"step": step, **row})
        if self._rows is not None:
            self._rows.log(step, self.program.iteration, row)
            self._rows.flush()
        if self.callback is not None:
            self.callback(step, self.state, row)

    def _evaluate(self, chunk: Chunk) -> None:
        del chunk
        step = self.program.env_steps
        (key,) = run_keys(self.config.seed, evaluation=True)
        named = greedy_statistics(
            self.experiment.slots[0].agent,
            self.state,
            self.env,
            self.env_params,
            jax.random.fold_in(jax.random.fold_in(key, EVALUATION), step % 2**31),
            self.config.eval_episodes,
        )
        self.metrics_log.append({"step": step, **named})
        if self._evaluations is not None:
            self._evaluations.log(step, self.program.iteration, named)
            self._evaluations.flush()

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

    def _start(self, store: CheckpointStore | None) -> Position | None:
        """Begins afresh or from the latest checkpoint, and returns where."""
        if store is None:
            return None
        config = self.config
        rule = start_rule(
            store.folder, resume=config.resume, overwrite=config.overwrite
        )
        if rule == "overwrite":
            store.clear()
        if rule != "resume":
            return None
        state, meta = store.restore(
            lambda path: self._saveable(self._saved_iteration(path))
        )
        self.program.load(state["run"])
        for name, values in state["history"].items():
            self.history[name][: values.size] = values
        if isinstance(self.program, HostReplayProgram):
            self.program.load_ring(state["replay"], meta["generator"])
        self.episode_returns = list(meta["episode_returns"])
        self.metrics_log = list(meta["metrics_log"])
        self._saved, self._seconds = self.program.iteration, meta["seconds"]
        return Position(self.program.iteration, self.program.env_steps)

    def _saved_iteration(self, path: Path) -> int:
        record = read_record(path)
        iteration = int(record.meta["iteration"])
        if iteration > self.num_iterations:
            raise ValueError(
                f"total_timesteps={self.config.total_timesteps} is less than the "
                f"{record.meta['env_steps']} steps of the checkpoint {path}"
            )
        return iteration

    def _saveable(self, iteration: int) -> dict[str, Any]:
        history = {name: values[:iteration] for name, values in self.history.items()}
        saved = {"run": self.program.state, "history": history}
        if isinstance(self.program, HostReplayProgram):
            saved["replay"] = self.program.saved_ring()
        return saved

    def _save(self, store: CheckpointStore | None) -> None:
        if store is None or self._saved == self.program.iteration:
            return
        self._saved = self.program.iteration
        meta = {
            "config": dataclasses.asdict(self.config),
            "agent": type(self.agent).__name__,
            "iteration": self.program.iteration,
            "env_steps": self.program.env_steps,
            "seed": self.config.seed,
            "seconds": self._seconds,
            "episode_returns": self.episode_returns,
            "metrics_log": self.metrics_log,
        }
        if isinstance(self.program, HostReplayProgram):
            meta["generator"] = self.program.generator
        store.save(self.program.env_steps, self._saveable(self.program.iteration), meta)

    # Files.

    def _open_logs(self, position: Position | None) -> None:
        if self.run_dir is not None and jax.process_index() == 0:
            run = self.run_dir
            self._rows = JsonLines(run.metrics, resume_from=position)
            self._evaluations = JsonLines(run.eval_metrics, resume_from=position)

    def _close_logs(self) -> None:
        for log in (self._rows, self._evaluations):
            if log is not None:
                log.close()

    def _plot(self) -> None:
        """Draws the returns of all finished episodes, if there is a place for it."""
        if self.run_dir is not None:
            folder = self.run_dir.artifacts
        elif self.config.checkpoint_dir is not None:
            folder = Path(self.config.checkpoint_dir)
        else:
            return
        if jax.process_index() == 0:
            reward_curve.draw(folder / "reward_curve.png", self.episode_returns)
