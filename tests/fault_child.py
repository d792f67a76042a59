"""Hurts programs of every kind while they run: `python fault_child.py PROGRAM FOLDER`.

A kill strikes at an event: something that Python does to a file below the run's
folder, as its audit hooks see it. So it strikes between any two changes of the
files. Other faults strike when a row of the middle of the run is logged.
"""

import contextlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paxenv
from paxenv_agents.learners.dqn import DQNConfig
from paxenv_agents.learners.ppo import PPOConfig
from paxenv_agents.learners.sac import SACConfig
from runners import OnPolicyRunner, RunnerConfig, train_dqn, train_ppo, train_sac
from runners.cli import cli
from runners.cli.console import adapt_console
from runners.storage.checkpoints.store import NoCheckpointError
from runners.storage.jsonl import JsonLines

#: Twelve iterations or six generations, a checkpoint every four or two.
_PPO = (*("agent1=PPO", "agent1.hidden_sizes=[2]", "agent1.num_minibatches=1"),)
_IPD = ("env=IPD", "env.num_inner_steps=4", "agent2=TitForTat", "num_envs=2", *_PPO)
COMMANDS = {
    "rl": (
        *("runner=rl", *_IPD, "num_seeds=2", "seeds_apart=true", "chunk_size=1"),
        *("total_timesteps=96", "eval_interval=16", "checkpoint_interval=32"),
    ),
    "evo": (
        *("runner=evo", *_IPD, "popsize=2", "top_k=1", "num_generations=6"),
        *("chunk_size=1", "eval_interval=32", "checkpoint_interval=64"),
    ),
    "es": (
        *("runner=es", *_IPD, "agent1.n_steps=4", "agent1.num_epochs=1"),
        *("eval_episodes=2", "checkpoint_interval=32", "total_timesteps=8"),
        *("search.strategy=simple_es", "search.population_size=2"),
        *("search.iterations=6", "search.search_targets=[lr:1e-3:1e-1:log]"),
    ),
}
_RUNNER = {
    **{"num_envs": 2, "total_timesteps": 96, "log_interval": 8, "eval_every": 16},
    **{"eval_episodes": 1, "checkpoint_interval": 32, "plot": False, "resume": True},
    **{"buffer_size": 64, "warmup_steps": 16, "progress": False},
}
_SMALL = {"hidden_sizes": (2,)}
_TRAIN = {
    "train_ppo": (
        *(train_ppo, "CartPole", "ppo_config"),
        PPOConfig(n_steps=4, num_minibatches=1, num_epochs=1, **_SMALL),
    ),
    "train_dqn": (train_dqn, "CartPole", "dqn_config", DQNConfig(**_SMALL)),
    "train_sac": (train_sac, "Pendulum", "sac_config", SACConfig(**_SMALL)),
}
PROGRAMS = (*COMMANDS, *_TRAIN, "OnPolicyRunner")
#: An iteration or generation between the first checkpoint and the last.
MIDDLE = {"rl": 7, "evo": 4, "es": 4, "train_ppo": 7, "train_dqn": 28, "train_sac": 28}
MIDDLE["OnPolicyRunner"] = 7
MISTAKE, FAILED = 2, 1
SEED = 0


def run(name: str, folder: Path, *, again: bool = False) -> tuple[int, str]:
    """Runs a program, or goes on with it; returns what its command line would say.

    Args:
        name: One of `PROGRAMS`.
        folder: Where it writes.
        again: Whether it may have been there before.

    Returns:
        The exit code, and what went wrong.
    """
    if name in COMMANDS:
        first = ["run", *COMMANDS[name], "plot=false", f"save_dir={folder}"]
        resumes = again and (folder / "config.yaml").exists()
        return _command(["resume", str(folder)] if resumes else first)
    try:
        if name in _TRAIN:
            train, game, option, config = _TRAIN[name]
            runner_config = RunnerConfig(**_RUNNER, checkpoint_dir=str(folder / "c"))
            configs = {option: config, "runner_config": runner_config}
            train(*paxenv.make(game), **configs, run_dir=folder)
        else:
            _on_policy(folder)
    except KeyboardInterrupt:
        return 130, ""
    except ValueError as error:
        return MISTAKE, str(error)
    except OSError as error:
        return FAILED, str(error)
    return 0, ""


