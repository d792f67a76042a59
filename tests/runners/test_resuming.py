"""A run of a folder goes on with what it began with, or says what is new."""

import warnings

import pytest

from runners.config import ConfigError, load
from runners.session.resuming import plan_of_run, start
from runners.storage.checkpoints.files import CheckpointError
from runners.storage.run_dir import RunDir


def config(place, *words):
    return load(["ipd/ppo_v_tft", *words], options={"save_dir": str(place)})


@pytest.fixture
def begun(tmp_path):
    place = tmp_path / "run"
    RunDir.create(config(place, "agent1.learning_rate=0.5"), [])
    return place


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agent1.learning_rate=0.25"], "agent1.learning_rate is 0.25, was 0.5"),
        (["agent1.learning_rate=0.5", "seed=3"], "seed is 3, was 0"),
        (
            ["agent1.learning_rate=0.5", "num_inner_steps=7"],
            "env.num_inner_steps is 7, was",
        ),
        (["agent1.learning_rate=0.5", "agent2=AllC"], "agent2.name is 'AllC', was"),
    ],
)
def test_a_run_that_began_with_other_settings_does_not_go_on(begun, words, said):
    before = RunDir(begun).config.read_bytes()
    with pytest.raises(CheckpointError, match=f"belongs to another training: .*{said}"):
        start(config(begun, *words), resume=True, overwrite=False)
    assert RunDir(begun).config.read_bytes() == before


def test_a_run_goes_on_with_the_same_settings(begun):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = start(
            config(begun, "agent1.learning_rate=0.5"), resume=True, overwrite=False
        )
    assert run is not None
    assert run.path == begun


def test_the_place_of_a_run_is_no_new_setting(begun, monkeypatch):
    """A run that `exp_dir` placed goes on by `--save-dir` without a word of it."""
    run = RunDir(begun)
    run.write_config(load(["ipd/ppo_v_tft"], options={"exp_dir": "elsewhere"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert start(config(begun), resume=True, overwrite=False) is not None


def test_to_go_on_with_a_finished_run_is_no_mistake(begun, paxrun):
    RunDir(begun).finish("finished")
    words = ["rl", "ipd/ppo_v_tft", "agent1.learning_rate=0.5", "--resume"]
    result = paxrun(*words, "--save-dir", str(begun))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "has finished: nothing is left to do" in result.stderr
    before = RunDir(begun).config.read_bytes()
    longer = paxrun(*words, "total_timesteps=123000", "--save-dir", str(begun))
    assert longer.exit_code == 2
    assert "does not go on with total_timesteps is 123000, was" in longer.stderr
    assert RunDir(begun).config.read_bytes() == before


def test_a_finished_run_that_is_to_draw_is_told_how(begun):
    run = RunDir(begun)
    run.write_config(config(begun, "plot=false"))
    run.finish("finished")
    with pytest.raises(ConfigError, match=r"`paxrun plot .*` draws its pictures"):
        start(config(begun, "plot=true"), resume=True, overwrite=False)


def test_a_new_budget_is_said_and_kept(begun):
    longer = config(begun, "agent1.learning_rate=0.5", "total_timesteps=123000")
    with pytest.warns(UserWarning, match="goes on with total_timesteps is 123000, was"):
        start(longer, resume=True, overwrite=False)
    assert load(config_file=RunDir(begun).config).total_timesteps == 123_000


def test_a_config_that_was_cut_off_anywhere_is_refused(begun):
    """A file that ends between two lines says nothing of what it has lost."""
    whole = RunDir(begun).config.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) > 20
    cuts = [b"".join(lines[:n]) for n in range(len(lines))]
    for cut in [*cuts, whole[:-1], whole[: len(whole) // 2]]:
        RunDir(begun).config.write_bytes(cut)
        with pytest.raises(ConfigError, match=r"config\.yaml"):
            plan_of_run(begun)
    RunDir(begun).config.write_bytes(whole)
    plan, _ = plan_of_run(begun)
    assert plan.config.agents[0].options["learning_rate"] == 0.5
