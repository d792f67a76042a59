"""`sarl`: one agent learns, the others are a part of its game."""

from typing import Any

import jax
import jax.numpy as jnp

from paxenv import keys
from paxenv.single_player import CO_PLAYER_SEED, SinglePlayer
from paxenv_agents.agent import Agent
from runners.config import ConfigError, ExperimentConfig
from runners.model_source import saved_params


def make_game(
    config: ExperimentConfig, env: Any, params: Any, made: list[Agent]
) -> tuple[Any, Any]:
    """Returns (env, params) of one player, with the others inside.

    A game of one player is returned as it is. Learners among the others do not learn;
    they play the weights that their `model_path` names.

    Args:
        config: The experiment, with every player seated.
        env: The game.
        params: Its numbers.
        made: The agents, in the order of the config.

    Raises:
        ConfigError: If player 1 is not alone in the first seat, does not learn, or
            another learner has no weights.
    """
    first = config.agents[0]
    if first.players != (1,):
        raise ConfigError(
            f"{config.runner} trains player 1, the first agent plays "
            f"{list(first.players)}: `paxrun rl` trains several players"
        )
    if config.num_opponents > 1:
        raise ConfigError(
            f"num_opponents={config.num_opponents} is for `paxrun rl`: with "
            f"{config.runner} nobody else learns"
        )
    if env.num_players == 1:
        return env, params
    seats: dict[int, tuple[Agent, Any]] = {}
    for agent, config_agent in zip(made[1:], config.agents[1:], strict=True):
        state = _state(config, agent, config_agent)
        seats |= {player - 1: (agent, state) for player in config_agent.players}
    others = [seats[p] for p in range(1, env.num_players)]
    game = SinglePlayer(env, 0, tuple(agent for agent, _ in others))
    return game, game.make_params(params, [state for _, state in others])


def _state(config: ExperimentConfig, agent: Agent, config_agent: Any) -> Any:
    seat = config_agent.players[0] - 1
    state = agent.init_state(keys.player(jax.random.key(CO_PLAYER_SEED), seat))
    if not agent.learns:
        return state
    if config_agent.model_path is None:
        raise ConfigError(
            f"player {seat + 1} is {config_agent.name}, which has learnt nothing: with "
            f"{config.runner} only player 1 learns. Give agent2.model_path=FILE, or "
            "train both with `paxrun rl`"
        )
    params = saved_params(config_agent, agent)[0]
    return state.replace(params=jax.tree.map(jnp.asarray, params))
