"""From a config to the engine's objects: mistakes are found before a compile."""

import dataclasses
import typing
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import paxenv
from paxenv.registry import GameSpec, closest, find
from paxenv_agents import registry, weights
from paxenv_agents.agent import Agent
from paxenv_agents.lineup import Slot
from runners.config import DEFAULT_LEARNER, AgentConfig, ConfigError, ExperimentConfig
from runners.config.coerce import coerce
from runners.experiment import Experiment
from runners.model_source import model_files
from runners.outer import Frozen, Gradient

#: Options of learners that a run decides, and what to write instead.
RUN_SETTINGS = {
    "num_envs": "num_envs=VALUE",
    "n_steps": "num_inner_steps=VALUE",
    "num_updates": "total_timesteps=VALUE",
    "greedy": "deterministic=true",
}
STEP_OPTIONS = ("num_inner_steps", "num_outer_steps")


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run that is ready to be compiled.

    Attributes:
        config: The config with everything filled in.
        game: The game's registry entry.
        experiment: What runs.
        params: The game's numbers.
        num_iterations: How many iterations to run; 1 for an evaluation.
        notices: What the user should know before it starts.
    """

    config: ExperimentConfig
    game: GameSpec
    experiment: Experiment
    params: Any
    num_iterations: int
    notices: tuple[str, ...] = ()

    @property
    def env(self) -> Any:
        """The game."""
        return self.experiment.env

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration of one seed."""
        return self.experiment.steps_per_iteration

    @property
    def total_steps(self) -> int:
        """Environment steps of one seed in all."""
        return self.num_iterations * self.steps_per_iteration

    @property
    def names(self) -> tuple[str, ...]:
        """The agent of every player, in player order."""
        seats = {
            player: agent.name
            for agent in self.config.agents
            for player in agent.players
        }
        return tuple(seats[p + 1] for p in range(self.env.num_players))

    @property
    def title(self) -> str:
        """The game and who plays it, in one line."""
        game = self.game.id.removeprefix("pax/").partition("-v")[0]
        return f"{game}: {' v '.join(self.names)}"


def prepare(config: ExperimentConfig) -> Plan:
    """Returns the plan of a config.

    Raises:
        ValueError: If a name is unknown, or anything does not fit anything else.
    """
    game = find(config.env.id)
    env, params, notices = make_game(game, config.env.options)
    agents = _seated(config.agents, game, env.num_players)
    if config.runner == "eval":
        agents = tuple(
            agent
            if agent.model_path is None
            else dataclasses.replace(agent, name=_saved(agent)["agent"])
            for agent in agents
        )
    config = dataclasses.replace(config, agents=agents)
    num_iterations, rounding = _num_iterations(config, env)
    slots = tuple(
        _slot(i, agent, env, config, num_iterations) for i, agent in enumerate(agents)
    )
    training = config.runner == "rl"
    if training and not any(slot.learns for slot in slots):
        raise ConfigError(
            f"nobody learns in {' v '.join(a.name for a in agents)}: `paxrun eval` "
            "plays agents without training"
        )
    experiment = Experiment(
        env=env,
        slots=slots,
        outer=Gradient() if training else Frozen(),
        num_games=config.num_envs,
        num_opponents=config.num_opponents,
        chunk_size=min(config.chunk_size, num_iterations),
    )
    if not config.name:
        config = dataclasses.replace(config, name=_custom_name(game, agents))
    if training:
        notices += rounding
    else:
        notices += _untrained(agents, slots)
    return Plan(config, game, experiment, params, num_iterations, notices)


def evaluation(plan: Plan) -> Plan:
    """Returns the plan that plays a plan's agents without learning, one iteration."""
    config = dataclasses.replace(plan.config, runner="eval")
    slots = tuple(_frozen(slot, config.deterministic) for slot in plan.experiment.slots)
    experiment = dataclasses.replace(
        plan.experiment, slots=slots, outer=Frozen(), chunk_size=1
    )
    return Plan(config, plan.game, experiment, plan.params, 1)


