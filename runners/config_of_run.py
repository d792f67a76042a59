"""The config that evaluates what a training run left."""

from collections.abc import Mapping, Sequence
from typing import Any

from runners.config import AgentConfig, ExperimentConfig, load
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
    start = []
    for i, agent in enumerate(saved.agents, start=1):
        searched = saved.runner == "evo" and agent.es is not None
        if searched:
            # What was searched does not learn by itself.
            start.append(f"agent{i}.learning=false")
        elif _starts_anew(agent, saved):
            continue
        if run.model(agent.players[0]).is_file():
            start.append(f"agent{i}.model_path={run.path}")
    settings = {"runner": "eval", "save_dir": None, **(options or {})}
    words = [*start, "save_dir=null", *words]
    return load(words, config_file=run.config, options=settings)


def _starts_anew(agent: AgentConfig, config: ExperimentConfig) -> bool:
    """Whether an agent learns within each trial, from nothing."""
    return agent.clock == "inner" and (agent.reset == "trial" or config.runner == "evo")