def _command(words: list[str]) -> tuple[int, str]:
    said = io.StringIO()
    sys.argv = ["paxrun", *words]
    with contextlib.redirect_stderr(said):
        try:
            adapt_console()
            cli(prog_name="paxrun")
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
    return 0, said.getvalue()


def _on_policy(folder: Path) -> None:
    config = PPOConfig(n_steps=4, num_minibatches=1, num_epochs=1, **_SMALL)
    options = {"log_interval": 1, "save_interval": 4, "num_envs": 2, "cfg": config}
    with OnPolicyRunner("CartPole", log_dir=folder, **options) as runner:
        with contextlib.suppress(NoCheckpointError):
            runner.load_checkpoint()
        if runner.total_timesteps < 96:
            runner.learn(total_timesteps=96)


class Rows:
    """Strikes once, when a row of an iteration, or of a later one, is logged."""

    def __init__(self) -> None:
        self._log, self._at, self._strike = JsonLines.log, sys.maxsize, print
        rows = self

        def log(lines: JsonLines, steps: int, done: int, *args: Any, **kw: Any) -> None:
            rows._log(lines, steps, done, *args, **kw)
            if done >= rows._at:
                rows._at = sys.maxsize
                rows._strike()

        JsonLines.log = log

    def strike(self, at: int, strike: Callable[[], None]) -> None:
        """Arms it."""
        self._at, self._strike = at, strike


class Events:
    """Counts what happens to the files below a folder, and strikes at a number."""

    _watched = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")

    def __init__(self) -> None:
        self.folder, self.count, self.at = "", 0, -1
        self.first_checkpoint: int | None = None
        self.strike: Callable[[], None] = lambda: None
        self._lock = threading.RLock()
        sys.addaudithook(self._hook)

    def watch(
        self, folder: Path, at: int = -1, strike: Callable[[], None] = lambda: None
    ) -> None:
        """Begins to count anew."""
        self.count, self.first_checkpoint = 0, None
        self.folder, self.at, self.strike = str(folder), at, strike

    def _hook(self, event: str, args: tuple) -> None:
        if event not in self._watched or not self.folder:
            return
        paths = [os.fspath(a) for a in args[:2] if isinstance(a, str | os.PathLike)]
        if not any(str(path).startswith(self.folder) for path in paths):
            return
        with self._lock:
            self.count += 1
            whole = re.search(r"/(step_\d+|named/[^/.]+\.pt)$", str(paths[-1]))
            if event == "os.rename" and whole and self.first_checkpoint is None:
                self.first_checkpoint = self.count
            if self.count == self.at:
                self.folder, strike = "", self.strike
                strike()


class _Victim:
    """A process that waits to run a program until it is killed at an event."""

    def __init__(self, name: str, folder: Path) -> None:
        listens, self._tells = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._tells)
            with open(listens) as order:
                at = int(order.readline())
            events.watch(folder, at, lambda: os.kill(os.getpid(), signal.SIGKILL))
            code, said = run(name, folder, again=True)
            sys.stderr.write(said)
            os._exit(code)

    def runs_until(self, at: int) -> int:
        """Returns how the process ended; -9 if it was killed."""
        os.write(self._tells, f"{at}\n".encode())
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _moments(name: str) -> tuple[int, int]:
    """Draws two events: one before the first checkpoint of a whole run, one after."""
    count, first = events.count, events.first_checkpoint
    assert first is not None
    chance = random.Random(f"{SEED} {name}")
    return chance.randrange(1, first), chance.randrange(first, count)


