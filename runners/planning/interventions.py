"""Interventions as a config names them, checked before a compile."""

from collections.abc import Mapping
from typing import Any

import jax

from paxenv.shuffled_players import ShuffledPlayers
from paxenv.wording import counted
from paxenv_agents.agent import Agent
from runners.config import AgentConfig, ConfigError, ExperimentConfig
from runners.config.building import coerce
from runners.config.schema import UNIFORM_STOP, did_you_mean
from runners.engine import interventions
from runners.engine.interventions import (
    STOP,
    BlindGames,
    DrawnNumbers,
    FadingSelfPlay,
    HardStop,
    InTurn,
    LogUniform,
    ObservedGame,
    PayoffShown,
    Uniform,
    UniformStop,
    blind_games,
)

DISTRIBUTIONS = {"uniform": Uniform, "log_uniform": LogUniform}
PAYOFF_DRAWS = {
    "random": interventions.RandomPayoffs,
    "dilemma": interventions.PrisonersDilemmas,
    "noise": interventions.PayoffNoise,
}
#: Settings of an agent that say when, what and from whom it learns.
OF_LEARNING = ("reset", "learning", "stop_after", "sample", "self_play_trials")


def check_runner(config: ExperimentConfig) -> None:
    """Raises ConfigError for what a runner cannot do.

    Who is searched by `evo` does not learn by itself. The play of `sarl` is endless, so
    nothing counts trials, and who plays against its learner is a part of the game.

    Args:
        config: The experiment, in which agents that are searched are marked by `es`.
    """
    if config.kind.evolves:
        searched = "is about learning, and with evo it is searched: leave it out"
        for i, agent in enumerate(config.agents):
            if agent.es is not None:
                _refuse(config, i, OF_LEARNING, searched)
    if config.kind.endless:
        _check_single(config)


def observer(
    where: str, agent: AgentConfig, env: Any, params: Any, num_games: int
) -> InTurn | None:
    """Returns what an agent observes through, None if it sees the game as it is.

    Args:
        where: Its name in the config, for messages.
        agent: The agent, with its players.
        env: The game, with all its players.
        params: Its numbers.
        num_games: Games that are played at once.

    Raises:
        ConfigError: If the game has no payoff, or no START for blind games.
    """
    parts: list[PayoffShown | BlindGames] = []
    if agent.blind_games > num_games:
        raise ConfigError(
            f"{where}.blind_games={agent.blind_games} of "
            f"{counted(num_games, 'game')}: num_envs is how many there are"
        )
    try:
        if agent.blind_games:
            seat = agent.players[0] - 1
            parts.append(blind_games(agent.blind_games, env, params, seat))
        if agent.show_payoff:
            interventions.payoff_field(params)
            parts.append(PayoffShown())
        observed = InTurn(tuple(parts))
        for player in agent.players:
            observed.space(env.observation_space(player - 1), params)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    return observed if parts else None


def observed_game(env: Any, params: Any, observed: InTurn | None) -> Any:
    """Returns the game with the observation spaces of what an agent sees of it."""
    if observed is None:
        return env
    return ObservedGame(
        env, lambda player: observed.space(env.observation_space(player), params)
    )


def sampler(
    where: str, agent: AgentConfig, made: Agent, num_outer_steps: int
) -> DrawnNumbers | None:
    """Returns how an agent's numbers are drawn, None if none are.

    Raises:
        ConfigError: If a number is none of the agent's, or its bounds do not fit.
    """
    draws: dict[str, Uniform | UniformStop] = {}
    known = jax.eval_shape(lambda: made.init_state(jax.random.key(0))).hyper
    for name, value in agent.sample.items():
        if name not in known:
            raise ConfigError(
                f"{where}.sample: {agent.name} learns with no {name!r}"
                f"{did_you_mean(name, known)} Its numbers: "
                f"{', '.join(known) or 'none'}"
            )
        draws[name] = _distribution(f"{where}.sample.{name}", value)
    if agent.stop_after == UNIFORM_STOP:
        draws[STOP] = UniformStop(num_outer_steps)
    return DrawnNumbers(tuple(sorted(draws.items()))) if draws else None


