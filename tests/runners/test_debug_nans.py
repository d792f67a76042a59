"""JAX's flag that stops at NaN stops at nothing of ours that is only missing."""

import jax
import pytest
from click.testing import CliRunner

from runners.cli import cli

SMALL = ("--num-seeds", "1", "num_envs=4", "plot=false")
TABULAR = "agent1={name: Tabular, num_minibatches: 2}"
STREAM = ("num_inner_steps=200", "total_timesteps=512", "agent1.n_steps=64")
TRIALS = ("num_inner_steps=8", "total_timesteps=64")
COMMANDS = {
    "eval": ("eval", "--agent1", "Grim", "--agent2", "AllC", "num_inner_steps=8"),
    "rl": ("rl", TABULAR, "agent2=TitForTat", *TRIALS),
    "sarl": ("sarl", TABULAR, "agent2=TitForTat", *STREAM),
}


@pytest.mark.parametrize(
    "name",
    ["eval", *(pytest.param(n, marks=pytest.mark.slow) for n in ("rl", "sarl"))],
)
def test_a_command_runs_under_the_flag_that_stops_at_nan(name, tmp_path):
    """Grim alone against AllC never sees CD: its rate there is missing, not wrong."""
    words = [*COMMANDS[name], *SMALL, "--save-dir", str(tmp_path / "run")]
    with jax.debug_nans(True):
        result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
