"""What would end a run late is found before anything is compiled."""

import sys

import pytest
from run_fakes import fake_run

import paxenv
from paxenv_agents.learners.dqn import DQNConfig
from paxenv_agents.learners.ppo import PPOConfig
from paxenv_agents.learners.sac import SACConfig
from runners import OnPolicyRunner, RunnerConfig, train_dqn, train_ppo, train_sac
from runners.config import load
from runners.session.resuming import opened
from runners.storage.places import InUseError, UnwritableError, locked

COMMANDS = {
    "rl": ("rl", "ipd/nl_v_tft"),
    "evo": ("evo", "ipd/gs_v_tabular"),
    "sarl": ("sarl", "--env", "CartPole"),
    "online": ("online", "--env", "CartPole"),
    "es": ("es", "sarl/cartpole_es"),
    "eval": ("eval", "--agent1", "Grim", "--agent2", "AllC"),
}
TRAIN = {
    "train_ppo": (train_ppo, "CartPole", {"ppo_config": PPOConfig(n_steps=8)}),
    "train_dqn": (train_dqn, "CartPole", {"dqn_config": DQNConfig()}),
    "train_sac": (train_sac, "Pendulum", {"sac_config": SACConfig()}),
}


@pytest.fixture
def nothing_compiles(monkeypatch):
    """Fails where a program is made."""

    def program(*_, **__):
        pytest.fail("something is compiled")

    for place in (
        *("runners.launch.program_of", "runners.launch.make_runner"),
        *(
            "runners.views.trainer.Trainer._program",
            "runners.views.on_policy.runner.make_program",
        ),
    ):
        monkeypatch.setattr(place, program)


@pytest.fixture
def file(tmp_path):
    """A file, below which no folder can be."""
    path = tmp_path / "file"
    path.touch()
    return path


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize("option", ["--exp-dir", "--save-dir"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_at_once_that_it_cannot_write(paxrun, file, command, option):
    result = paxrun(*COMMANDS[command], option, str(file / "exp"))
    assert result.exit_code == 2
    assert f"cannot write to the run directory {file / 'exp'}" in result.stderr


def test_a_dry_run_says_that_the_run_could_not_write(paxrun, file):
    result = paxrun("rl", "ipd/nl_v_tft", "--exp-dir", str(file), "--dry-run")
    assert result.exit_code == 2
    assert "cannot write to the run directory" in result.stderr


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize("place", ["checkpoint_dir", "run_dir"])
@pytest.mark.parametrize("function", TRAIN)
def test_a_training_function_says_at_once_that_it_cannot_write(file, function, place):
    train, game, configs = TRAIN[function]
    config = RunnerConfig(
        **{"checkpoint_dir": str(file / "c")} if place == "checkpoint_dir" else {}
    )
    run_dir = file / "r" if place == "run_dir" else None
    with pytest.raises(UnwritableError, match="cannot write to the folder"):
        train(*paxenv.make(game), **configs, runner_config=config, run_dir=run_dir)


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize("place", ["log_dir", "save_dir"])
def test_a_runner_says_at_once_that_it_cannot_write(file, place):
    with pytest.raises(UnwritableError, match="cannot write to the folder"):
        OnPolicyRunner("CartPole", **{place: file / "logs"})


# Packages.


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize(
    ("package", "word", "cure"),
    [
        ("wandb", "wandb.log=true", "pip install 'paxenv[wandb]'"),
        ("tensorboardX", "tensorboard=true", "set tensorboard=false"),
        ("matplotlib", "plot=true", "set plot=false"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_missing_package_is_found_before_the_run(
    paxrun, monkeypatch, tmp_path, package, word, cure, dry
):
    monkeypatch.setitem(sys.modules, package, None)
    result = paxrun("rl", "ipd/nl_v_tft", word, "--exp-dir", str(tmp_path), *dry)
    assert result.exit_code == 2
    assert f"{package} is not installed" in result.stderr
    assert cure in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_called_wandb_is_not_the_package(paxrun, monkeypatch, tmp_path):
    """The service makes one where it logs, and Python imports any folder."""
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "wandb").mkdir()
    result = paxrun("rl", "ipd/nl_v_tft", "wandb.log=true", "--dry-run")
    assert "wandb is not installed" in result.stderr


# One writer.


@pytest.fixture
def alive(tmp_path):
    """A run that somebody is writing to."""
    run = fake_run(tmp_path, f"save_dir={tmp_path / 'run'}", status=None)
    before = run.metrics.read_bytes()
    with locked(run.path):
        yield run
    assert run.metrics.read_bytes() == before
    assert run.read_meta()["status"] == "running"


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize("how", ["resume", "--resume"])
def test_a_run_that_is_alive_is_not_joined(paxrun, alive, how):
    path = str(alive.path)
    again = ("rl", "ipd/ppo_v_tft", "--save-dir", path, "--resume")
    result = paxrun(*(("resume", path) if how == "resume" else again))
    assert result.exit_code == 2
    assert f"{path} is in use: this very process" in result.stderr


def test_a_run_that_is_alive_is_not_overwritten(alive):
    config = load(["ipd/ppo_v_tft"], options={"save_dir": str(alive.path)})
    with pytest.raises(InUseError, match="is in use"):
        opened(config, [], overwrite=True)


def test_a_second_training_in_the_same_folders_is_refused(tmp_path):
    config = RunnerConfig(checkpoint_dir=str(tmp_path), total_timesteps=8)
    game = paxenv.make("CartPole")
    with locked(tmp_path), pytest.raises(InUseError, match="is in use"):
        train_ppo(*game, ppo_config=PPOConfig(n_steps=8), runner_config=config)


def test_a_second_runner_in_the_same_folders_is_refused(tmp_path):
    runner = OnPolicyRunner("CartPole", log_dir=tmp_path, cfg=PPOConfig(n_steps=8))
    with locked(tmp_path):
        with pytest.raises(InUseError, match="is in use"):
            runner.learn(num_iterations=1)
        with pytest.raises(InUseError, match="is in use"):
            runner.load_checkpoint()
    assert list(tmp_path.iterdir()) == []
