"""How settings of files, words and options become one config: docs/config.md."""

import re

import pytest

from runners.config import AgentConfig, ConfigError, load, origin_lines, to_yaml
from runners.config.loader import load_on_run
from runners.planning.plan import prepare


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def file_of(folder, text):
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def naive(**options):
    return AgentConfig("Naive", options=options)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["agent1.learning_rate=0.5", "agent1=Naive"], {}),
        (["agent1=Naive", "agent1.learning_rate=0.5"], {}),
        (["agent1.learning_rate=0.5"], {"agent1": "Naive"}),
        (["agent1={name: Naive, learning_rate: 0.5}"], {}),
        (["agent1.learning_rate=0.5", "agents=[Naive, TitForTat]"], {}),
        (["agents=[Naive, TitForTat]", "agent1.learning_rate=0.5"], {}),
        (["agent1.learning_rate=0.1", "agent1.learning_rate=0.5", "agent1=Naive"], {}),
    ],
)
def test_a_setting_of_an_agent_is_of_the_agent_that_plays(words, options):
    """The settings of the default experiment go with its own agent, PPO."""
    config = load(words, options=options)
    assert config.agents == (naive(learning_rate=0.5), AgentConfig("TitForTat"))


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        (["agent1=TitForTat", "agent2=PPO"], True),
        (["agents=[TitForTat, PPO]"], True),
        (["agent1=TitForTat", "agent2=Naive"], False),
        (["agent2=PPO"], False),
        (["agent1=PPO", "agent2=TitForTat"], False),
    ],
)
def test_who_moves_to_another_seat_is_told_what_is_dropped(words, lost):
    config = load(["ipd/ppo_v_tft", *words])
    if not lost:
        assert config.notices == ()
        return
    (notice,) = config.notices
    assert notice.startswith("agent2 is PPO with its usual settings")
    kept = load(["ipd/ppo_v_tft", *words, notice.split("write ")[1].replace("'", "")])
    assert kept.agents[1] == load(["ipd/ppo_v_tft"]).agents[0]
    assert kept.notices == ()


def test_a_setting_of_a_file_is_of_the_agent_that_the_command_line_names(folder):
    path = file_of(folder, "extends: ipd/ppo\nagent1: {learning_rate: 0.3}\n")
    config = load(config_file=path, options={"agent1": "Naive"})
    assert config.agents[0] == naive(learning_rate=0.3)
    assert config.agents[1].options["hidden_sizes"] == (16, 16)


def test_weights_are_of_the_agent_that_is_named_beside_them():
    words = ["agent2.model_path=weights.msgpack"]
    config = load(words, options={"agent2": "PPO"})
    assert config.agents[1] == AgentConfig("PPO", model_path="weights.msgpack")


def test_a_list_of_agents_names_all_of_them_anew():
    config = load(["ipd/ppo", "agents=[PPO, AllC]"])
    assert config.agents == (AgentConfig("PPO"), AgentConfig("AllC"))


def test_a_setting_beyond_a_list_of_agents_is_refused(folder):
    path = file_of(folder, "agents: [PPO, AllC, {name: PPO, gamma: 0.5}]\n")
    with pytest.raises(ConfigError, match=r"agent3\.name is set by --config .*mine"):
        load(["agents=[PPO, AllD]"], config_file=path)


def test_settings_of_a_run_go_with_its_agents(folder):
    path = file_of(folder, "agents: [{name: PPO, num_epochs: 3, clock: inner}, AllC]\n")
    kept = load_on_run(path, {}, ["agent1.gamma=0.5"])
    assert kept.agents[0].options == {"num_epochs": 3, "gamma": 0.5}
    other = load_on_run(path, {}, ["agent1={name: Naive, reset: trial}"])
    assert other.agents[0] == AgentConfig("Naive", reset="trial")


@pytest.mark.parametrize("env", ["CartPole", "CoinGame", "IPD"])
@pytest.mark.parametrize("runner", ["rl", "sarl", "online"])
def test_an_agent_without_a_name_is_the_usual_one(env, runner):
    words = ["agent1.learning_rate=0.1"]
    config = load(words, options={"env": env, "runner": runner})
    assert config.agents[0].name == "PPO"
    assert config.agents[0].options["learning_rate"] == 0.1


def test_the_second_agent_without_a_name_is_the_games_opponent():
    config = load(["agent2.sight=2"], options={"env": "CoinGame"})
    assert config.agents == (
        AgentConfig("PPO"),
        AgentConfig("GoodGreedy", options={"sight": 2}),
    )


