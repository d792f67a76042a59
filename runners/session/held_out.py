"""A finished run's agents against co-players that they were not trained with."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paxenv_agents.registry import same
from runners.config import AgentConfig, ConfigError, ExperimentConfig, load
from runners.config.loader import load_on_run
from runners.config.reading import read_words, split_words
from runners.engine.rows import FINITE
from runners.engine.statistics import Estimate, estimates
from runners.planning.plan import Plan, prepare
from runners.session.evaluation import play_once
from runners.session.training import program_of
from runners.storage.checkpoints.files import saved_steps
from runners.storage.run_dir import RunDir


def config_of_run(
    run_dir: str, words: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> ExperimentConfig:
    """Returns the config that evaluates a run's agents in the run's own game.

    Every learner starts from the weights that the run saved for it, seed by seed,
    except for learners within trials, which begin every trial with new weights.

    Args:
        run_dir: A run directory.
        words: `KEY=VALUE` on top of the run's config.
        options: Settings by key on top of these, as in `load`.

    Raises:
        ConfigError: If the folder is not a run's, a setting does not fit, or none of
            the run's agents plays.
    """
    run = RunDir.open(run_dir)
    saved = load(config_file=run.config)
    changes: dict[str, Any] = {"save_dir": None, "runner": "eval"}
    for i, agent in enumerate(saved.agents, start=1):
        searched = saved.kind.evolves and agent.es is not None
        start: dict[str, Any] = {}
        if searched:
            # What was searched does not learn by itself.
            start["learning"] = False
        elif _starts_anew(agent, saved):
            continue
        if run.model(agent.players[0]).is_file():
            start["model_path"] = str(run.path)
        if start:
            changes[f"agent{i}"] = start
    settings = {"runner": "eval", **(options or {})}
    config = load_on_run(run.config, changes, words, settings)
    _check_plays(run, saved, config)
    return config


def _check_plays(
    run: RunDir, saved: ExperimentConfig, config: ExperimentConfig
) -> None:
    """Raises ConfigError if other agents replace all agents of a run."""
    pairs = list(zip(saved.agents, config.agents, strict=False))
    if pairs and not any(same(before.name, now.name) for before, now in pairs):
        others = " and ".join(now.name for _, now in pairs)
        own = " and ".join(before.name for before, _ in pairs)
        raise ConfigError(
            f"{run.path} is a run of {own}, none of whom plays here, but {others}: "
            "keep one of its agents, or leave the run out"
        )


def unfinished(run_dir: str) -> str | None:
    """Returns a notice about the weights of a run that has not finished."""
    run = RunDir.open(run_dir)
    status = run.read_meta().get("status")
    if status == "finished":
        return None
    step = run.read_results().get("env_steps_per_seed")
    said = f"the run {run.path} has not finished (it is {status}): "
    if step is None or not any(run.models.glob("player*.msgpack")):
        said += "it has left no weights"
        step = 0
    else:
        said += f"its weights are of step {step:_}"
    newer = [str(s) for s in saved_steps(run.checkpoints) if s > step]
    if newer:
        said += (
            f". Checkpoints of later steps are there ({', '.join(newer)}): `paxrun "
            "resume` goes on from them, `paxrun ckpt export` writes their weights"
        )
    return said


def _starts_anew(agent: AgentConfig, config: ExperimentConfig) -> bool:
    """Whether an agent learns within each trial, from nothing."""
    return agent.clock == "inner" and (agent.reset == "trial" or config.kind.evolves)


AS_TRAINED = "as trained"


@dataclasses.dataclass(frozen=True)
class Variation:
    """One change from training, and how the agents fare.

    Attributes:
        setting: `KEY=VALUE` words, or `AS_TRAINED`.
        plan: The plan of the evaluation.
        metrics: The game's metrics over seeds; empty before it was played.
    """

    setting: str
    plan: Plan
    metrics: dict[str, Estimate] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        metrics = {name: value.as_dict() for name, value in self.metrics.items()}
        return {"setting": self.setting, "metrics": metrics}


def variations(
    run_dir: str | Path, vary: Sequence[str], words: Sequence[str] = (), **options: Any
) -> tuple[Variation, ...]:
    """Returns the plans of a run as trained, and with each change by itself.

    Args:
        run_dir: A finished run.
        vary: One text of `KEY=VALUE` words for each change, such as
            `agent2.learning_rate=0.1` or `agent2=Naive agent2.learning_rate=1`. Spaces
            within brackets and quotes belong to a value.
        words: `KEY=VALUE` for all of them.
        options: Settings by key for all of them.

    Raises:
        ConfigError: If a setting does not fit; nothing has been played then.
    """
    found = []
    for setting in (AS_TRAINED, *vary):
        changed = [] if setting == AS_TRAINED else split_words(setting)
        empty = setting != AS_TRAINED and not changed
        if empty or read_words(changed).experiment is not None:
            raise ConfigError(f"--vary {setting!r}: changes are written KEY=VALUE")
        config = config_of_run(
            str(run_dir), [*words, *changed], {"runner": "eval", **options}
        )
        found.append(Variation(setting, prepare(config)))
    return tuple(found)


def played(variation: Variation) -> Variation:
    """Returns a variation with its metrics, after one evaluation of every seed."""
    metrics, _ = play_once(program_of(variation.plan))
    metrics = {name: v for name, v in metrics.items() if name != FINITE}
    return dataclasses.replace(variation, metrics=estimates(metrics))
