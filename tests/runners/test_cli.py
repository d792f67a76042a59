"""The command line: what it takes, and what it says to a mistake."""

import json
import re
import shutil
import signal

import pytest
import yaml

from runners.cli import COMMANDS
from runners.config import experiment_names
from runners.storage.run_dir import RunDir

USAGE = 2


def test_help_and_version_start_no_jax(run_python):
    code = """
import sys
from click.testing import CliRunner
from runners.cli import cli
for args in (["--help"], ["--version"], ["rl", "--help"], ["list", "--help"]):
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 0, result.output
print([name for name in ("jax", "matplotlib", "gymnasium") if name in sys.modules])
"""
    assert run_python(code) == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_experiments_that_a_help_names_are_there(paxrun, command):
    text = paxrun(command, "--help").stdout
    families = {name.partition("/")[0] for name in experiment_names()}
    named = re.findall(rf"\b(?:{'|'.join(families)})/\w+", text)
    assert set(named) <= set(experiment_names())
    assert named or command not in ("rl", "evo", "sarl", "es")


@pytest.mark.slow
def test_python_dash_m_takes_the_lines_of_users(run_python):
    code = """
import runpy, sys
sys.argv = ["runners", "+experiment/ipd=ppo", "+num_envs=10", "--dry-run"]
try:
    runpy.run_module("runners", run_name="__main__")
except SystemExit as end:
    assert end.code == 0, end.code
"""
    assert "name: ipd/ppo\n" in run_python(code)


def test_bare_settings_mean_run(paxrun):
    result = paxrun(
        "+experiment/ipd=ppo",
        "+total_timesteps=1_000_000",
        "+num_envs=10",
        "++payoff=[[-2,-2],[0,-3],[-3,0],[-1,-1]]",
        "++wandb.group=testing",
        "--dry-run",
    )
    assert result.exit_code == 0, result.stderr
    config = yaml.safe_load(result.stdout)
    assert config["name"] == "ipd/ppo+payoff"
    assert config["total_timesteps"] == 1_000_000
    assert config["wandb"]["group"] == "testing"
    assert "CC  player 1 gets -2" in result.stderr
    assert "0 = cooperate, 1 = defect" in result.stderr


