"""A platform that is not there is named, with what to do."""

import os
import subprocess
import sys

#: A platform that no machine of these tests has.
MISSING = "rocm"


def answer(code):
    """Returns what code prints where JAX is to start on a device that is missing."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JAX_PLATFORMS": MISSING},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CALLS = (
    "paxenv.make('IPD')",
    "runners.get_num_devices()",
    "runners.make_mesh(1)",
    "runners.OnPolicyRunner('CartPole-v1')",
)


def test_python_code_is_told_the_variable_and_the_cure():
    lines = answer(
        "import paxenv, runners\n"
        f"for call in {CALLS}:\n"
        "    try:\n"
        "        eval(call)\n"
        "    except paxenv.platforms.PlatformError as error:\n"
        "        print(error)\n"
    ).splitlines()
    assert len(lines) == len(CALLS)
    for line in lines:
        assert line.startswith(f"JAX cannot start with JAX_PLATFORMS={MISSING!r}: ")
        assert "set JAX_PLATFORMS=cpu" in line


COMMANDS = (
    *("rl total_timesteps=10", "rl --dry-run", "evo", "sarl", "es", "online"),
    *("devices", "eval --agent1 Grim", "play IPD", "describe IPD"),
)


def test_commands_that_start_jax_exit_with_2_and_name_the_variable():
    """Others, such as lists of agents and strategies, need no device."""
    lines = answer(
        "from click.testing import CliRunner\n"
        "from runners.cli import cli\n"
        f"for line in {(*COMMANDS, 'list agents', 'list es')}:\n"
        "    result = CliRunner().invoke(cli, line.split(), prog_name='paxrun')\n"
        "    named = 'JAX cannot start with JAX_PLATFORMS=' in result.output\n"
        "    print(result.exit_code, named, 'Traceback' in result.output)\n"
    ).splitlines()
    assert lines == ["2 True False"] * len(COMMANDS) + ["0 False False"] * 2