def test_eval_false_changes_no_runner(folder):
    assert load(["ipd/evo_v_evo", "eval=False"]).runner == "evo"
    assert load(["eval=False"], options={"runner": "sarl"}).runner == "sarl"
    path = file_of(folder, "runner: evo\neval: False\n")
    assert load(config_file=path).runner == "evo"


def test_eval_true_evaluates_in_any_order(folder):
    assert load(["ipd/evo_v_evo", "eval=True"]).runner == "eval"
    first = file_of(folder, "eval: True\nextends: ipd/evo_v_evo\n")
    assert load(config_file=first).runner == "eval"
    trains = file_of(folder, "runner: evo\n")
    assert load(["eval=True"], config_file=trains).runner == "eval"


def test_a_file_says_once_whether_it_evaluates(folder):
    for text in ("eval: True\nrunner: rl\n", "runner: rl\neval: True\n"):
        with pytest.raises(ConfigError, match=r"eval=true .* contradicts runner=rl"):
            load(config_file=file_of(folder, text))


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (["eval=True"], {"runner": "rl"}, "eval=true .* contradicts runner=rl"),
        (["eval=True", "runner=evo"], {}, "eval=true .* contradicts runner=evo"),
        (["runner=evo"], {"runner": "rl"}, "runner=evo' contradicts the command"),
        (
            ["total_timesteps=9", "es.num_generations=2"],
            {"runner": "evo"},
            "both say how long",
        ),
        (
            ["model_path=a", "agent1.model_path=b"],
            {},
            r"model_path=a .* and agent1\.model_path=b .* leave one of them out",
        ),
        (["player=2"], {}, "there is no model_path"),
        (["popsize=9"], {"runner": "rl"}, "read by `paxrun evo` alone"),
        (["popsize=9"], {"runner": "es"}, r"write search\.population_size"),
        (["search.iterations=9"], {"runner": "rl"}, "read by `paxrun es` alone"),
        (["search.iterations=9"], {"runner": "evo"}, r"write es\.num_generations$"),
        (["es.num_generations=9"], {"runner": "es"}, r"write search\.iterations$"),
        (["es.w_decay=1"], {"runner": "es"}, r"of the runner es$"),
        (["agent1.es={}"], {"runner": "es"}, r"agent1\.es is read .* runner es$"),
        (["quick={num_envs: 3}"], {}, "quick is true or false"),
        (["agent1={}"], {}, "agent1 must be an agent's name"),
        (["agents=3"], {}, "agents must be a list of names, .* got 3"),
        (["agents=PPO"], {}, "agents must be a list of names, .* got 'PPO'"),
        (["agent1.sample=3"], {}, "agent1.sample must be a mapping, got 3"),
        (["es.centered_rank=true"], {}, "^'es.centered_rank=true': es.centered_rank"),
        (["runner=nope"], {"runner": "rl"}, "runner must be one of rl, .* got 'nope'"),
        (["runner=null"], {"runner": "rl"}, "runner must be one of rl, .* got None"),
        (["extends=ipd/ppo"], {}, "'extends'; use `ipd/ppo`, the experiment's name as"),
        (["agents=[PPO, null]"], {}, "agent2 in agents must be an agent's name"),
        (["search.search_targets=null"], {"runner": "es"}, "must be a list such as"),
        (["agents=null"], {}, "agents must be a list of names, .* got None"),
        (["agent1.es=3"], {}, "agent1.es must be a mapping such as .* got 3"),
    ],
)
def test_a_contradiction_on_the_command_line_names_both(words, options, message):
    with pytest.raises(ConfigError, match=message):
        load(words, options=options)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("payoff: IPD\nenv: {payoff: Chicken}\n", "env.payoff payoff env.payoff"),
        (
            "env: {payoff: IPD, payoff_matrix: Chicken}\n",
            "env.payoff env.payoff env.payoff_matrix",
        ),
        (
            "popsize: 8\nes: {population_size: 9}\n",
            "es.population_size popsize es.population_size",
        ),
        (
            "es: {lr: 0.1, learning_rate: 0.2}\n",
            "es.learning_rate es.lr es.learning_rate",
        ),
        (
            "search: {popsize: 8, population_size: 9}\n",
            "search.population_size search.popsize search.population_size",
        ),
        ("num_opps: 2\nnum_opponents: 3\n", "num_opponents num_opps num_opponents"),
        ("agents: [PPO, AllC]\nagent1: Naive\n", "agent1.name agents agent1"),
    ],
)
def test_one_setting_under_two_names_in_a_file_is_given_twice(folder, text, name):
    own, first, second = name.split()
    said = f"{own} is given twice, as {first} and as {second}: leave one"
    with pytest.raises(ConfigError, match=re.escape(said)):
        load(config_file=file_of(folder, text))