@pytest.mark.parametrize(
    "args", [("--seed", "3"), ("--config", "mine.yaml"), ("--quick", "ipd/evo_v_evo")]
)
def test_bare_options_mean_run(paxrun, args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("agents: [Grim, AllD]\nrunner: eval\n")
    result = paxrun(*args, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "steps of each seed" in result.stdout


def test_the_resolved_config_says_where_each_value_came_from(paxrun):
    words = ("ipd/ppo", "num_envs=10", "--agent2", "AllD", "--seed", "7")
    result = paxrun("config", "show", *words, "--origins")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "num_envs=10 # 'num_envs=10'" in lines
    assert "seed=7 # option --seed" in lines
    assert "agent2.name=AllD # option --agent2" in lines
    assert "agent1.gamma=0.96 # the experiment ipd/_ppo" in lines
    assert "plot=true # default" in lines


def test_a_dry_run_writes_nothing(paxrun, tmp_path):
    result = paxrun("rl", "--exp-dir", str(tmp_path / "exp"), "--dry-run")
    assert result.exit_code == 0
    assert "40 iterations of 15,000 steps" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_options_are_settings_with_the_last_word(paxrun):
    result = paxrun(
        *("rl", "ipd/ppo", "seed=1", "num_envs=20", "--seed", "2", "--num-seeds", "3"),
        *("--total-timesteps", "1e6", "--agent2", "AllD", "--dry-run", "--json"),
    )
    config = json.loads(result.stdout)
    assert (config["seed"], config["num_seeds"], config["num_envs"]) == (2, 3, 20)
    assert config["total_timesteps"] == 1_000_000
    assert config["agents"][1]["name"] == "AllD"


def test_the_finished_run_says_where_it_is_and_shows_a_table(trained):
    assert f"run directory: {trained.path}" in trained.stderr
    assert (trained.path / "models" / "player1.msgpack").is_file()
    *_, played, saved, compare, following = trained.stdout.splitlines()
    assert played.startswith("played:  ")
    assert "s of compilation" in played
    assert (
        saved
        == f"saved:   {trained.path}, with results.json and 2 pictures in artifacts"
    )
    assert compare.startswith("compare: paxrun plot ")
    assert following == f"next:    paxrun eval --run-dir {trained.path}"
    for text in ("reward per step", "cooperation rate", "START", "over 2 seeds"):
        assert text in trained.stdout


def test_an_unknown_game_names_at_most_the_closest(paxrun):
    """`--env IDP` is answered with IPD and not with a wall of ids."""
    result = paxrun("rl", "--env", "IDP")
    assert result.exit_code == USAGE
    message = result.stderr
    assert "there is no game 'IDP'; did you mean IPD" in message
    assert message.count(" or ") <= 2
    assert "CoinGame" not in message


@pytest.mark.parametrize(
    "value",
    [
        "[[-1,-1],[-3,0],[0,-3],[-2,-2]]",
        "-1,-3,0,-2",
        "CC=-1,-1 CD=-3,0 DC=0,-3 DD=-2,-2",
    ],
)
def test_a_payoff_that_starts_with_a_minus_is_read(paxrun, value):
    """A negative number after an option is its value."""
    result = paxrun("rl", "--payoff", value, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "CD  player 1 gets -3  player 2 gets  0" in result.stderr


def test_a_payoff_of_more_actions_is_shown_by_actions(paxrun):
    payoff = "[[[1,2],[2,2],[3,3]],[[4,4],[5,4],[6,6]]]"
    agents = ("--agent1", "Random", "--agent2", "Random")
    result = paxrun("eval", "--payoff", payoff, *agents, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "0,2  player 1 gets 3  player 2 gets 3" in result.stderr


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (("--lr", "-2"), "agent1.learning_rate=-2"),
        (("--lr=-2",), "agent1.learning_rate=-2"),
        (("-3",), '--payoff "-1,-3,0,-2"'),
        (("--num-inner-steps", "9"), "num_inner_steps=9"),
    ],
)
def test_an_option_that_is_a_setting_shows_the_working_form(paxrun, args, shown):
    """The message shows what to write instead."""
    result = paxrun("rl", *args)
    assert result.exit_code == USAGE
    assert shown in result.stderr


def test_a_matrix_payoff_for_the_coin_game_is_a_shape_error(paxrun):
    """A 4x2 table in the coin game, which expects 2x3."""
    table = "[[-1,-1],[-3,0],[0,-3],[-2,-2]]"
    result = paxrun("rl", "--env", "CoinGame", "--payoff", table)
    assert result.exit_code == USAGE
    assert "4 rows and 2 columns" in result.stderr
    assert "[[1,1,-2],[1,1,-2]]" in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        "[[-1,-1],[-3,0],[0,-3],[-2,-2]]",
        "[[-1, -1], [-3, 0], [0, -3], [-2, -2]]",
        "[[-1,-1],\n [-3,0],\n [0,-3],\n [-2,-2]]",
        "[[-1,-1],[-3,0],[0,-3],[-2,-2],]",
        "[['-1','-1'],['-3','0'],['0','-3'],['-2','-2']]",
        "'[[-1,-1],[-3,0],[0,-3],[-2,-2]]'",
        "- [-1, -1]\n- [-3, 0]\n- [0, -3]\n- [-2, -2]",
    ],
)
def test_every_valid_form_of_a_payoff_is_the_same_table(paxrun, text):
    """JSON and YAML forms, quotes, spaces, line breaks and a trailing comma."""
    result = paxrun("rl", "--payoff", text, "--dry-run")
    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.stderr.splitlines() if "gets" in line]
    numbers = [(float(line[4]), float(line[8])) for line in lines]
    assert numbers == [(-1, -1), (-3, 0), (0, -3), (-2, -2)]


