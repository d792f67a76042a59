"""From a command line to one config."""

import json
import re

import pytest

from runners.config import AgentConfig, ConfigError, experiment_names, load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, name, text):
    path = folder / "conf" / "experiment" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_a_word_the_default_experiment_is_ppo_against_titfortat():
    config = load()
    assert config.name == "ipd/ppo_v_tft"
    assert [agent.name for agent in config.agents] == ["PPO", "TitForTat"]
    assert config.env.id == "IPD"


def test_each_layer_wins_over_the_one_before(folder):
    write(folder, "mine/base", "seed: 1\nnum_envs: 2\nnum_seeds: 3\nchunk_size: 4\n")
    (folder / "file.yaml").write_text("num_envs: 20\nnum_seeds: 30\nchunk_size: 40\n")
    config = load(
        ["mine/base", "num_seeds=300", "chunk_size=400"],
        config_file=folder / "file.yaml",
        options={"chunk_size": "4000", "exp_dir": None},
    )
    assert config.seed == 1
    assert config.num_envs == 20
    assert config.num_seeds == 300
    assert config.chunk_size == 4000
    assert config.exp_dir == "exp"


@pytest.mark.parametrize(
    "words",
    [
        ["+experiment/ipd=ppo"],
        ["+experiment=ipd/ppo"],
        ["experiment=ipd/ppo"],
        ["ipd/ppo"],
    ],
)
def test_an_experiment_is_chosen_in_the_ways_users_know(words):
    assert load(words).name == "ipd/ppo"


def test_the_lines_of_users_parse_with_plus_signs():
    config = load(
        [
            "+experiment/ipd=ppo",
            "+total_timesteps=1_000_000",
            "+num_envs=10",
            "++payoff=[[-2,-2],[0,-3],[-3,0],[-1,-1]]",
            "++wandb.group=testing",
        ]
    )
    assert config.total_timesteps == 1_000_000
    assert config.num_envs == 10
    assert config.env.options["payoff"] == "[[-2,-2],[0,-3],[-3,0],[-1,-1]]"
    assert config.wandb.group == "testing"


def test_a_text_setting_keeps_its_text():
    config = load(["wandb.group=1e5", "wandb.name=010", "exp_dir=true"])
    assert config.wandb.group == "1e5"
    assert config.wandb.name == "010"
    assert config.exp_dir == "true"


def test_a_float_is_a_count_when_it_is_whole():
    """Iteration counts written as floats are whole numbers."""
    assert load(["total_timesteps=1e7"]).total_timesteps == 10_000_000
    with pytest.raises(ConfigError, match=r"total_timesteps must be a whole number"):
        load(["total_timesteps=1e-1"])


def test_a_setting_of_an_agent_changes_that_agent_only():
    config = load(["ipd/ppo", "agent2.learning_rate=0.5"])
    assert config.agents[0].options["learning_rate"] == 0.01
    assert config.agents[1].options["learning_rate"] == 0.5
    assert config.agents[1].options["hidden_sizes"] == (16, 16)


def test_another_agent_starts_with_its_own_settings():
    config = load(["ipd/ppo", "agent1=Naive"])
    assert config.agents[0] == AgentConfig("Naive")
    assert config.agents[1].options["hidden_sizes"] == (16, 16)


def test_the_same_agent_keeps_its_settings():
    assert load(["ipd/ppo", "agent1=PPO"]).agents == load(["ipd/ppo"]).agents


def test_an_agent_beyond_the_last_one_is_an_error():
    with pytest.raises(ConfigError, match="agent4 is given, but only 2 agents"):
        load(["ipd/ppo", "agent4=AllC"])


def test_another_game_does_not_inherit_the_default_experiment():
    config = load(options={"env": "CoinGame"})
    assert config.env.id == "CoinGame"
    assert config.env.options == {}
    assert config.agents == ()
    assert load(options={"env": "pax/IPD-v0"}).agents[1].name == "TitForTat"


def test_other_players_do_not_run_under_the_name_of_the_default_experiment():
    config = load(options={"agent1": "Grim", "agent2": "Random"})
    assert config.name == ""
    assert config.expected == ""
    assert load(["seed=3"]).name == "ipd/ppo_v_tft"


def test_weights_go_to_player_1_unless_told_otherwise():
    first = load(["ipd/ppo"], options={"model_path": "a.msgpack"})
    assert [agent.model_path for agent in first.agents] == ["a.msgpack", None]
    second = load(["ipd/ppo", "player=2"], options={"model_path": "a.msgpack"})
    assert [agent.model_path for agent in second.agents] == [None, "a.msgpack"]
    with pytest.raises(ConfigError, match="counted from 1, got player=0"):
        load(["ipd/ppo", "player=0"], options={"model_path": "a.msgpack"})
    with pytest.raises(ConfigError, match="model_path is for player 3"):
        load(["ipd/ppo"], options={"model_path": "a.msgpack", "player": "3"})


def test_the_key_eval_chooses_the_runner():
    assert load(["eval=True"]).runner == "eval"
    assert load(["eval=false"]).runner == "rl"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("num_env=3", r"unknown key 'num_env'; did you mean 'num_envs'\?"),
        ("train_iters=3", "use total_timesteps, counted in environment steps"),
        ("ppo1.num_epochs=3", "unknown key 'ppo1'; use agent1"),
        ("wandb.grup=x", r"unknown key wandb\.grup; did you mean 'group'\?"),
        (
            "runner=evolution",
            "runner must be one of rl, evo, eval, sarl, online, es, got 'evolution'",
        ),
        ("num_envs=0", "num_envs must be a whole number >= 1, got 0"),
        ("seed=-1", r"seed must be a whole number >= 0, got -1"),
        ("=3", "expected KEY=VALUE"),
        ("~seed", "settings cannot be removed"),
        ("ipd/pppo", "there is no experiment 'ipd/pppo'; did you mean ipd/ppo"),
        ("../secrets/x", "there is no experiment"),
        ("wandb=off", "wandb must be a mapping"),
        ("agent1=[1]", "agent1 must be an agent's name"),
        ("agent1.players=[0]", "players are counted from 1"),
        ("agent1.clock=outer", "clock must be one of trial, inner"),
    ],
)
def test_a_mistake_is_an_error_that_says_the_fix(word, message):
    with pytest.raises(ConfigError, match=message):
        load([word])


