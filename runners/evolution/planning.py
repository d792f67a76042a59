"""From a config's agents and `es` to the searches of an `Evolution`."""

import dataclasses

from runners.config.schema import AgentConfig, ConfigError
from runners.config.sections import build_es
from runners.evolution.options import SHARED, ESOptions, renamed
from runners.evolution.outer import Evolution
from runners.evolution.search import Search

#: Evaluations of a run, unless its config says how often.
NUM_EVALUATIONS = 20
#: Opponents of an evaluation, at least: a trial against one says little.
MIN_EVALUATED_OPPONENTS = 16


def evolution(
    agents: tuple[AgentConfig, ...], options: ESOptions
) -> tuple[tuple[AgentConfig, ...], Evolution]:
    """Returns the agents and the evolution.

    Agents that are searched are marked by `es`; others who learn do so on the inner
    clock, since they start anew in each trial.

    Raises:
        ValueError: If an option is unknown, or a strategy cannot do what is asked.
    """
    if all(agent.es is None for agent in agents):
        agents = (dataclasses.replace(agents[0], es={}), *agents[1:])
    searches = tuple(
        None if agent.es is None else _search(f"agent{i + 1}.es", agent, options)
        for i, agent in enumerate(agents)
    )
    agents = tuple(dataclasses.replace(agent, clock="inner") for agent in agents)
    return agents, Evolution(
        searches=searches,
        objective=options.objective,
        common_random_numbers=options.common_random_numbers,
        opponent=options.opponent,
    )


def _search(where: str, agent: AgentConfig, options: ESOptions) -> Search:
    own = renamed(agent.es or {}, where)
    for name in own:
        if name in SHARED:
            raise ConfigError(
                f"{where}.{name} is the same for all who are searched: set es.{name}"
            )
    every = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    every |= every.pop("options")
    if "strategy" in own:
        # What was said about one strategy says nothing about another.
        every = {name: every[name] for name in SHARED}
    return Search(build_es({**every, **own}, where))
