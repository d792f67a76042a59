"""Places of a run: checks that it can write there, and locks.

The lock of a folder is the file `.lock` in it. The kernel holds it (`flock`), so it
ends with its process, even a killed one. If the file system has no such locks, the
content of the file decides, which names the holder and a sign of life that the holder
renews.
"""

import contextlib
import datetime
import errno
import importlib
import json
import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from paxenv.paths import local_path
from runners.config import ConfigError, ExperimentConfig

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK = ".lock"
#: Seconds between two signs of life of a lock.
BEAT = 10.0
#: Seconds without a sign of life after which a holder that cannot be checked is dead.
DEAD_AFTER = 60.0
#: Bytes that are written to check for free space.
PROBE = 4096
_HELD_ELSEWHERE = (errno.EACCES, errno.EAGAIN)
#: Open lock files of this process, which a forked child must not keep alive.
_open_files: set[int] = set()


class UnwritableError(ConfigError, OSError):
    """A place where a run cannot write."""


class VanishedError(OSError):
    """A file or folder that disappeared while a run was writing to it."""


class InUseError(ConfigError):
    """A folder to which another run is writing."""


def not_empty(name: str, folder: str | os.PathLike[str]) -> None:
    """Raises ValueError for an empty text, such as that of a variable that is not set.

    It would stand for the working folder, whose files must not be overwritten.
    """
    if folder == "":
        raise ValueError(f'{name} is empty: name a folder; the working folder is "."')


def check_writable(
    folder: str | os.PathLike[str],
    what: str = "folder",
    *,
    for_checkpoints: bool = False,
) -> None:
    """Raises if files cannot be made in a folder; leaves no file behind.

    Args:
        folder: The folder; it and folders above it may be missing.
        what: The purpose of the folder, in the message.
        for_checkpoints: Whether checkpoints go there, whose writer needs paths that are
            valid text.

    Raises:
        UnwritableError: If it is not a folder, is read-only, or the disk is full.
    """
    not_empty(f"the {what}", folder)
    path = local_path(folder).absolute()
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        if for_checkpoints:
            raise UnwritableError(
                f"cannot save checkpoints in the {what} {path}: its name is not "
                "text in UTF-8; name another one"
            ) from None
    there = next(p for p in (path, *path.parents) if os.path.lexists(p))
    try:
        with tempfile.TemporaryDirectory(dir=there, prefix=".paxenv-") as place:
            (Path(place) / "probe").write_bytes(bytes(PROBE))
    except OSError as error:
        raise _unwritable(path, what, error) from error


@contextlib.contextmanager
def locked(*folders: str | os.PathLike[str] | None) -> Iterator[None]:
    """Holds the locks of some folders, which are made if they are missing.

    In a run on several hosts only the first process holds the locks.

    Args:
        folders: The folders; None is skipped.

    Raises:
        InUseError: If another run holds a lock, in another process or in this one;
            nothing has been changed then.
        UnwritableError: If a folder cannot be written to.
    """
    import jax  # Listing runs does not need it.

    with contextlib.ExitStack() as stack:
        if jax.process_index() == 0:
            named = [
                local_path(folder).resolve() for folder in folders if folder is not None
            ]
            for folder in dict.fromkeys(named):
                stack.enter_context(_Lock(folder))
        yield


def is_locked(folder: str | os.PathLike[str]) -> bool:
    """Returns whether a run may be writing to a folder; changes nothing there.

    A run on another machine counts until `DEAD_AFTER` seconds after its last sign of
    life.
    """
    path = local_path(folder) / LOCK
    holder = _read(path)
    try:
        return bool(holder) and _may_live(holder, path, dead_here=False)
    except OSError:  # Only a file made in the folder shows its file system's clock.
        return True


class _Lock:
    """The lock of one folder, a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / LOCK
        self._id = secrets.token_hex(8)
        self._me = {**_process(os.getpid()), "since": _now(), "id": self._id}
        self._file: int | None = None
        self._ended = threading.Event()

    def __enter__(self) -> "_Lock":
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            while not self._taken():
                pass
        except InUseError:
            raise
        except OSError as error:
            raise _unwritable(self._folder, "folder", error) from error
        threading.Thread(target=self._live, daemon=True, name="paxenv-lock").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with contextlib.suppress(OSError):
            if self._file is not None and self._is_mine():
                os.ftruncate(self._file, 0)  # Marks a file that cannot be deleted.
                self._path.unlink()
        self._close()

    def _taken(self) -> bool:
        """Whether this process holds the lock now; if not, try again."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        self._file = file
        _open_files.add(file)
        holder = _read(self._path)
        by_kernel = _flock(file)
        if by_kernel is False or (
            holder and _may_live(holder, self._path, dead_here=by_kernel is True)
        ):
            self._close()
            raise InUseError(_in_use(self._folder, holder))
        if not _is_file(self._path, file):
            # Its holder has just released the lock and deleted the file.
            self._close()
            return False
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(self._me).encode(), 0)
        if by_kernel is None:
            # Another process that saw the same dead holder would have written by now.
            self._ended.wait(0.05)
            if not self._is_mine():
                self._close()
                return False
        return True

    def _is_mine(self) -> bool:
        return _read(self._path).get("id") == self._id

    def _close(self) -> None:
        file, self._file = self._file, None
        if file in _open_files:
            _open_files.discard(file)
            os.close(file)

    def _live(self) -> None:
        """Renews the sign of life until the lock is released."""
        while not self._ended.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(self._path)


