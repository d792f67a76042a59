"""Every example runs, at small sizes, and prints a result that a person can read."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
# What each example prints last, at small sizes.
LAST_LINE = {
    "custom_runner.py": "     3 ",
    "functional_api.py": "DQN: ",
    "gymnasium_env.py": "Acting at random in 4 coin games:",
    "outer_loop.py": "ESRunner: learning_rate ",
    "on_policy_runner.py": "20 greedy episodes: mean",
    "pax_readme.py": "A fresh PPO agent in 2 games:",
    "pettingzoo_env.py": "player_1:",
    "sac_pendulum.py": "SAC on Pendulum: mean return -",
    "sb3_ppo.py": "after 512 steps: return",
    "sb3_shaper.py": "after 1024 steps: ",
}
NEEDS_SB3 = {"sb3_ppo.py", "sb3_shaper.py"}


def run(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--quick"])
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    return capsys.readouterr().out.rstrip("\n").splitlines()


def test_every_example_is_in_the_table():
    assert {path.name for path in FOLDER.glob("*.py")} == set(LAST_LINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(LAST_LINE) - NEEDS_SB3))
def test_example_ends_in_a_printed_result(name, monkeypatch, capsys):
    assert run(name, monkeypatch, capsys)[-1].startswith(LAST_LINE[name])


@pytest.mark.sb3
@pytest.mark.parametrize("name", sorted(NEEDS_SB3))
def test_example_of_the_extra_ends_in_a_printed_result(name, monkeypatch, capsys):
    assert run(name, monkeypatch, capsys)[-1].startswith(LAST_LINE[name])


@pytest.mark.parametrize("name", sorted(LAST_LINE))
def test_example_says_how_to_run_it(name):
    assert f"python examples/{name}" in ast.get_docstring(
        ast.parse((FOLDER / name).read_text())
    )
