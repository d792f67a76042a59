"""Makes the searches of an `Evolution` from a config's agents and `es`."""

import dataclasses
from typing import Any

from runners.config.building import coerce
from runners.config.schema import AgentConfig, ConfigError, ExperimentConfig
from runners.search import strategies
from runners.search.evolution import Evolution
from runners.search.options import SHARED, ESOptions, option_types, renamed
from runners.search.search import Search

#: The fewest opponents of an evaluation: a trial against one is a noisy estimate.
MIN_EVALUATED_OPPONENTS = 16


def evolution(
    agents: tuple[AgentConfig, ...], options: ESOptions
) -> tuple[tuple[AgentConfig, ...], Evolution]:
    """Returns the agents and the evolution.

    Agents that are searched are marked by `es`, which holds all options of their search
    that differ from the run's. Other learners update on the inner clock, since they
    get a new training state in each trial.

    Raises:
        ValueError: If an option is unknown, or a strategy cannot serve it.
    """
    if all(agent.es is None for agent in agents):
        agents = (dataclasses.replace(agents[0], es={}), *agents[1:])
    own = {
        i: _own_options(f"agent{i + 1}.es", agent)
        for i, agent in enumerate(agents)
        if agent.es is not None
    }
    merged = {i: _merged(options, given) for i, given in own.items()}
    _check_used(options, [search["strategy"] for search in merged.values()])
    searches = tuple(
        Search(coerce(merged[i], ESOptions, f"agent{i + 1}.es"))
        if i in merged
        else None
        for i in range(len(agents))
    )
    agents = tuple(
        dataclasses.replace(
            agent,
            clock="inner",
            es=_shown(own[i], merged[i]) if i in merged else None,
        )
        for i, agent in enumerate(agents)
    )
    return agents, Evolution(
        searches=searches,
        objective=options.objective,
        common_random_numbers=options.common_random_numbers,
        opponent=options.opponent,
    )


def without_leftovers(config: ExperimentConfig) -> ESOptions:
    """Returns the run's options without those of a strategy that no search uses.

    If the user named the strategy of an agent's own search, options of a stored
    experiment that no search can use are dropped with the strategy that they were for.
    """
    searched = [
        (f"agent{i}.es.strategy", agent.es.get("strategy", config.es.strategy))
        for i, agent in enumerate(config.agents, start=1)
        if agent.es is not None
    ]
    if not any(config.origin(name).typed for name, _ in searched):
        return config.es
    left = {
        name
        for name, value in _given(config.es).items()
        if name != "strategy" and not config.origin(f"es.{name}").typed
        if all(strategies.refusal(each, name, value) for _, each in searched)
    }
    own = {k: v for k, v in config.es.options.items() if k not in left}
    unset = {k: getattr(ESOptions(), k) for k in left if k in option_types()}
    return dataclasses.replace(config.es, options=own, **unset)


def _own_options(where: str, agent: AgentConfig) -> dict[str, Any]:
    own = renamed(agent.es or {}, where)
    for name in own:
        if name in SHARED:
            raise ConfigError(
                f"{where}.{name} is the same for all searched agents: set es.{name}"
            )
    return own


def _given(options: ESOptions) -> dict[str, Any]:
    """Returns the run's options of one search that differ from the defaults."""
    default = ESOptions()
    fields = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    own = fields.pop("options")
    said = {k: v for k, v in fields.items() if v != getattr(default, k)}
    return {k: v for k, v in {**said, **own}.items() if k not in SHARED}


def _merged(options: ESOptions, own: dict[str, Any]) -> dict[str, Any]:
    """Returns the run's options with those of one search on top.

    A search with another strategy takes only the options that its strategy can use.
    """
    every = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    every |= every.pop("options")
    if "strategy" in own:
        for name, value in _given(options).items():
            if strategies.refusal(own["strategy"], name, value) is not None:
                every[name] = getattr(ESOptions(), name, None)
        every = {k: v for k, v in every.items() if k in option_types() or v is not None}
    return {**every, **own}


def _check_used(options: ESOptions, names: list[str]) -> None:
    """Raises ConfigError if no search can use an option of the run."""
    for name, value in _given(options).items():
        reasons = [strategies.refusal(strategy, name, value) for strategy in names]
        if name != "strategy" and all(reasons):
            raise ConfigError(str(reasons[0]))


def _shown(own: dict[str, Any], merged: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a search that differ from the run's, for the config."""
    if "strategy" not in own:
        return own
    return {k: v for k, v in merged.items() if k not in SHARED if v is not None}