@pytest.mark.parametrize(
    "text",
    [
        "es: {popsize: 3}",
        "es: {popsizzz: 3}",
        "num_generations: 3",
        "search: {iterations: 3}",
        "agent1: {es: {sigma_init: 1}}",
        "runner: evo",
        "eval: true",
        "extends: ipd/ppo\nquick: {popsize: 3}",
    ],
)
def test_a_file_for_another_runner_is_refused_as_a_word_is(folder, text):
    path = file_of(folder, f"{text}\n")
    options = {"runner": "rl", "quick": True if "quick" in text else None}
    with pytest.raises(ConfigError, match=f"^--config {path}.*: .*`paxrun"):
        load(config_file=path, options=options)


def test_a_file_that_says_all_may_be_run_by_another_runner(folder):
    stored = load(["ipd/evo_v_evo"])
    path = file_of(folder, to_yaml(stored))
    config = load(config_file=path, options={"runner": "rl"})
    assert (config.runner, config.es) == ("rl", stored.es)
    inherits = file_of(folder, "extends: ipd/evo_v_evo\nsearch: {}\nseed: 3\n")
    assert load(config_file=inherits, options={"runner": "rl"}).seed == 3


@pytest.mark.parametrize("section", ["es", "agent1: {name: PPO, es"])
def test_a_stored_experiment_has_no_unknown_option_that_nobody_reads(folder, section):
    path = folder / "conf" / "experiment" / "mine" / "typo.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(f"{section}: {{sigma_inti: 3}}{'}' * section.count('{')}\n")
    with pytest.raises(
        ConfigError, match=r"'sigma_inti'; did you .*\(from .*typo\.yaml"
    ):
        load(["mine/typo"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed: abc", "seed must be a whole number"),
        ("quick: 3", "quick must be true or false"),
        ("eval: maybe", "eval must be true or false"),
        ("runner: nope", "runner must be one of"),
        ("wandb: {grup: x}", "unknown key wandb.grup"),
        ("wandb: {tags: [[1]]}", "wandb.tags[0] must be a text"),
        ("bands: {a: [2, 1]}", "bands.a must be [low, high]"),
        ("payoff_sampler: {kind: dilemma}", "payoff_sampler must be a mapping such as"),
        ("num_inner_steps: many", "env.num_inner_steps must be a whole number"),
        ("env: {colour: red}", "has no option 'colour'"),
        ("env: {random_ends: x}", "env.random_ends must be"),
        ("env: {num_actions: 3}", "env.num_actions must be two whole numbers >= 1"),
        ("env: Chess", "env: there is no game 'Chess'"),
        ("agent2: Titt", "agent2: there is no agent 'Titt'"),
        ("agent1: {gamma: x}", "agent1.gamma must be a finite number"),
        (
            "agent1: {sample: {gamma: 3}}",
            "agent1.sample.gamma must be one distribution",
        ),
        ("agent1: {name: {a: b}}", "agent1.name must be a text, got {'a': 'b'}"),
        ("name: {a: 1}", "name must be a text, got {'a': 1}"),
        ("model_path: {a: 1}", "agent1.model_path must be a text, got {'a': 1}"),
        ("payoff: [[1]]", "payoff has 1 rows and 1 columns, but a game of 2 and 2"),
        ("fsdp_devices: 2", "fsdp_devices must divide num_devices, got 2 and 1"),
    ],
)
def test_a_mistake_names_the_file_in_which_it_is(folder, text, said):
    """Of several files, the one that holds the value."""
    other = folder / "other.yaml"
    other.write_text("num_envs: 3\n")
    path = file_of(folder, f"{text}\n")
    with pytest.raises(ValueError, match=f"^[^(]*{re.escape(said)}") as caught:
        prepare(load(config_file=[other, path]))
    assert str(caught.value).endswith(f"(from --config {path})")


