"""No setting that was accepted is lost: random command lines, files and orders."""

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as some
import yaml
from hypothesis import HealthCheck, given, settings

from runners.config import ExperimentConfig, load
from runners.planning.seating import check_options

#: Settings and values for them, as words write them.
PLAIN = {
    "seed": (1, 2),
    "num_envs": (3, 4),
    "total_timesteps": (5000, 6000),
    "payoff": ("IPD", "Chicken"),
    "num_inner_steps": (7, 8),
    "wandb.group": ("a", "b"),
    "env": ("IPD", "Chicken"),
    "runner": ("rl", "eval", "evo"),
    "eval": (True, False),
    "es.sigma_init": (0.2, 0.3),
    "es.learning_rate": (0.4, 0.5),
    "es.strategy": ("CMA_ES", "Open_ES"),
    "popsize": (16, 18),
    "es.num_generations": (3, 4),
    "deterministic": (True, False),
    "shuffle_players": (True, False),
}
OF_AGENTS = {
    "": ("PPO", "Naive", "TitForTat", "GenerousTitForTat", "AllD"),
    ".learning_rate": (0.1, 0.2),
    ".gamma": (0.3, 0.4),
    ".generosity": (0.5, 0.6),
    ".lerning_rate": (0.7,),
    ".clock": ("inner", "trial"),
    ".reset": ("never", "trial"),
    ".learning": (True, False),
    ".model_path": ("x.msgpack", "y.msgpack"),
}
LISTS = (
    ["PPO", "AllC"],
    ["Naive", "PPO"],
    [{"name": "PPO", "gamma": 0.9}, "TitForTat"],
)
VALUES = {
    **PLAIN,
    **{f"agent{i}{key}": values for i in (1, 2) for key, values in OF_AGENTS.items()},
    "agents": LISTS,
    "model_path": ("z.msgpack",),
}
#: Settings that may be options; the command names the runner.
OPTIONS = ("seed", "num_envs", "payoff", "agent1", "agent2", "env", "runner")
#: The other names of settings.
NAMES = {
    "payoff": "env.payoff",
    "num_inner_steps": "env.num_inner_steps",
    "env": "env.id",
    "popsize": "es.population_size",
    "agent1": "agent1.name",
    "agent2": "agent2.name",
}

PAIRS = some.sampled_from(sorted(VALUES)).flatmap(
    lambda key: some.tuples(some.just(key), some.sampled_from(VALUES[key]))
)
EXPERIMENTS = some.sampled_from((None, "ipd/ppo", "ipd/evo_v_evo", "imp/ppo_v_tabular"))


@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(
    EXPERIMENTS,
    some.one_of(some.none(), some.lists(PAIRS, max_size=4)),
    some.lists(PAIRS, max_size=6),
    some.lists(PAIRS.filter(lambda pair: pair[0] in OPTIONS), max_size=3),
)
def test_what_was_accepted_is_in_the_resolved_config(experiment, file, words, options):
    with tempfile.TemporaryDirectory() as folder:
        path = None
        if file is not None:
            path = Path(folder) / "file.yaml"
            path.write_text(yaml.safe_dump(nested(file)))
        typed = [f"{key}={yaml_flow(value)}" for key, value in words]
        typed = [experiment, *typed] if experiment else typed
        try:
            config = load(typed, config_file=path, options=dict(options))
            check_options(config)
        except ValueError:
            return  # The command line says so with exit code 2.
    layers = [*dict(file or ()).items(), *one_list(words), *dict(options).items()]
    wanted: dict[str, Any] = {}
    for key, value in layers:
        wanted |= meant(key, value)
    check_runner(config, wanted, file or (), [*words, *options])
    superseded(wanted, layers)
    assert {key: value_of(config, key) for key in wanted} == wanted


def nested(pairs) -> dict[str, Any]:
    """Returns settings as a file writes them, the last one of each."""
    data: dict[str, Any] = {}
    for key, value in pairs:
        *parents, leaf = key.split(".")
        inner = data
        for parent in parents:
            if not isinstance(inner.get(parent), dict):
                inner[parent] = {"name": inner[parent]} if parent in inner else {}
            inner = inner[parent]
        if isinstance(inner.get(leaf), dict) and not isinstance(value, dict):
            inner[leaf]["id" if leaf == "env" else "name"] = value
        else:
            inner[leaf] = value
    return data


def one_list(words) -> list[tuple[str, Any]]:
    """Returns words without lists of agents that a later one replaces."""
    lists = [i for i, (key, _) in enumerate(words) if key == "agents"]
    return [word for i, word in enumerate(words) if i not in lists[:-1]]


def meant(key: str, value: Any) -> dict[str, Any]:
    """Returns the settings, under their own names, that a key stands for."""
    if key == "agents":
        entries = [e if isinstance(e, dict) else {"name": e} for e in value]
        return {
            f"agent{i}.{name}": option
            for i, entry in enumerate(entries, start=1)
            for name, option in entry.items()
        }
    if key == "model_path":
        return {"agent1.model_path": value}
    return {NAMES.get(key, key): value}


def check_runner(config, wanted, file, command) -> None:
    """True evaluates, false changes nothing, and the command line is above a file."""
    wanted.pop("eval", None)
    runner = wanted.pop("runner", None)
    in_file, on_line = dict(file), dict(command)
    if on_line.get("eval") is True:
        assert config.runner == "eval"
    elif "runner" in on_line:
        assert config.runner == on_line["runner"]
    elif in_file.get("eval") is True and "eval" not in on_line:
        assert config.runner == "eval"
    elif runner is not None:
        assert config.runner == runner


def superseded(wanted, layers) -> None:
    """What is said later of the length of a run stands, and weights that were named."""
    if "total_timesteps" in wanted and "es.num_generations" in wanted:
        keys = [key for key, _ in layers]
        if keys[::-1].index("total_timesteps") < keys[::-1].index("es.num_generations"):
            del wanted["es.num_generations"]


def value_of(config: ExperimentConfig, name: str) -> Any:
    """Returns a setting of a config by its name on the command line."""
    first, _, rest = name.partition(".")
    if first.startswith("agent"):
        agent = config.agents[int(first.removeprefix("agent")) - 1]
        return agent.options[rest] if rest in agent.options else getattr(agent, rest)
    if name == "env.id":
        return config.env.id
    if first == "env":
        return config.env.options[rest]
    value = getattr(config, first)
    return getattr(value, rest) if rest else value


def yaml_flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=500).split("\n")[0]