@pytest.mark.parametrize("word", ["mine.yaml", "mine", "./mine.yaml"])
def test_a_file_in_the_place_of_an_experiment_is_told_the_option(folder, word):
    (folder / "mine.yaml").write_text("num_envs: 4\n")
    with pytest.raises(ConfigError, match=r"write --config (\./)?mine\.yaml$"):
        load([word])


def test_two_experiments_at_once_are_an_error():
    with pytest.raises(ConfigError, match="one experiment at a time, got ipd/ppo and"):
        load(["ipd/ppo", "+experiment/ipd=ppo_v_tft"])


@pytest.mark.parametrize("text", ["${seed}", "./exp/${wandb.group}/x"])
def test_interpolation_is_refused_in_files_and_words(folder, text):
    """A file with interpolations gives a clear error and makes no folder."""
    (folder / "user.yaml").write_text(
        f'seed: 0\nsave_dir: "{text}"\nwandb: {{group: "${{wandb.group}}"}}\n'
    )
    with pytest.raises(ConfigError, match="interpolation unsupported"):
        load(config_file=folder / "user.yaml")
    with pytest.raises(ConfigError, match="interpolation unsupported"):
        load([f"save_dir={text}"])
    assert [path.name for path in folder.iterdir()] == ["user.yaml"]


def test_a_local_folder_shadows_the_packaged_experiments(folder):
    write(folder, "ipd/ppo", "seed: 77\n")
    write(folder, "mine/new", "extends: ipd/ppo\nnum_envs: 3\n")
    assert load(["ipd/ppo"]).seed == 77
    assert (load(["mine/new"]).seed, load(["mine/new"]).num_envs) == (77, 3)
    assert {"mine/new", "ipd/ppo", "ipd/ppo_v_tft"} <= set(experiment_names())


def test_a_child_changes_its_parent_key_by_key(folder):
    write(
        folder,
        "mine/parent",
        "env: {id: IPD, num_inner_steps: 7}\nagents: [PPO, TitForTat]\nseed: 5\n",
    )
    write(
        folder,
        "mine/child",
        "extends: mine/parent\nenv: {num_outer_steps: 2}\n"
        "agent1: {learning_rate: 0.5}\n",
    )
    config = load(["mine/child"])
    assert config.name == "mine/child"
    assert config.env.options == {"num_inner_steps": 7, "num_outer_steps": 2}
    assert config.agents[0] == AgentConfig("PPO", options={"learning_rate": 0.5})
    assert config.seed == 5


def test_experiments_that_extend_each_other_are_an_error(folder):
    write(folder, "mine/a", "extends: mine/b\n")
    write(folder, "mine/b", "extends: mine/a\n")
    with pytest.raises(ConfigError, match="mine/a -> mine/b -> mine/a"):
        load(["mine/a"])


@pytest.mark.parametrize("value", ["", "3", "true", "{a: b}", "[ipd/ppo, 3]"])
@pytest.mark.parametrize("stored", [True, False])
def test_what_extends_is_a_name_or_names(folder, value, stored):
    text = f"extends: {value}\n"
    write(folder, "mine/child", text)
    (folder / "file.yaml").write_text(text)
    words, file = (["mine/child"], None) if stored else ([], "file.yaml")
    with pytest.raises(ConfigError, match="extends must be the name of a stored exp"):
        load(words, config_file=file)


@pytest.mark.parametrize("key", ["null", "true", "3", "nope"])
def test_a_key_that_resembles_none_is_told_no_other(folder, key):
    (folder / "file.yaml").write_text(f"{key}: 2\n")
    with pytest.raises(ConfigError, match=r"unknown key [^;]*\. Known keys: "):
        load(config_file="file.yaml")


@pytest.mark.parametrize("place", ["", "https://a.b/c.yaml"])
def test_a_config_is_a_file_of_this_machine(place):
    with pytest.raises(ConfigError, match=f"file of this machine, got '{place}'$"):
        load(config_file=place)


@pytest.mark.parametrize(
    ("text", "said"), [(b"seed: abc", "(from "), (b"\xff", "cannot read ")]
)
def test_a_broken_experiment_is_named_and_hides_no_other(folder, paxrun, text, said):
    write(folder, "mine/bad", "")
    path = folder / "conf" / "experiment" / "mine" / "bad.yaml"
    path.write_bytes(text)
    place = "conf/experiment/mine/bad.yaml"
    with pytest.raises(ConfigError, match=re.escape(f"{said}{place}")):
        load(["mine/bad"])
    listed = json.loads(paxrun("list", "experiments", "--json").stdout)
    rows = {row["name"]: row["description"] for row in listed}
    assert place in rows["mine/bad"]
    assert rows["ipd/ppo"] == load(["ipd/ppo"]).description


def test_a_number_may_be_a_tag():
    assert load(["wandb.tags=2024"]).wandb.tags == ("2024",)
    assert load(["wandb.tags=a,b"]).wandb.tags == ("a", "b")


def test_a_missing_config_file_is_an_error(folder):
    with pytest.raises(ConfigError, match=r"cannot read --config gone\.yaml"):
        load(config_file="gone.yaml")
