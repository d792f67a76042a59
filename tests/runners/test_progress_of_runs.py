"""Who shows the line of progress, where and when: written at every change of it."""

import io
import re
import sys

import pytest
from on_policy_fakes import SMALL, Parts
from outer_fakes import climber

import runners
from paxenv_agents.learners.ppo import PPOConfig
from runners import OnlineRunner, OnPolicyRunner, OuterConfig, RunnerConfig
from runners.session import progress
from runners.session.progress import Line

TINY = ("num_envs=2", "num_inner_steps=3", "num_seeds=1", "plot=false")


@pytest.fixture(autouse=True)
def written_at_every_change(monkeypatch):
    """A line that is shown is written whenever it changes, and at no other time."""
    monkeypatch.setattr(progress, "PIPE_INTERVAL", 0.0)
    monkeypatch.setattr(Line, "_watch", lambda line: None)
    shown, enter = [], Line.__enter__

    def entered(line):
        shown.append(line)
        return enter(line)

    monkeypatch.setattr(Line, "__enter__", entered)

    def writing(change):
        def changed(line, *arguments, **options):
            change(line, *arguments, **options)
            if line in shown:
                line.refresh()

        return changed

    monkeypatch.setattr(Line, "doing", writing(Line.doing))
    monkeypatch.setattr(Line, "advance", writing(Line.advance))


def told(stream, title):
    """Returns what a line said, without the times."""
    lines = [x for x in re.split(r"[\r\n]", stream) if x.startswith(f"{title}: ")]
    bare = [re.sub(r", (about )?(\d+ min )?\d+ s( left)?", "", x) for x in lines]
    return [x.removeprefix(f"{title}: ").rstrip() for x in bare]


def test_an_evaluation_says_in_a_pipe_what_it_does(paxrun, tmp_path):
    """What a command writes is no terminal here, as it is none in a pipe."""
    result = paxrun(
        *("eval", "--agent1", "AllC", "--agent2", "AllD", *TINY),
        *("--save-dir", str(tmp_path / "run")),
    )
    assert result.exit_code == 0, result.stderr
    assert told(result.stderr, "IPD: AllC v AllD") == [
        "compiling evaluation",
        "running evaluation",
    ]


def test_a_training_says_in_a_pipe_what_it_does(paxrun, tmp_path):
    """The last evaluation, whose program is compiled late, has a word of its own."""
    result = paxrun(
        *("rl", "--agent1", "Tabular", "--agent2", "AllD", *TINY),
        *("agent1.num_minibatches=1", "--total-timesteps", "6"),
        *("--save-dir", str(tmp_path / "run")),
    )
    assert result.exit_code == 0, result.stderr
    reward = re.search("reward per step .*", result.stderr)
    assert reward is not None
    assert told(result.stderr, "IPD: Tabular v AllD") == [
        "compiling training",
        "running training",
        f"100% (1 of 1), finishing, {reward[0]}",
        f"100% (1 of 1), evaluating, {reward[0]}",
    ]


def test_an_outer_loop_says_in_a_pipe_how_far_it_is(paxrun, tmp_path):
    result = paxrun(
        *("online", "--env", "IPD", "--agent2", "TitForTat", *TINY),
        *("agent1.tabular=true", "agent1.n_steps=4", "agent1.num_minibatches=1"),
        *("eval_episodes=2", "total_timesteps=16", "--save-dir", str(tmp_path / "run")),
    )
    assert result.exit_code == 0, result.stderr
    said = told(result.stderr, "IPD: PPO v TitForTat")
    assert said[0] == "compiling training"
    assert [x.partition(",")[0] for x in said[1:3]] == ["50% (1 of 2)", "100% (2 of 2)"]


def by_train_ppo(asked):
    ppo = PPOConfig(**SMALL)
    runners.train_ppo(
        *(Parts(num_inner_steps=5), None),
        ppo_config=ppo,
        runner_config=RunnerConfig(
            total_timesteps=12, num_envs=2, plot=False, progress=asked
        ),
    )


def by_on_policy_runner(asked):
    game = Parts(num_inner_steps=5)
    runner = OnPolicyRunner(game, cfg=SMALL, num_envs=2, progress=asked)
    runner.learn(num_iterations=2)


def by_outer_runner(asked):
    agent, env, params = climber()
    config = OuterConfig(num_envs=2, num_steps=16, eval_episodes=1)
    OnlineRunner(agent, env, params, config, progress=asked).run()


@pytest.mark.parametrize(
    ("train", "title"),
    [
        (by_train_ppo, "PPO in Parts"),
        (by_on_policy_runner, "PPO in Parts"),
        (by_outer_runner, "Climber in Pays"),
    ],
)
@pytest.mark.parametrize("asked", [True, False])
def test_training_is_shown_on_a_terminal_to_who_does_not_refuse(
    train, title, asked, monkeypatch
):
    """Two iterations; a stream that says that it is one is a terminal."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    train(asked)
    said = told(terminal.getvalue(), title)
    assert said[:1] == ["compiling training"][:asked]
    assert said[-1:] == ["100% (2 of 2), finishing"][:asked]
