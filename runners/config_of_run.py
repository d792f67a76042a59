"""The config that evaluates what a training run left."""

from collections.abc import Mapping, Sequence
from typing import Any

from runners.config import AgentConfig, ExperimentConfig, load
from runners.config.loader import load_on_run
from runners.run_dir import RunDir


def config_of_run(
    run_dir: str, words: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> ExperimentConfig:
    """Returns the config that evaluates a run's agents in the run's own game.

    Every learner starts from the weights that the run left for it, seed by seed, apart
    from those that learn within each trial, which they begin afresh.

    Args:
        run_dir: A run directory.
        words: `KEY=VALUE` on top of the run's config.
        options: Settings by key on top of these, as in `load`.

    Raises:
        ConfigError: If the folder is not a run's, or a setting does not fit.
    """
    run = RunDir.open(run_dir)
    saved = load(config_file=run.config)
    changes: dict[str, Any] = {"save_dir": None}
    for i, agent in enumerate(saved.agents, start=1):
        searched = saved.runner == "evo" and agent.es is not None
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
    return load_on_run(run.config, changes, words, settings)


def _starts_anew(agent: AgentConfig, config: ExperimentConfig) -> bool:
    """Whether an agent learns within each trial, from nothing."""
    return agent.clock == "inner" and (agent.reset == "trial" or config.runner == "evo")
