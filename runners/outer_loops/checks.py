"""What of an outer loop does not fit together, found without a compile."""

from typing import Any

import jax

from runners.config import ConfigError, ExperimentConfig
from runners.experiment import Experiment
from runners.outer_loops.outer_config import es_config
from runners.outer_loops.search_space import make_space
from runners.outer_loops.unit_search import make_search

#: Settings that outer loops do not have, and the one value that they may have.
_ONLY = {"num_seeds": 1, "num_devices": 1, "fsdp_devices": 1, "eval_interval": 0}


def check(config: ExperimentConfig, experiment: Experiment, params: Any) -> None:
    """Finds what does not fit together.

    Args:
        config: What is to run.
        experiment: Its inner loop.
        params: The game's numbers.

    Raises:
        ConfigError: If a setting, a search target or the strategy does not fit.
    """
    for name, only in _ONLY.items():
        if getattr(config, name) != only:
            raise ConfigError(
                f"{name}={getattr(config, name)} is for `paxrun rl` and `sarl`; "
                f"`paxrun {config.runner}` takes {name}={only}"
            )
    if config.runner != "es":
        if config.search:
            raise ConfigError(
                "search is for `paxrun es`: write runner=es, or take it out"
            )
        return
    agent = experiment.slots[0].agent
    learner = jax.eval_shape(agent.init_state, jax.random.key(0))
    try:
        es = es_config(config.search)
        space = make_space(es, agent, learner, params)
        make_search(es).check(space.shapes(learner, params))
    except ValueError as error:
        raise ConfigError(str(error)) from error
