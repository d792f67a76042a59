"""The last lines of a report: what was played, where it lies, what to do next."""

import dataclasses
import json

import numpy as np
import pytest
from rich.console import Console
from run_fakes import fake_run

from runners.config import load
from runners.engine.statistics import estimates
from runners.planning.plan import prepare
from runners.report.closing import CACHE, closing_lines, print_end, search_results
from runners.report.table import captions
from runners.search.best import BestMember
from runners.session.outcome import Outcome

REWARD = "episode/reward_per_step/player_1"
RETURN = "episode/return/player_1"


def outcome_of(*words, rewards=(-1.0,), **fields):
    known = {
        "evaluation": estimates({REWARD: np.array(rewards)}),
        "num_iterations": 1,
        "seconds": 2.0,
        "compile_seconds": 8.0,
        "interrupted": False,
        **fields,
    }
    plan = prepare(load(["ipd/ppo_v_tft", *words]))
    return Outcome(plan=plan, **known)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CACHE, str(tmp_path))
    return tmp_path


def test_the_block_is_short_and_each_path_is_typed_as_one_types_it(here):
    run = fake_run(here / "exp")
    (run.artifacts / "curve.png").touch()
    outcome = outcome_of("num_envs=2", "num_inner_steps=5", "num_seeds=1")
    name = f"exp/ipd/ppo_v_tft/{run.path.name}"
    assert closing_lines(outcome, run) == [
        "played:  10 steps in 2.0 s, 5 a second, after 8.0 s of compilation",
        f"saved:   {name}, with results.json and 1 picture in artifacts",
        "compare: paxrun plot exp/ipd/ppo_v_tft",
        f"next:    paxrun eval --run-dir {name}",
    ]


def test_a_path_outside_of_the_working_folder_is_whole(here, tmp_path_factory):
    run = fake_run(tmp_path_factory.mktemp("else where"))
    (saved,) = [line for line in closing_lines(outcome_of(), run) if "saved" in line]
    assert f"'{run.path}'" in saved  # in quotes: it has a space


def test_an_interrupted_run_is_resumed_and_an_evaluation_listed(here):
    run = fake_run(here / "exp")
    stopped = closing_lines(outcome_of(interrupted=True), run)
    assert stopped[-1] == f"next:    paxrun resume {run.path.relative_to(here)}"
    evaluated = closing_lines(outcome_of("runner=eval"), run)
    assert evaluated[-1] == "compare: paxrun runs ls --exp-dir exp/ipd/ppo_v_tft"


def test_who_waited_for_the_compiler_is_told_how_to_keep_its_work(here, monkeypatch):
    run = fake_run(here / "exp")
    assert CACHE not in closing_lines(outcome_of(), run)[0]
    monkeypatch.delenv(CACHE)
    assert f"with {CACHE}=DIR the next run finds" in closing_lines(outcome_of(), run)[0]
    quick = outcome_of(compile_seconds=1.0)
    assert CACHE not in closing_lines(quick, run)[0]


def test_steps_that_early_ends_left_out_are_not_said_to_be_played(here):
    length = estimates({"episode/length": np.array([3.0])})
    words = ("num_envs=2", "num_inner_steps=5", "num_seeds=1")
    outcome = outcome_of(*words, evaluation=length)
    said = closing_lines(outcome, fake_run(here / "exp"))[0]
    assert said.startswith("played:  10 steps at most in 2.0 s")


def test_one_game_of_one_step_is_singular():
    words = ("runner=eval", "num_envs=1", "num_inner_steps=1")
    assert captions(outcome_of(*words))[0].startswith("1 game of 1 step without")


def evolved(mean, member):
    """An evolution of two seeds whose mean and best member got these rewards."""
    best = BestMember(
        slot=0,
        player=1,
        params={},
        metrics=estimates({REWARD: np.array(member)}),
        fitness=(0.0, 0.0),
        generation=(1, 2),
    )
    outcome = outcome_of(rewards=mean, best_members=(best,), best_score=-120.0)
    config = dataclasses.replace(outcome.plan.config, num_seeds=2)
    return dataclasses.replace(
        outcome, plan=dataclasses.replace(outcome.plan, config=config)
    )


def evaluation_rows(*pairs):
    """Rows of two equal seeds: (steps, reward per step); the return is 150 times it."""
    return [
        {
            "seed": seed,
            "env_steps": steps,
            f"eval/sampled/{RETURN}": 150 * reward,
            f"eval/sampled/{REWARD}": reward,
        }
        for steps, reward in pairs
        for seed in range(2)
    ]


def test_all_that_a_search_found_is_reward_per_step_and_one_is_recommended(here):
    run = fake_run(here / "exp")
    rows = evaluation_rows((10, -0.9), (20, -0.8), (30, -1.0))
    found = search_results(evolved((-1.0, -1.0), (-0.5, -1.1)), run, rows)
    assert [(f.reward.mean, f.weights, f.recommended) for f in found] == [
        (-1.0, "models/player1.msgpack", False),
        (-0.8, "models/best_player1.msgpack", True),
        (pytest.approx(-0.8), "checkpoints/best", False),
    ]


@pytest.mark.parametrize("member", [(-1.0, -1.0), (np.nan, np.nan)])
def test_the_mean_is_recommended_unless_the_member_is_better(here, member):
    found = search_results(evolved((-1.0, -1.0), member), fake_run(here / "exp"), [])
    assert [f.recommended for f in found] == [True, False]


def test_the_report_names_the_weights_and_the_command_that_plays_them(here):
    run = fake_run(here / "exp")
    run.eval_metrics.write_text(
        "".join(json.dumps(r) + "\n" for r in evaluation_rows((10, -0.9), (20, -1.0)))
    )
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        print_end(evolved((-1.0, -1.0), (-0.5, -0.5)), run, console)
    text = capture.get()
    name = run.path.relative_to(here)
    assert "use:     models/best_player1.msgpack for player 1, the best member" in text
    assert (
        f"next:    paxrun eval --run-dir {name} --model-path "
        f"{name}/models/best_player1.msgpack --player 1\n"
    ) in text
    assert "-0.900 ± 0.000" in text


def test_results_name_what_is_recommended():
    recommended = evolved((-1.0, -1.0), (-0.5, -0.5)).as_dict()["recommended"]
    assert recommended == {"player_1": "best member"}