def test_two_names_of_one_setting_are_one_setting_in_two_layers(folder):
    path = file_of(folder, "env: {payoff_matrix: Chicken}\nnum_opps: 2\nes: {lr: 1}\n")
    words = ["payoff=IPD", "num_opponents=3"]
    config = load(
        [*words, "es.lrate_init=2"], config_file=path, options={"runner": "evo"}
    )
    assert config.env.options == {"payoff": "IPD"}
    word = load(["payoff_matrix=-1,-3,0,-2"])
    assert word.env.options["payoff"] == "-1,-3,0,-2"
    assert (config.num_opponents, config.es.learning_rate) == (3, 2.0)


def test_the_length_of_a_run_is_that_of_the_higher_layer(folder):
    path = file_of(folder, "runner: evo\nes: {num_generations: 7}\n")
    assert load(config_file=path).es.num_generations == 7
    longer = load(["total_timesteps=1e6"], config_file=path)
    assert longer.es.num_generations is None
    es = file_of(folder, "runner: es\nsearch: {num_steps_per_iteration: 7}\n")
    assert (
        "num_steps_per_iteration"
        not in load(["total_timesteps=1e6"], config_file=es).search
    )


def test_another_strategy_comes_without_the_stored_numbers_of_one(folder):
    stored = load(["ipd/gs_v_tabular"]).es
    assert (stored.strategy, stored.learning_rate) == ("OpenES", 0.1)
    other = load(["ipd/gs_v_tabular", "es.strategy=CMA_ES", "es.sigma_init=0.3"]).es
    assert (other.learning_rate, other.sigma_init, other.init) == (None, 0.3, "agent")
    assert other.population_size == 1000
    same = load(["ipd/gs_v_tabular", "es.strategy=open-es"]).es
    assert same.learning_rate == 0.1


def test_small_sizes_lie_right_above_what_they_belong_to(folder):
    path = file_of(
        folder,
        "extends: ipd/evo_v_evo\nquick: true\n"
        "env: {num_inner_steps: 33}\nes: {sigma_init: 0.2}\n",
    )
    config = load(config_file=path)
    assert config.env.options["num_inner_steps"] == 33
    assert (config.es.population_size, config.es.num_generations) == (64, 150)
    assert load(["quick=false"], config_file=path).es.population_size == 256


def test_of_several_files_the_later_one_lies_on_top(folder):
    first = file_of(folder, "seed: 1\nnum_envs: 2\n")
    second = folder / "second.yaml"
    second.write_text("seed: 3\n")
    config = load(config_file=[first, second])
    assert (config.seed, config.num_envs, config.name) == (3, 2, "second")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["ipd/ppo", "payoff=Chicken"], "ipd/ppo+payoff"),
        (["ipd/ppo", "agent2=AllD"], "ipd/ppo+agent2"),
        (["ipd/ppo", "agent1.gamma=0.5", "payoff=Chicken"], "ipd/ppo+payoff+agent1"),
        (["ipd/ppo", "env=Chicken"], "ipd/ppo+Chicken"),
        (["ipd/ppo", "shuffle_players=true"], "ipd/ppo+shuffle_players"),
        (["payoff=Chicken"], "ipd/ppo_v_tft+payoff"),
        (["ipd/evo_v_evo", "eval=True"], "ipd/evo_v_evo+eval"),
        (["ipd/evo_v_evo", "runner=rl"], "ipd/evo_v_evo+rl"),
        (["ipd/ppo", "runner=sarl", "agent2=AllD"], "ipd/ppo+agent2+sarl"),
        (["agent2=AllD"], ""),
    ],
)
def test_a_run_with_another_game_agents_or_runner_states_no_outcome(words, name):
    config = load(words)
    assert config.name == name
    assert (config.description, config.expected, config.source) == ("", "", "")
    assert config.bands == {}


@pytest.mark.parametrize(
    "words",
    [
        ["seed=3", "num_envs=10", "total_timesteps=1e6"],
        ["num_inner_steps=10"],
        ["agent1.model_path=w.msgpack"],
        ["agent1=PPO", "env=pax/IPD-v0"],
        ["runner=rl", "eval=false"],
    ],
)
def test_sizes_and_weights_leave_an_experiment_what_it_is(words):
    config, stored = load(["ipd/ppo", *words]), load(["ipd/ppo"])
    assert (config.name, config.bands) == ("ipd/ppo", stored.bands)


def test_a_file_inherits_what_is_stated_unless_it_changes_the_game(folder):
    same = load(config_file=file_of(folder, "extends: ipd/ppo\nseed: 3\n"))
    assert (same.name, same.expected[:15]) == ("mine", "Full defection,")
    other = load(config_file=file_of(folder, "extends: ipd/ppo\npayoff: Chicken\n"))
    assert (other.name, other.expected, other.bands) == ("mine", "", {})
    own = "extends: ipd/ppo\npayoff: Chicken\nexpected: Something.\n"
    assert load(config_file=file_of(folder, own)).expected == "Something."