def make_game(
    game: GameSpec, options: Mapping[str, Any]
) -> tuple[Any, Any, tuple[str, ...]]:
    """Returns (env, params, notices) of a game with options as a config holds them."""
    options = dict(options)
    for name in STEP_OPTIONS:
        if name in options:
            options[name] = coerce(options[name], int, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        env, params = paxenv.make(game.id, **options)
    notices = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return env, params, tuple(dict.fromkeys(notices))


def payoff_table(params: Any) -> np.ndarray | None:
    """Returns a game's payoff numbers, None for a game without any."""
    payoff = getattr(params, "payoff_matrix", None)
    return None if payoff is None else np.asarray(payoff)


def _num_iterations(config: ExperimentConfig, env: Any) -> tuple[int, tuple[str, ...]]:
    """Returns how many iterations hold `total_timesteps`, and a notice if not exact."""
    if config.runner == "eval":
        return 1, ()
    trial = env.num_inner_steps * env.num_outer_steps
    steps = trial * config.num_envs * config.num_opponents
    iterations = -(-config.total_timesteps // steps)
    total = iterations * steps
    if total == config.total_timesteps:
        return iterations, ()
    games = f"{config.num_envs} games"
    if config.num_opponents > 1:
        games += f" x {config.num_opponents} opponents"
    return iterations, (
        f"total_timesteps={config.total_timesteps:_} is "
        f"{config.total_timesteps / steps:.2f} iterations of {games} x {trial} steps: "
        f"{iterations} iterations are run, {total:_} steps",
    )


def _seated(
    agents: tuple[AgentConfig, ...], game: GameSpec, num_players: int
) -> tuple[AgentConfig, ...]:
    """Returns the agents with their players filled in, every player seated once.

    Players for whom nobody is named are played by the game's usual opponent.
    """
    agents = agents or (AgentConfig(DEFAULT_LEARNER),)
    taken = {player for agent in agents for player in agent.players}
    free = [p for p in range(1, num_players + 1) if p not in taken]
    seated = []
    for agent in agents:
        if not agent.players:
            if not free:
                names = ", ".join(agent.name for agent in agents)
                raise ConfigError(
                    f"{game.id} has {num_players} players, got {len(agents)} agents: "
                    f"{names}"
                )
            agent = dataclasses.replace(agent, players=(free.pop(0),))
        seated.append(agent)
    seated += [AgentConfig(game.opponent, players=(player,)) for player in free]
    seats = sorted(player for agent in seated for player in agent.players)
    if seats != list(range(1, num_players + 1)):
        raise ConfigError(
            f"players must be 1 to {num_players} of {game.id}, each once, got {seats}"
        )
    return tuple(seated)


def _slot(
    index: int,
    agent: AgentConfig,
    env: Any,
    config: ExperimentConfig,
    num_iterations: int,
) -> Slot:
    players = tuple(player - 1 for player in agent.players)
    made = _make_agent(index, agent, env, config, num_iterations)
    if config.runner == "eval":
        return _frozen(Slot(agent=made, players=players), config.deterministic)
    slot = Slot(
        agent=made,
        players=players,
        clock=agent.clock,
        per_opponent=made.learns and config.num_opponents > 1 and index > 0,
    )
    _check_batch(slot, env, config)
    return slot


def _frozen(slot: Slot, deterministic: bool) -> Slot:
    agent = slot.agent
    if deterministic:
        agent = dataclasses.replace(agent, greedy=True)
    return dataclasses.replace(slot, agent=agent, clock="none")


def _make_agent(
    index: int,
    agent: AgentConfig,
    env: Any,
    config: ExperimentConfig,
    num_iterations: int,
) -> Any:
    where = f"agent{index + 1}"
    evaluated = config.runner == "eval" and agent.model_path is not None
    options = _saved(agent)["config"] if evaluated else _agent_options(where, agent)
    try:
        made = registry.make_agent(
            agent.name, env, player=agent.players[0] - 1, **options
        )
    except registry.PairingError:
        raise
    except ValueError as error:
        raise ConfigError(f"{where} ({agent.name}): {error}") from error
    return _planned(made, agent, env, num_iterations)


def _planned(made: Any, agent: AgentConfig, env: Any, num_iterations: int) -> Any:
    """Returns a learner that knows how often it will update, for its schedules."""
    planned = getattr(made, "planned", None)
    if planned is None:
        return made
    per_trial = env.num_outer_steps if agent.clock == "inner" else 1
    return planned(num_iterations * per_trial)


def _check_batch(slot: Slot, env: Any, config: ExperimentConfig) -> None:
    """Raises ValueError if a learner cannot split what one update gets."""
    check: Any = getattr(slot.agent, "check_batch", None)
    if not slot.learns or check is None:
        return
    steps, games = env.num_inner_steps, config.num_envs * len(slot.players)
    if slot.clock == "trial":
        steps *= env.num_outer_steps
    if not slot.per_opponent:
        games *= config.num_opponents
    check(steps, games)


def _agent_options(where: str, agent: AgentConfig) -> dict[str, Any]:
    """Returns an agent's options in the types that it declares."""
    types = option_types(registry.find(agent.name).load())
    if types is None:
        return dict(agent.options)
    options = {}
    for name, value in agent.options.items():
        if name in RUN_SETTINGS:
            raise ConfigError(
                f"{where}.{name} is a setting of the run, not of an agent: write "
                f"{RUN_SETTINGS[name]}"
            )
        if name not in types:
            near = closest(name, list(types))
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"{where}: {agent.name} has no option {name!r}{hint} "
                f"Its options: {', '.join(types) or 'none'}"
            )
        options[name] = coerce(value, types[name], f"{where}.{name}")
    return options


def _saved(agent: AgentConfig) -> dict[str, Any]:
    """Returns what is recorded beside an agent's weights: its name and its options."""
    try:
        return weights.describe_agent(model_files(agent)[0])
    except (weights.WeightsError, FileNotFoundError) as error:
        raise ConfigError(f"model_path of {agent.name}: {error}") from error


def option_types(agent_class: Any) -> dict[str, Any] | None:
    """Returns the options that an agent takes, with their types; None if unknown.

    They are the fields of its `config_class`, or its own where it has none.
    """
    holder = getattr(agent_class, "config_class", agent_class)
    if not dataclasses.is_dataclass(holder):
        return None
    hints = typing.get_type_hints(holder)
    inherited = () if holder is not agent_class else dataclasses.fields(Agent)
    hidden = {field.name for field in inherited} | RUN_SETTINGS.keys()
    names = [f.name for f in dataclasses.fields(holder) if f.init]
    return {name: hints[name] for name in names if name not in hidden}


def _untrained(
    agents: tuple[AgentConfig, ...], slots: tuple[Slot, ...]
) -> tuple[str, ...]:
    return tuple(
        f"{agent.name} (player {agent.players[0]}) plays untrained: "
        f"--model-path FILE --player {agent.players[0]} loads weights"
        for agent, slot in zip(agents, slots, strict=True)
        if slot.agent.learns and agent.model_path is None
    )


def _custom_name(game: GameSpec, agents: tuple[AgentConfig, ...]) -> str:
    stem = game.id.removeprefix("pax/").partition("-v")[0]
    return f"{stem}/{'_v_'.join(agent.name for agent in agents)}"