def _flock(file: int) -> bool | None:
    """Returns whether the kernel granted the lock; None: it has no locks here."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _HELD_ELSEWHERE else None
    return True


def _may_live(holder: Mapping[str, Any], path: Path, *, dead_here: bool) -> bool:
    """Whether the process that a lock names may still be writing.

    Args:
        holder: The content of the lock.
        path: The lock.
        dead_here: Whether the kernel says that no process of this machine holds it.
    """
    mine = _process(os.getpid())
    if holder.get("machine") == mine["machine"]:
        if dead_here:
            return False
        now = _process(int(holder["pid"]))
        if now["started"] is not None or mine["started"] is not None:
            return now["started"] == holder["started"]
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".paxenv-") as here:
        # The clock of the file system, which may be another machine's, is compared.
        age = os.fstat(here.fileno()).st_mtime - path.stat().st_mtime
    return age < DEAD_AFTER


def _process(pid: int) -> dict[str, Any]:
    """Returns the identity of a process, unique even if its number is used again."""
    machine = [socket.gethostname()]
    started = None
    with contextlib.suppress(OSError, IndexError):  # Only Linux has these files.
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        machine += [boot.strip(), os.readlink("/proc/self/ns/pid")]
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name of the process, in brackets, may hold spaces and brackets.
        started = stat.rpartition(")")[2].split()[19]
    return {"pid": pid, "machine": machine, "started": started}


def _read(path: Path) -> dict[str, Any]:
    """Returns the content of a lock, `{}` if no holder has written it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    known = (
        isinstance(data, dict) and {"pid", "machine", "started", "id"} <= data.keys()
    )
    return data if known else {}


def _is_file(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _in_use(folder: Path, holder: Mapping[str, Any]) -> str:
    """Returns the message about the holder of a lock, with a remedy."""
    if not holder:
        return f"{folder} is in use: another process is writing to it"
    host = holder["machine"][0]
    where = "" if host == socket.gethostname() else f" on {host}"
    who = f"process {holder['pid']}{where}"
    if holder["pid"] == os.getpid() and not where:
        who = f"this very process ({os.getpid()})"
    text = (
        f"{folder} is in use: {who} has been writing to it since "
        f"{holder['since']}; wait until it ends, or stop it"
    )
    if where:
        text += (
            f". If it is dead, its lock ends {DEAD_AFTER:.0f} seconds after its last "
            f"sign of life; or delete {folder / LOCK}"
        )
    return text


def _unwritable(path: Path, what: str, error: OSError) -> UnwritableError:
    return UnwritableError(
        f"cannot write to the {what} {path}: {error.strerror or error}; name another "
        "one, or repair its permissions or its disk"
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _forget_in_child() -> None:
    """Closes a forked child's copies, which would keep the lock of a killed holder."""
    for file in _open_files:
        with contextlib.suppress(OSError):
            os.close(file)
    _open_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def check_ready(config: ExperimentConfig, folder: Path | None = None) -> None:
    """Raises if a run could not be written, logged or drawn; compiles nothing.

    Args:
        config: The config of the run.
        folder: The run directory; None: the one that the config asks for.

    Raises:
        UnwritableError: If the directory cannot be written to.
        ConfigError: If a package that the config needs is missing.
    """
    if folder is None and config.save_dir is not None:
        folder = local_path(config.save_dir)
    check_writable(
        folder or local_path(config.exp_dir) / config.name,
        "run directory",
        for_checkpoints=config.kind.trains,
    )
    if config.wandb.log or any(agent.run_path for agent in config.agents):
        import_wandb()
    if config.tensorboard:
        _import("tensorboardX", "pip install tensorboardX", "set tensorboard=false")
    if config.plot:
        _import("matplotlib", "pip install matplotlib", "set plot=false")


def import_wandb() -> ModuleType:
    """Returns the package Weights & Biases.

    Raises:
        ConfigError: If it is not installed.
    """
    return _import(
        *("wandb", "pip install 'paxenv[wandb]'", "leave out wandb.log and --run-path")
    )


def _import(name: str, install: str, instead: str) -> ModuleType:
    try:
        package = importlib.import_module(name)
    except ImportError:
        package = None
    # A folder of that name, such as the service's own `wandb/`, can be imported too.
    if package is None or (
        getattr(package, "__file__", None) is None and hasattr(package, "__path__")
    ):
        raise ConfigError(f"{name} is not installed: run `{install}`, or {instead}")
    return package
