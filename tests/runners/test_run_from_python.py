"""`runners.run`: an experiment from Python, as the command line runs it."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import paxenv_agents
import runners
from paxenv_agents.weights import WeightsError, save_agent
from runners.session.loop import Observer

TINY = {"num_envs": 8, "num_inner_steps": 10, "num_seeds": 2}


class Told(Observer):
    def __init__(self):
        self.notices = []

    def on_notice(self, text):
        self.notices.append(text)


def test_it_ends_with_the_numbers_of_the_command_line(trained, tmp_path):
    told = Told()
    outcome = runners.run(
        *("ipd/nl_v_tft", "total_timesteps=333"),
        **TINY,
        run_dir=tmp_path / "run",
        observer=told,
        plot=False,
    )
    known = json.loads((trained.path / "artifacts/results.json").read_text())
    name = "episode/reward_per_step/player_1"
    wanted = known["metrics"][f"eval/sampled/{name}"]
    assert outcome.measured[name].mean == pytest.approx(wanted["mean"], abs=1e-6)
    assert outcome.run_dir.path == tmp_path / "run"
    assert outcome.run_dir.read_meta()["status"] == "finished"
    assert "the run has 5 iterations, 400 steps" in told.notices[0]


def test_a_saved_agent_is_loaded_by_its_run_alone(trained):
    agent, state = paxenv_agents.load_agent(trained.path)
    params = jax.tree.leaves(paxenv_agents.weights.load_params(
        trained.path / "models/player1", agent
    ))  # fmt: skip
    assert agent.observation_space.shape == (5,)
    for own, saved in zip(jax.tree.leaves(state.params), params, strict=True):
        np.testing.assert_array_equal(own, saved)
    record = json.loads((trained.path / "models/player1.json").read_text())
    assert record["meta"]["options"]["num_inner_steps"] == 10
    assert record["meta"]["player"] == 0


def test_weights_that_name_no_game_ask_for_one(tmp_path):
    import paxenv

    env, _ = paxenv.make("IPD", num_inner_steps=3)
    agent = paxenv_agents.make_agent("Naive", env, tabular=True)
    state = agent.init_state(jax.random.key(0))
    path = save_agent(tmp_path / "mine", agent, state.params)
    with pytest.raises(WeightsError, match=r"call load_agent\(path, env\)"):
        paxenv_agents.load_agent(path)
    again, _ = paxenv_agents.load_agent(path, env)
    assert again == agent


def test_without_a_folder_the_run_is_kept_as_that_of_the_command_line(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    made = []

    def fake(plan, make_run_dir, observer):
        made.append(make_run_dir())
        return dataclasses.replace(_NOTHING, plan=plan), made[0]

    monkeypatch.setattr("runners.launch.run_plan", fake)
    outcome = runners.run(env="IPD", agent1="AllC", agent2={"name": "AllD"}, eval=True)
    (run,) = runners.find_runs("exp")
    assert run.path == made[0].path
    assert run.path.parent.name == "AllC_v_AllD"
    assert outcome.plan.names == ("AllC", "AllD")
    assert run.read_meta()["argv"][0] == "run"


def test_a_mistake_is_an_error_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(runners.ConfigError, match="num_envz"):
        runners.run("ipd/ppo", num_envz=3)
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_one_word():
    assert runners.load_config("ipd/ppo") == runners.load_config(["ipd/ppo"])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: runners.run(["ipd/ppo"]), r"words must be a text, got \['ipd/ppo'\]"),
        (lambda: runners.run(3), "words must be a text, got 3"),
        (lambda: runners.run(config_file=3), "config_file must be .* path, got 3"),
        (lambda: runners.load_config(options={3: 1}), "options must be a text, got 3"),
        (
            lambda: runners.ExperimentConfig(env="IPD"),
            r"env must be of the class EnvConfig, got 'IPD': write EnvConfig\('IPD'\)",
        ),
        (
            lambda: runners.ExperimentConfig(agents=("PPO",)),
            r"agents\[0\] must be .* write AgentConfig\('PPO'\)",
        ),
        (lambda: runners.ExperimentConfig(agents="PPO"), "agents must be a tuple"),
        (lambda: runners.ExperimentConfig(wandb=None), "wandb must be .* WandbConfig"),
        (lambda: runners.ExperimentConfig(bands=3), "bands must be a mapping, got 3"),
        (lambda: runners.AgentConfig(3), "name of an agent must be a text, got 3"),
        (lambda: runners.AgentConfig("PPO", ("a",)), "players of an agent must be"),
        (lambda: runners.EnvConfig(3), "env.id must be a text, got 3"),
        (lambda: runners.prepare("ipd/ppo"), "config must be an ExperimentConfig"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@dataclasses.dataclass(frozen=True)
class _Nothing:
    plan: object = None


_NOTHING = _Nothing()