def test_every_value_knows_where_it_was_written(folder):
    path = file_of(folder, "extends: ipd/ppo\nnum_seeds: 3\n")
    config = load(["++agent1.gamma=0.5"], config_file=path, options={"seed": "7"})
    places = {
        "agent1.gamma": "'++agent1.gamma=0.5'",
        "agent1.hidden_sizes": "the experiment ipd/_ppo",
        "agent2.name": "the experiment ipd/ppo",
        "num_seeds": f"--config {path}",
        "seed": "option --seed",
        "chunk_size": "default",
    }
    assert {name: str(config.origin(name)) for name in places} == places
    lines = dict(line.split("  # ") for line in origin_lines(config))
    said = {setting.strip(): place for setting, place in lines.items()}
    assert said["agent1.gamma=0.5"] == "'++agent1.gamma=0.5'"
    assert said["agent1.hidden_sizes=[16, 16]"] == "the experiment ipd/_ppo"
    assert said["plot=true"] == "default"


def test_a_distribution_is_one_value_that_knows_where_it_was_written():
    word = "agent1.sample.learning_rate={uniform: [0, 1]}"
    line = next(line for line in origin_lines(load([word])) if ".sample" in line)
    assert line.split("  # ") == [word, repr(word)]


def test_bands_of_another_game_are_not_inherited_beside_own_ones(folder):
    text = "extends: ipd/ppo\npayoff: Chicken\nbands: {my_metric: [0, 1]}\n"
    assert load(config_file=file_of(folder, text)).bands == {"my_metric": (0.0, 1.0)}


def test_a_local_experiment_is_the_place_of_its_settings(folder):
    path = folder / "conf" / "experiment" / "flat.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("extends: ipd/ppo\nseed: 5\n")
    config = load(["+experiment=flat"])
    assert (config.name, config.seed) == ("flat", 5)
    assert str(config.origin("seed")) == "conf/experiment/flat.yaml"


def test_an_unknown_experiment_says_where_was_looked(folder):
    with pytest.raises(ConfigError, match=r"Neither conf/experiment/flt\.yaml nor"):
        load(["+experiment=flt"])


@pytest.mark.parametrize(
    ("word", "setting"),
    [
        ("num_opps=3", "num_opponents"),
        ("eval_every=3", "eval_interval"),
        ("env.payoff_matrix=IPD", "env.payoff"),
        ("popsize=4", "es.population_size"),
        ("es.popsize=4", "es.population_size"),
        ("num_gens=3", "es.num_generations"),
        ("iterations=3", "es.num_generations"),
        ("es.lr=0.5", "es.learning_rate"),
        ("es.lrate_init=0.5", "es.learning_rate"),
        ("es.lrate_decay=0.5", "es.learning_rate_decay"),
        ("es.algo=CMA_ES", "es.strategy"),
    ],
)
def test_other_names_mean_the_setting_at_whose_field_they_stand(word, setting):
    assert load([word], options={"runner": "evo"}).origin(setting).place == repr(word)


@pytest.mark.parametrize(
    ("word", "setting"),
    [
        ("search.es=PGPE", "search.strategy"),
        ("search.num_generations=3", "search.iterations"),
        ("search.fitness_shaping=auto", "search.fit_shaper"),
    ],
)
def test_other_names_of_a_search_mean_its_options(word, setting):
    assert load([word], options={"runner": "es"}).origin(setting).place == repr(word)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("agent1.clock=outer", "agent1.clock must be one of trial, inner, got 'outer'"),
        ("es.beta_1=2", r"es.beta_1 must be a number in \[0, 1\], got 2.0"),
        ("search.repeats=0", "search.repeats must be a whole number >= 1, got 0"),
        ("wandb.mode=on", "wandb.mode must be one of offline, online, got 'on'"),
        ("chunk_size=0", "chunk_size must be a whole number >= 1, got 0"),
    ],
)
def test_a_value_out_of_range_is_told_by_its_whole_name(word, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        load([word])


def test_a_file_that_is_no_text_is_named(folder):
    path = folder / "mine.yaml"
    path.write_bytes("name: caf\u00e9\n".encode("latin-1"))
    with pytest.raises(
        ConfigError, match=r"--config .*mine\.yaml: it is not a UTF-8 text"
    ):
        load(config_file=path)
