"""One tiny training run that many tests look at."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runners.cli import cli

TINY = ("num_envs=8", "num_inner_steps=10", "num_seeds=2")


@dataclasses.dataclass(frozen=True)
class Finished:
    """A run of the command line: what it printed, and where."""

    code: int
    stdout: str
    stderr: str
    path: Path


def separate_streams() -> CliRunner:
    """Returns a runner that keeps the two streams apart, with click 8.1 too."""
    try:
        return CliRunner(mix_stderr=False)  # pyright: ignore[reportCallIssue]
    except TypeError:
        return CliRunner()


@pytest.fixture(scope="session")
def paxrun():
    """Runs the command line in this process and returns click's result."""

    def run(*args: str, **options: Any):
        result = separate_streams().invoke(
            cli, list(args), prog_name="paxrun", **options
        )
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture(scope="session")
def paxrun_apart():
    """Runs the command line in a process of its own and returns what it printed.

    There it may divide the CPU.
    """

    def run(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "runners", *args],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def trained(paxrun, tmp_path_factory) -> Finished:
    """Five iterations of the naive learner against TitForTat, two seeds, 8 games."""
    exp_dir = tmp_path_factory.mktemp("exp")
    result = paxrun(
        *("rl", "ipd/nl_v_tft", *TINY),
        *("--total-timesteps", "333", "--exp-dir", str(exp_dir)),
    )
    (path,) = (exp_dir / "ipd" / "nl_v_tft").iterdir()
    return Finished(result.exit_code, result.stdout, result.stderr, path)
