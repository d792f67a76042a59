"""The game of a config: its options, its payoffs and its number of players."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import paxenv
from paxenv import keys
from paxenv.payoff_parser import PayoffError
from paxenv.registry import GameSpec, OptionError, UnknownOptionError
from paxenv.shuffled_players import ShuffledPlayers
from paxenv.single_player import CO_PLAYER_SEED, SinglePlayer
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from runners.config import AgentConfig, ConfigError, ExperimentConfig
from runners.config.building import coerce
from runners.config.schema import PayoffSamplerConfig
from runners.engine import interventions
from runners.engine.interventions import FIELDS
from runners.planning.saved import saved_params

#: Options of a game that decide its length.
STEP_OPTIONS = ("num_inner_steps", "num_outer_steps")
PAYOFF_DRAWS = {
    "random": interventions.RandomPayoffs,
    "dilemma": interventions.PrisonersDilemmas,
    "noise": interventions.PayoffNoise,
}


def make_game(
    game: GameSpec, options: Mapping[str, Any]
) -> tuple[Any, Any, tuple[str, ...]]:
    """Returns (env, params, notices) of a game, given options as in a config."""
    options = dict(options)
    for name in STEP_OPTIONS:
        if name in options:
            options[name] = coerce(options[name], int, f"env.{name}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            env, params = paxenv.make(game.id, **options)
        except OptionError as error:
            raise ConfigError(f"env.{error}", f"env.{error.option}") from error
        except UnknownOptionError as error:
            raise ConfigError(str(error), f"env.{error.option}") from error
        except PayoffError as error:
            raise ConfigError(str(error), "env.payoff") from error
    notices = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return env, params, tuple(dict.fromkeys(notices))


def payoff_table(params: Any) -> np.ndarray | None:
    """Returns a game's payoff numbers, None for a game without a payoff."""
    for name in FIELDS:
        payoff = getattr(params, name, None)
        if payoff is not None:
            return np.asarray(payoff)
    return None


def payoff_sampler(
    given: PayoffSamplerConfig, env: Any, params: Any
) -> interventions.PayoffSampler:
    """Returns the sampler of a trial's payoffs.

    Raises:
        ConfigError: If the sampler does not suit the game's payoff.
    """
    try:
        shape = interventions.payoff_of(params).shape
        if given.kind == "dilemma" and (env.num_players != 2 or shape[-1:] != (2,)):
            raise ValueError(
                f"{env.name} is no game of two players with two actions each"
            )
        if given.kind == "dilemma" and shape not in ((4, 2), (2, 2, 2)):
            raise ValueError(f"a payoff of shape {shape} is not of two actions each")
        players = tuple(player - 1 for player in given.players) or None
        if players is not None and max(players) >= env.num_players:
            raise ValueError(
                f"players must be 1 to {env.num_players}, got {list(given.players)}"
            )
        draw = PAYOFF_DRAWS[given.kind](given.low, given.high)
        axis = -1
        if players is not None:
            axis = interventions.player_axis(env.num_players, params)
    except ValueError as error:
        raise ConfigError(f"payoff_sampler: {error}") from error
    return interventions.PayoffSampler(draw, players, axis)


def shuffled(env: Any) -> Any:
    """Returns the game with seats that are drawn for every trial.

    Raises:
        ConfigError: If its players are not interchangeable.
    """
    try:
        return ShuffledPlayers(env)
    except ValueError as error:
        raise ConfigError(f"shuffle_players: {error}") from error


def one_player_game(
    config: ExperimentConfig, env: Any, params: Any, slots: Sequence[Slot]
) -> tuple[Any, Any]:
    """Returns (env, params) of a one-player game that contains the other agents.

    A game of one player is returned unchanged. Learners among the other agents do not
    learn; they play the weights that their `model_path` names.

    Args:
        config: The experiment, with every player seated.
        env: The game.
        params: Its numbers.
        slots: The agents in their seats, in the order of the config.

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
    for slot, entry in zip(slots[1:], config.agents[1:], strict=True):
        state = _state(config.runner, slot.agent, entry)
        seats |= dict.fromkeys(slot.players, (slot.agent, state))
    others = [seats[p] for p in range(1, env.num_players)]
    game = SinglePlayer(env, 0, tuple(agent for agent, _ in others))
    return game, game.make_params(params, [state for _, state in others])


def _state(runner: str, agent: Agent, entry: AgentConfig) -> Any:
    """Returns the training state with which an agent plays as a part of the game."""
    seat = entry.players[0] - 1
    state = agent.init_state(keys.player(jax.random.key(CO_PLAYER_SEED), seat))
    if not agent.learns:
        return state
    if entry.model_path is None:
        raise ConfigError(
            f"player {seat + 1} is {entry.name}, which has learnt nothing: with "
            f"{runner} only player 1 learns. Give agent2.model_path=FILE, or "
            "train both with `paxrun rl`"
        )
    params = saved_params(entry, agent)[0]
    return state.replace(params=jax.tree.map(jnp.asarray, params))