@pytest.mark.parametrize(
    "text",
    [
        "[[1,1],[2]]",
        "[[1,2],[3,4],[5,6]]",
        "[[1,1],[1,x],[1,1],[1,1]]",
        "",
        "null",
        "[[1,1],[1,1e400],[1,1],[1,1]]",
        "[[1,1],[1,null],[1,1],[1,1]]",
        "[[1,1],[1,",
    ],
)
def test_every_bad_payoff_is_refused_with_row_and_column(paxrun, text):
    """Ragged, misshapen, not a number, empty, too large, null, cut off."""
    result = paxrun("rl", "--payoff", text)
    assert result.exit_code == USAGE
    assert "row" in result.stderr
    assert "column" in result.stderr
    assert "Traceback" not in result.output


def test_a_payoff_for_a_game_without_one_is_refused(paxrun, tmp_path):
    result = paxrun("describe", "IPD", "payof=1")
    assert result.exit_code == USAGE
    assert "payoff" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["rl", "num_env=3"], "did you mean 'num_envs'"),
        (["config", "show", "agent1.gama=1"], "did you mean 'gamma'"),
        (["eval", "--agent1", "MemoryOne"], "needs p and p0"),
        (["play", "IPD", "--against", "MemoryOne"], "MemoryOne needs p and p0"),
        (["rl", "eval=True"], "eval=true (from 'eval=True') contradicts runner=rl"),
        (["eval", "--run-dir", "gone", "--config", "x"], "brings its own config"),
        (["probe", "num_outer_steps=3"], "a probe is of one inner episode"),
        (["rl", "+train_iters=3"], "total_timesteps"),
        (["rl", "--agent2", "TitForTatt"], "did you mean TitForTat"),
        (["rl", "ipd/pppo"], "did you mean ipd/ppo"),
        (["rl", "--seed", "x"], "seed must be a whole number, got 'x'"),
        (["rl", "--config", "gone.yaml"], "cannot read --config gone.yaml"),
        (["rl", "save_dir=exp/${seed}"], "interpolation unsupported"),
        (["rl", "--model-path", "gone.msgpack"], "there is no such file"),
        (["rl", "num_envs=9", "num_inner_steps=16"], "num_minibatches=5"),
        (["eval", "--run-dir", "gone"], "is not a run directory"),
        (["eval", "--agent2", "AllD", "--player", "2", "--model-path", "x"], "x"),
        (["frobnicate"], "there is no command 'frobnicate'"),
        (["lst"], "did you mean 'list'"),
        (["describe", "IDP"], "did you mean IPD"),
        (
            ["sarl", "--env", "CartPole", "env.gravity=x", "--dry-run"],
            "env.gravity must be a number, got 'x'",
        ),
        (["eval", "env.continuation_prob=x"], "env.continuation_prob must be"),
        (["describe", "IPD", "colour=red"], "has no option 'colour'"),
        (
            ["evo", "--agent1", "TitForTat", "--agent2", "Grim"],
            "agent1: the actions of TitForTat depend on no parameters",
        ),
        (["rl", "--save-dir", ""], "save_dir must name a folder, got an empty text"),
        (["rl", "--exp-dir", ""], "exp_dir must name a folder, got an empty text"),
        (["rl", "name=../../runs"], "name must be of a folder below exp_dir"),
        (["play", "IPD", "--against", "Grimm"], "did you mean Grim"),
        (["play", "IPD", "--player", "3"], "player must be in 1 to 2, got 3"),
        (["config", "show", "ipd/nothing"], "there is no experiment"),
        (["rl", "--extends", "ipd/ppo"], "Use `ipd/ppo`, the experiment's name"),
        (["rl", f"seed={'9' * 400}"], "seed must be a whole number below 2**63"),
        (["evo", "cg/ppo_v_ppo"], "agent2 (PPO, player 2) would never learn"),
        (["list", "things"], "experiments"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(
    paxrun, args, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = paxrun(*args)
    assert result.exit_code == USAGE
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_weights_and_biases_are_asked_for_by_name(paxrun, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    result = paxrun("eval", "--run-path", "me/project/run", "--model-path", "x.msgpack")
    assert result.exit_code == USAGE
    assert "pip install 'paxenv[wandb]'" in result.stderr


def test_ctrl_c_saves_and_exits_with_130(paxrun, tmp_path, monkeypatch):
    from runners.cli.progress import ProgressObserver

    monkeypatch.setattr(
        *(ProgressObserver, "on_chunk"),
        lambda self, chunk: signal.raise_signal(signal.SIGINT),
    )
    result = paxrun(
        *("rl", "ipd/nl_v_tft", "num_envs=8", "num_inner_steps=10", "num_seeds=2"),
        *("total_timesteps=1e6", "--exp-dir", str(tmp_path)),
    )
    assert result.exit_code == 130
    (path,) = (tmp_path / "ipd" / "nl_v_tft").iterdir()
    assert json.loads((path / "meta.json").read_text())["status"] == "interrupted"
    assert (path / "models" / "player1.msgpack").is_file()
    assert "everything is saved: paxrun resume" in result.stderr.replace("\n", " ")


def test_ctrl_c_while_compiling_loses_nothing(paxrun, tmp_path, monkeypatch):
    from runners.engine.program import CompiledProgram

    compile = CompiledProgram.compile

    def interrupted(self):
        signal.raise_signal(signal.SIGINT)
        compile(self)

    monkeypatch.setattr(CompiledProgram, "compile", interrupted)
    place = tmp_path / "run"
    small = ("num_envs=8", "num_inner_steps=10", "num_seeds=2", "total_timesteps=160")
    words = ("rl", "ipd/nl_v_tft", *small, "--save-dir", str(place))
    result = paxrun(*words)
    assert result.exit_code == 130
    assert "paxrun resume" in result.stderr
    assert json.loads((place / "meta.json").read_text())["status"] == "interrupted"
    monkeypatch.undo()
    result = paxrun("resume", str(place))
    assert result.exit_code == 0, result.stderr
    assert json.loads((place / "meta.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("kind", "key", "names"),
    [
        ("envs", "id", {"pax/IPD-v0", "pax/CoinGame-v0"}),
        ("agents", "name", {"PPO", "TitForTat", "GoodGreedy"}),
        ("experiments", "name", {"ipd/ppo", "cg/tabular", "imp/tabular_v_tabular"}),
    ],
)
def test_lists_are_tables_or_json(paxrun, kind, key, names):
    rows = json.loads(paxrun("list", kind, "--json").stdout)
    assert names <= {row[key] for row in rows}
    table = paxrun("list", kind).stdout
    assert all(name in table for name in names)


def test_plugins_are_listed_with_why_one_was_refused(paxrun, monkeypatch):
    import paxenv
    from paxenv.entry_points import Plugin

    found = (Plugin("pax/Mine-v0", "game", "theirs", "1.0", "a:b", "is reserved"),)
    monkeypatch.setattr(paxenv, "plugins", lambda: found)
    (row,) = json.loads(paxrun("list", "plugins", "--json").stdout)
    assert row["refused"] == "is reserved"
    assert "reserved" in paxrun("list", "plugins").stdout


def test_plugins_are_listed_with_why_one_does_not_load(paxrun, monkeypatch):
    import paxenv
    import paxenv_agents
    from paxenv.entry_points import Plugin
    from paxenv_agents.registry import AgentSpec

    spec = AgentSpec("BadBot", "math:pi", distribution="theirs")
    found = (Plugin("BadBot", "agent", "theirs", "1.0", "math:pi"),)
    monkeypatch.setattr(paxenv, "plugins", lambda: found)
    monkeypatch.setattr(paxenv_agents, "agents", lambda: {"BadBot": spec})
    (row,) = json.loads(paxrun("list", "plugins", "--json").stdout)
    assert row["fault"] == "math:pi is 3.141592653589793, which has no from_env"
    assert "no from_env" in paxrun("list", "plugins").stdout.replace("\n", " ")


def test_no_plugins_are_said_to_be_none(paxrun, monkeypatch):
    import paxenv

    monkeypatch.setattr(paxenv, "plugins", lambda: ())
    assert paxrun("list", "plugins").stdout == "no plugins\n"


def test_an_ejected_experiment_shadows_the_packaged_one(paxrun, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = paxrun("config", "eject", "ipd/ppo_v_all_c")
    path = tmp_path / "conf" / "experiment" / "ipd" / "ppo_v_all_c.yaml"
    assert result.stdout.strip() == str(path.relative_to(tmp_path))
    path.write_text(path.read_text() + "seed: 99\n")
    shown = paxrun("config", "show", "ipd/ppo_v_all_c").stdout
    assert yaml.safe_load(shown)["seed"] == 99
    again = paxrun("config", "eject", "ipd/ppo_v_all_c")
    assert again.exit_code == USAGE
    assert "--force replaces it" in again.stderr


@pytest.mark.slow
def test_all_experiments_validate_from_the_command_line(paxrun):
    result = paxrun("config", "validate", "--all")
    assert result.exit_code == 0, result.stderr
    assert "ipd/ppo_v_tft: IPD: PPO v TitForTat, 40 iterations" in result.stdout
    broken = paxrun("config", "validate", "agent1.num_minibatches=7")
    assert broken.exit_code == USAGE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rl", "agent2=Naive", "agent2.model_path=no/file"], "there is no such file"),
        (["rl", "agent2=Naive", "agent2.tabular=true"], "does not fit this Naive"),
        (["eval", "agent1.hidden_sizes=[3]"], "does not fit this Naive"),
    ],
)
def test_a_dry_run_finds_weights_that_cannot_be_loaded(trained, paxrun, words, said):
    run, *changes = words
    player = 1 if run == "eval" else 2
    path = trained.path / "models/player1"
    weights = [f"agent{player}.model_path={path}"]
    result = paxrun(run, "ipd/nl_v_tft", *weights, *changes, "--dry-run")
    assert result.exit_code == 2, result.output
    assert said in result.stderr


def test_an_evaluation_in_which_no_agent_of_the_run_plays_is_refused(trained, paxrun):
    args = ("eval", "--run-dir", str(trained.path), "--agent1", "Grim", "--dry-run")
    assert paxrun(*args).exit_code == 0
    result = paxrun(*args, "--agent2", "AllC")
    assert result.exit_code == USAGE
    assert "of Naive and TitForTat, none of whom plays here" in result.stderr


def test_an_evaluation_of_a_run_that_was_stopped_says_so(trained, paxrun, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained.path, folder)
    args = ("eval", "--run-dir", str(folder), "--dry-run")
    assert "not finished" not in paxrun(*args).stderr
    run = RunDir(folder)
    run.write_meta(status="interrupted")
    run.write_results({"env_steps_per_seed": 80})
    said = " ".join(paxrun(*args).stderr.split())
    assert "not finished (it is interrupted): its weights are of step 80. " in said
    assert "Checkpoints of later steps are there (400)" in said
    shutil.rmtree(run.models)
    assert "it has left no weights" in " ".join(paxrun(*args).stderr.split())


def test_an_evaluation_of_a_run_has_the_options_that_the_run_wrote_down(trained):
    """All others are the agent's usual ones, which no list of runs need show."""
    from runners.config import load
    from runners.planning.plan import prepare
    from runners.session.held_out import config_of_run

    run = load(config_file=trained.path / "config.yaml")
    played = prepare(config_of_run(str(trained.path))).config
    assert played.agents[0].options == run.agents[0].options