def hurt(name: str, base: Path) -> dict[str, object]:
    """Runs a program whole, and then with every fault.

    Two more processes are killed, the second where it goes on after the first; this one
    goes on after the second, and then has the faults that a process survives.

    Returns:
        By fault: (exit code, what was said) of the first run and of the one after it;
        of those that were killed how the processes ended, and what the last run said.
    """
    # Forked while JAX has not begun: it cannot be forked later.
    victims = [_Victim(name, base / "killed") for _ in range(2)]
    whole = base / "whole"
    events.watch(whole)
    found: dict[str, object] = {"whole": [run(name, whole)]}
    moments = _moments(name)
    events.watch(Path("/nowhere"))
    ends = [v.runs_until(at) for v, at in zip(victims, moments, strict=True)]
    found["killed"] = [ends, run(name, base / "killed", again=True)]
    for fault in (_no_links, _unwritable, _vanished, _full_disk, _second_process):
        try:
            found[fault.__name__[1:]] = fault(name, base)
        except BaseException:
            found[fault.__name__[1:]] = traceback.format_exc()
    return found | _cut_files(name, base)


def _no_links(name: str, base: Path) -> object:
    def symlink(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    real, os.symlink = os.symlink, symlink
    try:
        return [run(name, base / "no_links")]
    finally:
        os.symlink = real


def _unwritable(name: str, base: Path) -> object:
    (base / "file").touch()
    return [run(name, base / "file" / "unwritable")]


def _vanished(name: str, base: Path) -> object:
    """The folder is moved away, as a whole: deleting it bit by bit would be a race."""
    folder = base / "vanished"
    rows.strike(MIDDLE[name], lambda: folder.rename(base / "gone"))
    first = run(name, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return [first, run(name, folder)]


def _full_disk(name: str, base: Path) -> object:
    """No file may grow any more, whoever writes it; Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))

    folder = base / "full_disk"
    rows.strike(MIDDLE[name], full)
    try:
        first = run(name, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    return [first, run(name, folder, again=True)]


def _second_process(name: str, base: Path) -> object:
    """Somebody comes while the first is at work."""
    folder, seen = base / "second_process", []

    def come() -> None:
        files = {p: p.read_bytes() for p in _kept_files(folder)}
        seen.extend(run(name, folder, again=True))
        seen.append(all(p.read_bytes() == files[p] for p in files))

    rows.strike(MIDDLE[name], lambda: _in_a_thread(come))
    return [run(name, folder), seen]


def _kept_files(folder: Path) -> list[Path]:
    """Returns files that no writer may touch, while a checkpoint may be written."""
    # Unlike `Path.glob`, `os.walk` passes over folders that vanish meanwhile.
    paths = [Path(where) / n for where, _, names in os.walk(folder) for n in names]
    return [
        path
        for path in paths
        if path.suffix == ".jsonl"
        or path.name.startswith("events")
        or (path.parent == folder and path.suffix in (".json", ".yaml"))
    ]


def _in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def _cut_files(name: str, base: Path) -> dict[str, object]:
    """A run is interrupted; in copies of its folder files are cut in the middle."""
    stopped = base / "stopped"
    rows.strike(MIDDLE[name], lambda: signal.raise_signal(signal.SIGINT))
    run(name, stopped)
    found: dict[str, object] = {}
    newest = max(stopped.rglob("record.json"), key=lambda p: p.stat().st_mtime_ns)
    inside = newest.parents[1].relative_to(stopped)
    cuts = {
        "record": [inside / "meta" / "record.json"],
        "arrays": [inside / "state"],
        "logs": ["**/*.jsonl", "**/events*"],
        "config": ["config.yaml"],
        "others": ["meta.json", "overrides.txt", "**/results.json", "models/*"],
    }
    for kind, patterns in cuts.items():
        folder = base / f"cut_{kind}"
        shutil.copytree(stopped, folder)
        files = [p for pattern in patterns for p in folder.glob(str(pattern))]
        files = [p for f in files for p in ([f] if f.is_file() else f.rglob("*"))]
        for path in filter(Path.is_file, files):
            data = path.read_bytes()
            # Logs are cut in what was written after the checkpoint.
            tail = data[-40:-10] if kind == "logs" else b""
            path.write_bytes(data + tail if tail else data[: len(data) // 2])
        (folder / ".lock").write_text('{"pid": ')
        try:
            found[f"cut_{kind}"] = [run(name, folder, again=True)] if files else None
        except BaseException:
            found[f"cut_{kind}"] = traceback.format_exc()
    return found


if __name__ == "__main__":
    events, rows = Events(), Rows()
    program, place = sys.argv[1], Path(sys.argv[2])
    print(json.dumps(hurt(program, place)))
