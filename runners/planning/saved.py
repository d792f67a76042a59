"""The weights that a config names: their files and their agents."""

import dataclasses
from pathlib import Path
from typing import Any

from paxenv.paths import local_path
from paxenv_agents import weights
from paxenv_agents.agent import Agent
from paxenv_agents.registry import find, same
from runners.config import AgentConfig, ConfigError
from runners.config.building import hashable
from runners.planning.seating import Seat, defaults, option_types
from runners.storage.metrics_log import MODEL
from runners.storage.places import import_wandb
from runners.storage.run_dir import RunDir


def model_files(agent: AgentConfig) -> list[Path]:
    """Returns the files of an agent's weights, one for each seed that was trained.

    `model_path` is a file, which serves all seeds, or a run directory: then seed i
    takes the weights of the run's seed i (cyclically) for the same player.

    Raises:
        ConfigError: If there is none.
    """
    if agent.run_path is not None:
        return [download(agent.run_path, str(agent.model_path))]
    path = local_path(str(agent.model_path))
    if not path.is_dir():
        if not (path.is_file() or path.with_name(f"{path.name}.msgpack").is_file()):
            raise ConfigError(f"model_path {path}: there is no such file")
        return [path]
    run = RunDir.open(path)
    num_seeds = run.read_meta()["num_seeds"]
    files = [run.model(agent.players[0], seed) for seed in range(num_seeds)]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise ConfigError(f"the run {path} holds no {', '.join(missing)}")
    return files


def download(run_path: str, model_path: str) -> Path:
    """Returns the local copy of a saved agent of a Weights & Biases run.

    It is in the newest model that the run logged, or among the files that were saved
    with the run.

    Args:
        run_path: `entity/project/run`.
        model_path: The file in the run directory, such as `models/player1`.

    Raises:
        ConfigError: If the package is missing or the run has no such file.
    """
    wandb = import_wandb()
    wanted = local_path(model_path).with_suffix(".msgpack")
    for name in (wanted.with_suffix(".json"), wanted):
        try:
            path = _from_model(wandb, run_path, name) or _from_files(
                wandb, run_path, name
            )
        except Exception as error:
            # The package raises many types; each means that there is no file.
            raise ConfigError(f"cannot get {name} of {run_path}: {error}") from error
        if path is None:
            raise ConfigError(f"the run {run_path} holds no {name}")
    return path


def _from_model(wandb: Any, run_path: str, name: Path) -> Path | None:
    logged = wandb.Api().run(run_path).logged_artifacts()
    models = [artifact for artifact in logged if artifact.type == MODEL]
    entry = name.as_posix().removeprefix("models/")
    for artifact in sorted(models, key=lambda a: a.created_at, reverse=True):
        if entry in artifact.manifest.entries:
            return Path(artifact.get_entry(entry).download())
    return None


def _from_files(wandb: Any, run_path: str, name: Path) -> Path | None:
    restored = wandb.restore(name.as_posix(), run_path=run_path)
    return None if restored is None else Path(restored.name)


def saved_params(agent: AgentConfig, made: Agent) -> list[Any]:
    """Returns the parameters that an agent's `model_path` names, one for each file.

    Raises:
        ConfigError: If a file is missing or belongs to another agent.
    """
    try:
        files = model_files(agent)
        saved = weights.describe_agent(files[0])["agent"]
        if not same(saved, agent.name):
            raise ConfigError(
                f"model_path of {agent.name} (player {agent.players[0]}): "
                f"{agent.model_path} holds {saved}"
            )
        return [weights.load_params(path, made) for path in files]
    except (weights.WeightsError, FileNotFoundError) as error:
        raise ConfigError(f"model_path of {agent.name}: {error}") from error


def saved_record(agent: AgentConfig) -> dict[str, Any]:
    """Returns the record beside an agent's weights: its name and its options."""
    try:
        return weights.describe_agent(model_files(agent)[0])
    except (weights.WeightsError, FileNotFoundError) as error:
        raise ConfigError(f"model_path of {agent.name}: {error}") from error


def as_saved(seat: Seat) -> tuple[AgentConfig, str | None]:
    """Returns (the agent of the saved weights, a notice for the user).

    The agent has the options that it was trained with, except for those that were set
    for this run; as for any agent, defaults are left out.

    Raises:
        ConfigError: If the user named another agent.
    """
    agent, where, config = seat.agent, seat.where, seat.config
    record = saved_record(agent)
    saved, named = record["agent"], config.origin(f"{where}.name")
    settings: dict[str, Any] = {"name": saved}
    notice = None
    if saved != agent.name and (named.typed or not config.origins):
        if not same(saved, agent.name):
            raise ConfigError(_other_weights(seat, saved))
        settings = {}
    elif saved != agent.name:
        notice = f"{where} is {saved}, not {agent.name}: {agent.model_path} holds it"
    agent_class = find(saved).load()
    types = option_types(agent_class, config.kind)
    if types is not None:
        usual = defaults(agent_class)
        own = {
            k: v
            for k, v in hashable(record["config"]).items()
            if k in types and (k in agent.options or k not in usual or v != usual[k])
        }
        stored = saved != agent.name or config.origins
        typed = {
            k: v
            for k, v in agent.options.items()
            if not stored or config.origin(f"{where}.{k}").typed
        }
        settings["options"] = {**own, **typed}
    return dataclasses.replace(agent, **settings), notice


def check_weights(seat: Seat) -> None:
    """Raises ConfigError if a learner would start from the weights of another agent.

    Weights at Weights & Biases and missing ones are not checked here: a resumed run
    needs none, and any other run loads them later.
    """
    if seat.agent.run_path is not None:
        return
    try:
        saved = saved_record(seat.agent)["agent"]
    except ConfigError:
        return
    if not same(saved, seat.agent.name):
        raise ConfigError(_other_weights(seat, saved))


def _other_weights(seat: Seat, saved: str) -> str:
    """Returns the message about weights of another agent than the one named."""
    agent, where, config = seat.agent, seat.where, seat.config
    said = (
        f"{where} is {agent.name}{config.origin(f'{where}.name').said}, but "
        f"{agent.model_path} holds {saved}: write {where}={saved}"
    )
    fit = [i for i, a in enumerate(config.agents, start=1) if a.name == saved]
    return f"{said}, or player={fit[0]}, who is {saved}" if fit else said