def schedule(where: str, agent: AgentConfig, num_outer_steps: int) -> HardStop | None:
    """Returns when an agent stops learning within a trial, None if it does not.

    Raises:
        ConfigError: If it does not learn within a trial, or the number is too large.
    """
    if agent.stop_after is None:
        return None
    if agent.clock != "inner" or num_outer_steps == 1 or not agent.learning:
        raise ConfigError(
            f"{where}.stop_after={agent.stop_after} is for an agent that learns within "
            f"a trial: set {where}.clock=inner and num_outer_steps to 2 or more"
        )
    if agent.stop_after == UNIFORM_STOP:
        return HardStop()
    after = int(agent.stop_after)
    if not 0 <= after <= num_outer_steps:
        raise ConfigError(
            f"{where}.stop_after must be uniform or in [0, {num_outer_steps}], the "
            f"inner episodes of a trial, got {after}"
        )
    return HardStop(after)


def payoff_sampler(
    config: ExperimentConfig, env: Any, params: Any
) -> interventions.PayoffSampler | None:
    """Returns what draws the payoffs of a trial, None for the game's own.

    Raises:
        ConfigError: If the game's payoff cannot be drawn so.
    """
    given = config.payoff_sampler
    if given is None:
        return None
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
        axis = (
            -1
            if players is None
            else interventions.player_axis(env.num_players, params)
        )
    except ValueError as error:
        raise ConfigError(f"payoff_sampler: {error}") from error
    return interventions.PayoffSampler(draw, players, axis)


def self_play(
    where: str, agent: AgentConfig, env: Any
) -> tuple[tuple[int, ...], FadingSelfPlay | None]:
    """Returns (players, from 0, that an agent plays instead of others, how often).

    Raises:
        ConfigError: If it cannot play them, since they see or do something else.
    """
    if not agent.self_play_trials:
        return (), None
    own = agent.players[0] - 1
    others = tuple(p for p in range(env.num_players) if p + 1 not in agent.players)
    for player in others:
        for space in (env.observation_space, env.action_space):
            if space(player) != space(own):
                raise ConfigError(
                    f"{where}.self_play_trials: player {player + 1} has "
                    f"{space(player)}, {agent.name} {space(own)}"
                )
    if not others:
        raise ConfigError(f"{where}.self_play_trials: it plays everybody already")
    return others, FadingSelfPlay(agent.self_play_trials)


def shuffled(config: ExperimentConfig, env: Any) -> Any:
    """Returns the game, with seats drawn for every trial if the config asks for it.

    Raises:
        ConfigError: If its players are not alike.
    """
    if not config.shuffle_players:
        return env
    try:
        return ShuffledPlayers(env)
    except ValueError as error:
        raise ConfigError(f"shuffle_players: {error}") from error


def _check_single(config: ExperimentConfig) -> None:
    rl = "use `paxrun rl`"
    who = config.runner
    counts = f"counts trials, and {who} plays without an end: {rl}"
    part = f"is for a player, and with {who} the others are a part of the game: {rl}"
    of_trials = ("clock", "reset", "stop_after", "self_play_trials")
    for i in range(len(config.agents)):
        _refuse(config, i, of_trials, counts)
        if i > 0:
            _refuse(config, i, ("sample", "show_payoff", "blind_games"), part)
    if config.payoff_sampler is not None:
        raise ConfigError(
            f"payoff_sampler draws payoffs for trials, and {who} plays without an end: "
            f"{rl}"
        )


def _refuse(
    config: ExperimentConfig, index: int, keys: tuple[str, ...], why: str
) -> None:
    """Raises ConfigError if an agent has any of these settings."""
    default = AgentConfig("")
    for key in keys:
        if getattr(config.agents[index], key) != getattr(default, key):
            raise ConfigError(f"agent{index + 1}.{key} {why}")


def _distribution(where: str, value: Any) -> Uniform:
    """Returns the distribution that `{log_uniform: [1e-5, 1]}` names."""
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ConfigError(
            f"{where} must be one distribution, such as {{log_uniform: [1e-5, 1]}} or "
            f"{{uniform: [0, 1]}}, got {value!r}"
        )
    ((name, bounds),) = value.items()
    if name not in DISTRIBUTIONS:
        raise ConfigError(
            f"{where}: there is no distribution {name!r}"
            f"{did_you_mean(name, DISTRIBUTIONS)} Known: {', '.join(DISTRIBUTIONS)}"
        )
    low, high = coerce(bounds, tuple[float, float], f"{where}.{name}")
    try:
        return DISTRIBUTIONS[name](low, high)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
