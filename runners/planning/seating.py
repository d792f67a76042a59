"""Who sits where: agents by name and options, made for their seats."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from paxenv import options
from paxenv.registry import GameSpec
from paxenv.wording import counted
from paxenv_agents import registry
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from runners.config import DEFAULT_LEARNER, AgentConfig, ConfigError, ExperimentConfig
from runners.config.building import coerce, hashable
from runners.config.schema import did_you_mean
from runners.engine.interventions import InTurn
from runners.kinds import KINDS, RunnerKind
from runners.planning import interventions
from runners.planning.saved import saved_record

#: Options of learners that a run decides, and what to write instead.
RUN_SETTINGS = {
    "num_envs": "num_envs=VALUE",
    "n_steps": "num_inner_steps=VALUE",
    "num_updates": "total_timesteps=VALUE",
    "greedy": "deterministic=true",
}


def run_settings(kind: RunnerKind) -> set[str]:
    """Returns the options of learners that a run decides.

    In endless play the length of a rollout is an agent's own.
    """
    return RUN_SETTINGS.keys() - ({"n_steps"} if kind.endless else set())


def seated(
    agents: tuple[AgentConfig, ...], game: GameSpec, num_players: int
) -> tuple[AgentConfig, ...]:
    """Returns the agents with their players filled in, every player seated once.

    Players for whom nobody is named are played by the game's usual opponent.
    """
    agents = agents or (AgentConfig(DEFAULT_LEARNER),)
    taken = {player for agent in agents for player in agent.players}
    free = [p for p in range(1, num_players + 1) if p not in taken]
    filled = []
    for agent in agents:
        if not agent.players:
            if not free:
                raise ConfigError(_no_seat(agents, len(filled), game, num_players))
            agent = dataclasses.replace(agent, players=(free.pop(0),))
        filled.append(agent)
    filled += [AgentConfig(game.opponent, players=(player,)) for player in free]
    seats = sorted(player for agent in filled for player in agent.players)
    if seats != list(range(1, num_players + 1)):
        raise ConfigError(
            f"players must be 1 to {num_players} of {game.id}, each once, got {seats}"
        )
    return tuple(filled)


def _no_seat(
    agents: tuple[AgentConfig, ...], index: int, game: GameSpec, num_players: int
) -> str:
    """Returns the message about an agent for whom no seat is left."""
    several = [
        f"agent{i} plays {list(agent.players)}"
        for i, agent in enumerate(agents, start=1)
        if len(agent.players) > 1
    ]
    names = ", ".join(agent.name or "one without a name" for agent in agents)
    why = f": {' and '.join(several)}" if several else ""
    return (
        f"{game.id} has {counted(num_players, 'player')}, got "
        f"{counted(len(agents), 'agent')}: {names}; no seat is left for "
        f"agent{index + 1}{why}"
    )


def make_agent(
    index: int,
    agent: AgentConfig,
    env: Any,
    config: ExperimentConfig,
) -> Agent:
    """Returns an agent made for its seat.

    Args:
        index: Its place in the config, for messages.
        agent: The agent, with its players.
        env: The game as the agent sees it, with all its players.
        config: The experiment.

    Raises:
        PairingError: If the agent cannot play the seat; names those that can.
        ValueError: If an option is unknown or refused.
    """
    where = f"agent{index + 1}"
    given = agent_options(index, config)
    if plays_weights(index, agent, config):
        given = {**saved_record(agent)["config"], **given}
    try:
        return registry.make_agent(
            agent.name, env, player=agent.players[0] - 1, **given
        )
    except registry.PairingError:
        raise
    except registry.MissingOptionsError as error:
        words = " ".join(f"{where}.{option}=VALUE" for option in error.missing)
        raise ConfigError(
            f"{where}: {agent.name} needs {' and '.join(error.missing)}: write {words}"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{where} ({agent.name}): {error}") from error


def make_slot(
    index: int,
    agent: AgentConfig,
    made: Agent,
    env: Any,
    config: ExperimentConfig,
    num_steps: int | None,
    observed: InTurn | None = None,
) -> Slot:
    """Returns the slot of one agent.

    Args:
        index: Its place in the config.
        agent: The agent, with its players.
        made: The agent, made for its seat.
        env: The game that is played; that of `sarl` has one player.
        config: The experiment.
        num_steps: Steps of an iteration in endless streams, None for trials.
        observed: What the agent sees the game through.

    Raises:
        ValueError: If a batch does not split, or an intervention does not fit.
    """
    players = tuple(player - 1 for player in agent.players)
    if config.kind.evolves and agent.es is not None:
        return Slot(agent=made, players=players, clock="none", observe=observed)
    where = f"agent{index + 1}"
    afresh = config.kind.evolves and made.learns and agent.learning
    self_play_players, self_play_prob = interventions.self_play(where, agent, env)
    slot = Slot(
        agent=made,
        players=players,
        clock=agent.clock if agent.learning else "none",
        reset="trial" if afresh and agent.reset == "never" else agent.reset,
        sampler=interventions.sampler(where, agent, made, env.num_outer_steps),
        schedule=interventions.schedule(where, agent, env.num_outer_steps),
        observe=observed,
        self_play_players=self_play_players,
        self_play_prob=self_play_prob,
    )
    if not config.kind.trains and not learns_within_a_trial(slot, env):
        return without_learning(slot, config.deterministic)
    # Who learns within the trials of others is an opponent, also in the first place.
    opponent = index > 0 or not config.kind.needs_a_learner
    apart = slot.learns and config.num_opponents > 1 and opponent
    slot = dataclasses.replace(slot, per_opponent=apart)
    _check_batch(slot, env, config, num_steps)
    return slot


def learns_within_a_trial(slot: Slot, env: Any) -> bool:
    """Whether a slot learns at inner boundaries: then it does in evaluations too."""
    return slot.learns and slot.clock == "inner" and env.num_outer_steps > 1


def evaluated(slot: Slot, env: Any, deterministic: bool) -> Slot:
    """Returns a slot as an evaluation plays it in the middle of training.

    One that learns within a trial goes on doing so, from where it is, or afresh if
    each trial begins so; the others are frozen.
    """
    if not learns_within_a_trial(slot, env):
        return without_learning(slot, deterministic)
    reset = "trial" if slot.reset_interval == 1 else "never"
    return dataclasses.replace(
        slot, reset=reset, self_play_players=(), self_play_prob=None
    )


def without_learning(slot: Slot, deterministic: bool) -> Slot:
    """Returns a slot that does not learn, and takes the likeliest action if asked."""
    agent = slot.agent
    if deterministic:
        agent = dataclasses.replace(agent, greedy=True)
    return dataclasses.replace(
        slot,
        agent=agent,
        clock="none",
        reset="never",
        schedule=None,
        self_play_players=(),
        self_play_prob=None,
    )


def _check_batch(
    slot: Slot, env: Any, config: ExperimentConfig, num_steps: int | None
) -> None:
    """Raises ValueError if a learner cannot split what one update gets."""
    if not slot.learns:
        return
    steps = env.num_inner_steps
    games = config.num_envs * (len(slot.players) + len(slot.self_play_players))
    if slot.clock == "trial":
        steps *= env.num_outer_steps
    if num_steps is not None:
        steps = num_steps
    if not slot.per_opponent:
        games *= config.num_opponents
    slot.agent.grouped(config.num_envs).check_batch(steps, games)


def agent_options(index: int, config: ExperimentConfig) -> dict[str, Any]:
    """Returns an agent's options in the types that it declares.

    Raises:
        ConfigError: If it has no such option, or an option that it needs is missing.
    """
    agent, where = config.agents[index], f"agent{index + 1}"
    types = option_types(registry.find(agent.name).load(), config.kind)
    if types is None:
        return dict(agent.options)
    given = {}
    for name, value in agent.options.items():
        setting = f"{where}.{name}"
        if name in run_settings(config.kind) and name not in types:
            raise ConfigError(
                f"{setting} is a setting of the run, not of an agent: write "
                f"{RUN_SETTINGS[name]}{config.origin(setting).said}"
            )
        if name not in types:
            raise ConfigError(_no_option(where, agent.name, name, types, config))
        given[name] = coerce(value, types[name], setting)
    return given


def check_options(config: ExperimentConfig) -> None:
    """Raises ValueError if an agent is unknown, or has no such option."""
    for index in range(len(config.agents)):
        agent_options(index, config)


def _no_option(
    where: str, agent: str, option: str, types: Mapping[str, Any], config: Any
) -> str:
    """Returns the message about an option that an agent does not have."""
    written, hint = config.origin(f"{where}.{option}"), did_you_mean(option, types)
    said = (
        f"{where}: {agent} has no option {option!r}{hint} "
        f"Its options: {', '.join(types) or 'none'}."
    )
    if written.kind == "default":
        return said
    said += f" It was set by {written}"
    named = config.origin(f"{where}.name")
    if named != written and hint == ".":
        said += f", and {where} is {agent} by {named}: leave one of them out"
    return f"{said}."


def plays_weights(index: int, agent: AgentConfig, config: ExperimentConfig) -> bool:
    """Whether an agent is played as it was saved, and does not go on to learn."""
    frozen = not (config.kind.trains and agent.learning)
    part_of_game = config.kind.endless and index > 0
    return agent.model_path is not None and (frozen or part_of_game)


def as_saved(index: int, config: ExperimentConfig) -> tuple[AgentConfig, str | None]:
    """Returns (the agent that its weights are of, what to tell the user about it).

    It has the options that it was trained with, but for those that were set for this
    run; like those of any agent, usual ones are not written down.

    Raises:
        ConfigError: If the user named another agent.
    """
    agent, where = config.agents[index], f"agent{index + 1}"
    record = saved_record(agent)
    saved, named = record["agent"], config.origin(f"{where}.name")
    settings: dict[str, Any] = {"name": saved}
    notice = None
    if saved != agent.name and (named.typed or not config.origins):
        if not registry.same(saved, agent.name):
            raise ConfigError(_other_weights(index, saved, config))
        settings = {}
    elif saved != agent.name:
        notice = f"{where} is {saved}, not {agent.name}: {agent.model_path} holds it"
    types = option_types(registry.find(saved).load(), config.kind)
    if types is not None:
        own = {k: hashable(v) for k, v in record["config"].items() if k in types}
        usual = _defaults(registry.find(saved).load())
        own = {
            k: v
            for k, v in own.items()
            if k in agent.options or k not in usual or v != usual[k]
        }
        stored = saved != agent.name or config.origins
        typed = {
            k: v
            for k, v in agent.options.items()
            if not stored or config.origin(f"{where}.{k}").typed
        }
        settings["options"] = {**own, **typed}
    return dataclasses.replace(agent, **settings), notice


def check_weights(index: int, config: ExperimentConfig) -> None:
    """Raises ConfigError if who goes on to learn is to start from another's weights.

    Those at Weights & Biases, and those that are not there, are not looked at: a run
    that goes on needs none, and any other loads them.
    """
    agent = config.agents[index]
    if agent.model_path is None or agent.run_path is not None:
        return
    try:
        saved = saved_record(agent)["agent"]
    except ConfigError:
        return
    if not registry.same(saved, agent.name):
        raise ConfigError(_other_weights(index, saved, config))


def _other_weights(index: int, saved: str, config: ExperimentConfig) -> str:
    """Returns the message about weights of another agent than the one named."""
    agent, where = config.agents[index], f"agent{index + 1}"
    said = (
        f"{where} is {agent.name}{config.origin(f'{where}.name').said}, but "
        f"{agent.model_path} holds {saved}: write {where}={saved}"
    )
    fit = [i for i, a in enumerate(config.agents, start=1) if a.name == saved]
    return f"{said}, or player={fit[0]}, who is {saved}" if fit else said


def option_types(
    agent_class: Any, kind: RunnerKind = KINDS["rl"]
) -> dict[str, Any] | None:
    """Returns the options that an agent takes, with their types; None if unknown.

    They are the fields of its `config_class`, or its own where it has none, without
    those that a run decides.
    """
    holder = getattr(agent_class, "config_class", agent_class)
    if not (isinstance(holder, type) and dataclasses.is_dataclass(holder)):
        return None
    hints = options.hints(holder)
    inherited = () if holder is not agent_class else dataclasses.fields(Agent)
    hidden = {field.name for field in inherited}
    hidden |= run_settings(kind)
    names = [f.name for f in dataclasses.fields(holder) if f.init]
    return {name: hints[name] for name in names if name not in hidden}


def _defaults(agent_class: Any) -> dict[str, Any]:
    """Returns the options that an agent has where none are given."""
    holder = getattr(agent_class, "config_class", agent_class)
    known = options.described(holder).values()
    return {o.name: o.default for o in known if o.default is not dataclasses.MISSING}


def untrained(config: ExperimentConfig, slots: tuple[Slot, ...]) -> tuple[str, ...]:
    """Returns a notice for every learner that plays as it starts, without weights."""
    return tuple(
        f"{agent.name} (player {agent.players[0]}) plays untrained: "
        f"--model-path FILE --player {agent.players[0]} loads weights"
        for agent, slot in zip(config.agents, slots, strict=True)
        if slot.agent.learns and not slot.learns and agent.model_path is None
        if agent.es is None or not config.kind.evolves
    )
