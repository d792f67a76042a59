"""Seats of agents: agents are made by name and options, for their seats."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jaxtyping import PyTree

from paxenv import options
from paxenv.environment import Environment
from paxenv.registry import GameSpec
from paxenv.wording import counted
from paxenv_agents import registry
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from runners.config import DEFAULT_LEARNER, AgentConfig, ConfigError, ExperimentConfig
from runners.config.building import coerce
from runners.config.schema import UNIFORM_STOP, about, did_you_mean, placed
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
    payoff_field,
)
from runners.kinds import KINDS, RunnerKind

#: The number of a learner that says whether it learns.
ENABLED = "enabled"
#: Options of learners that a run decides, and the settings to write instead.
RUN_SETTINGS = {
    "num_envs": "num_envs=VALUE",
    "n_steps": "num_inner_steps=VALUE",
    "num_updates": "total_timesteps=VALUE",
    "greedy": "deterministic=true",
}
DISTRIBUTIONS = {"uniform": Uniform, "log_uniform": LogUniform}


def seated(
    agents: tuple[AgentConfig, ...], game: GameSpec, num_players: int
) -> tuple[AgentConfig, ...]:
    """Returns the agents with their players filled in, every player seated once.

    The game's usual opponent plays each player for whom no agent is named.
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
    """Returns the message about an agent without a free seat."""
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


@dataclasses.dataclass(frozen=True)
class Seat:
    """One agent of an experiment, from which a slot of the engine is made.

    Attributes:
        index: Its place in the config.
        config: The experiment.
    """

    index: int
    config: ExperimentConfig

    @property
    def agent(self) -> AgentConfig:
        """The agent's entry in the config."""
        return self.config.agents[self.index]

    @property
    def where(self) -> str:
        """The prefix of its settings, such as `agent1`."""
        return f"agent{self.index + 1}"

    @property
    def plays_weights(self) -> bool:
        """Whether it plays saved weights without learning."""
        kind = self.config.kind
        frozen = not (kind.trains and self.agent.learning)
        part_of_game = kind.endless and self.index > 0
        return self.agent.model_path is not None and (frozen or part_of_game)

    def options(self) -> dict[str, Any]:
        """Returns the agent's options in the types that it declares.

        Raises:
            ConfigError: If it has no such option, or a value does not fit.
        """
        agent, kind = self.agent, self.config.kind
        with about(f"{self.where}.name"):
            found = registry.find(agent.name)
        types = option_types(found.load(), kind)
        if types is None:
            return dict(agent.options)
        given = {}
        for name, value in agent.options.items():
            setting = f"{self.where}.{name}"
            if name in run_settings(kind) and name not in types:
                raise ConfigError(
                    f"{setting} is a setting of the run, not of an agent: write "
                    f"{RUN_SETTINGS[name]}{self.config.origin(setting).said}"
                )
            if name not in types:
                raise ConfigError(self._no_option(name, types))
            given[name] = coerce(value, types[name], setting)
        return given

    def slot(
        self, env: Environment, params: PyTree, trained: Mapping[str, Any]
    ) -> Slot:
        """Returns its slot, without the settings of its learning.

        Args:
            env: The game, with all its players.
            params: Its numbers.
            trained: The options with which its weights were trained; its own win.

        Raises:
            PairingError: If it cannot play the seat; names agents that can.
            ValueError: If an option is unknown or refused.
        """
        name, players = self.agent.name, tuple(p - 1 for p in self.agent.players)
        observe = self._observer(env, params)
        seen: Any = env
        if observe is not None:
            seen = ObservedGame(
                env, lambda p: observe.space(env.observation_space(p), params)
            )
        given = {**trained, **self.options()}
        try:
            agent = registry.make_agent(name, seen, player=players[0], **given)
        except registry.PairingError:
            raise
        except registry.MissingOptionsError as error:
            words = " ".join(f"{self.where}.{o}=VALUE" for o in error.missing)
            raise ConfigError(
                f"{self.where}: {name} needs {' and '.join(error.missing)}: write "
                f"{words}"
            ) from error
        except ValueError as error:
            raise ConfigError(f"{self.where} ({name}): {error}") from error
        return Slot(agent=agent, players=players, clock="none", observe=observe)

    def learning(
        self, slot: Slot, env: Environment, num_steps: int | None, num_iterations: int
    ) -> Slot:
        """Returns its slot with learning; its agent knows the number of its updates.

        Args:
            slot: The slot without learning.
            env: The game that is played; that of `sarl` has one player.
            num_steps: Steps of an iteration in endless streams, None for trials.
            num_iterations: Iterations of the run.

        Raises:
            ValueError: If a batch does not split, or an intervention does not fit.
        """
        agent, kind = self.agent, self.config.kind
        inner = agent.clock == "inner" and num_steps is None
        trials = self._trials_of_a_life(num_iterations)
        made = slot.agent.planned(trials * (env.num_outer_steps if inner else 1))
        if kind.evolves and agent.es is not None:
            return dataclasses.replace(slot, agent=made)
        resets = kind.evolves and made.learns and agent.learning
        self_play_players, self_play_prob = self._self_play(env)
        slot = dataclasses.replace(
            slot,
            agent=made,
            clock=agent.clock if agent.learning else "none",
            reset="trial" if resets and agent.reset == "never" else agent.reset,
            sampler=self._sampler(made, env.num_outer_steps),
            schedule=self._schedule(env.num_outer_steps),
            self_play_players=self_play_players,
            self_play_prob=self_play_prob,
        )
        if not kind.trains and not learns_within_a_trial(slot, env):
            return without_learning(slot, self.config.deterministic)
        # A learner within the trials of others is an opponent, even if it is the
        # first agent.
        opponent = self.index > 0 or not kind.needs_a_learner
        apart = slot.learns and self.config.num_opponents > 1 and opponent
        slot = dataclasses.replace(slot, per_opponent=apart)
        self._check_batch(slot, env, num_steps)
        return slot

    def _observer(self, env: Environment, params: PyTree) -> InTurn | None:
        """Returns the observer of the agent, None if it observes the game unchanged.

        Raises:
            ConfigError: If the game has no payoff, or no START for blind games.
        """
        agent, num_games = self.agent, self.config.num_envs
        parts: list[PayoffShown | BlindGames] = []
        if agent.blind_games > num_games:
            raise ConfigError(
                f"{self.where}.blind_games={agent.blind_games} is more than the "
                f"{counted(num_games, 'game')} that num_envs says"
            )
        try:
            if agent.blind_games:
                first = agent.players[0] - 1
                parts.append(blind_games(agent.blind_games, env, params, first))
            if agent.show_payoff:
                payoff_field(params)
                parts.append(PayoffShown())
            observed = InTurn(tuple(parts))
            for player in agent.players:
                observed.space(env.observation_space(player - 1), params)
        except ValueError as error:
            raise ConfigError(f"{self.where}: {error}") from error
        return observed if parts else None

    def _no_option(self, option: str, types: Mapping[str, Any]) -> str:
        """Returns the message about an option that the agent does not have."""
        name, config = self.agent.name, self.config
        written, hint = (
            config.origin(f"{self.where}.{option}"),
            did_you_mean(option, types),
        )
        said = (
            f"{self.where}: {name} has no option {option!r}{hint} "
            f"Its options: {', '.join(types) or 'none'}."
        )
        if written.kind == "default":
            return said
        said += f" It was set by {written}"
        named = config.origin(f"{self.where}.name")
        if named != written and hint == ".":
            said += f", and {self.where} is {name} by {named}: leave one of them out"
        return f"{said}."

    def _trials_of_a_life(self, num_iterations: int) -> int:
        """Returns the number of trials before its first reset, or in total."""
        if self.config.kind.evolves:
            # Learners under evolution get a new training state in each trial.
            return 1
        if self.agent.reset == "never":
            return num_iterations
        reset = self.agent.reset
        return min(num_iterations, 1 if reset == "trial" else int(reset))

    def _sampler(self, made: Agent, num_outer_steps: int) -> DrawnNumbers | None:
        """Returns the sampler of its hyperparameters, None if none is drawn.

        Raises:
            ConfigError: If the agent has no such hyperparameter, or a bound is refused.
        """
        draws: dict[str, Uniform | UniformStop] = {}
        hyper = jax.eval_shape(lambda: made.init_state(jax.random.key(0))).hyper
        # Whether it learns is a setting of its own.
        known = hyper.keys() - {ENABLED}
        for name, value in self.agent.sample.items():
            setting = f"{self.where}.sample.{name}"
            if name not in known:
                raise ConfigError(
                    f"{self.where}.sample: {self.agent.name} has no hyperparameter "
                    f"{name!r}{did_you_mean(name, known)} Its hyperparameters: "
                    f"{', '.join(sorted(known)) or 'none'}",
                    setting,
                )
            draws[name] = _distribution(setting, value)
        if self.agent.stop_after == UNIFORM_STOP:
            draws[STOP] = UniformStop(num_outer_steps)
        return DrawnNumbers(tuple(sorted(draws.items()))) if draws else None

    def _schedule(self, num_outer_steps: int) -> HardStop | None:
        """Returns the agent's hard stop within a trial, None if it has none.

        Raises:
            ConfigError: If it does not learn within a trial, or the number is too
                large.
        """
        agent, setting = self.agent, f"{self.where}.stop_after"
        if agent.stop_after is None:
            return None
        if agent.clock != "inner" or num_outer_steps == 1 or not agent.learning:
            raise ConfigError(
                f"{setting}={agent.stop_after} is for an agent that learns within a "
                f"trial: set {self.where}.clock=inner and num_outer_steps to 2 or more"
            )
        if agent.stop_after == UNIFORM_STOP:
            return HardStop()
        after = int(agent.stop_after)
        if not 0 <= after <= num_outer_steps:
            raise ConfigError(
                f"{setting} must be uniform or in [0, {num_outer_steps}], the inner "
                f"episodes of a trial, got {after}"
            )
        return HardStop(after)

    def _self_play(
        self, env: Environment
    ) -> tuple[tuple[int, ...], FadingSelfPlay | None]:
        """Returns (players, from 0, of its self-play, the probability by trial).

        Raises:
            ConfigError: If it cannot play them, since their spaces differ from its own.
        """
        agent, setting = self.agent, f"{self.where}.self_play_trials"
        if not agent.self_play_trials:
            return (), None
        own = agent.players[0] - 1
        others = tuple(p for p in range(env.num_players) if p + 1 not in agent.players)
        for player in others:
            for space in (env.observation_space, env.action_space):
                if space(player) != space(own):
                    raise ConfigError(
                        f"{setting}: player {player + 1} has {space(player)}, "
                        f"{agent.name} {space(own)}"
                    )
        if not others:
            raise ConfigError(f"{setting}: it plays all players already")
        return others, FadingSelfPlay(agent.self_play_trials)

    def _check_batch(self, slot: Slot, env: Environment, num_steps: int | None) -> None:
        """Raises ValueError if a learner cannot split the batch of one update."""
        if not slot.learns:
            return
        steps = env.num_inner_steps
        games = self.config.num_envs
        games *= len(slot.players) + len(slot.self_play_players)
        if slot.clock == "trial":
            steps *= env.num_outer_steps
        if num_steps is not None:
            steps = num_steps
        if not slot.per_opponent:
            games *= self.config.num_opponents
        slot.agent.grouped(self.config.num_envs).check_batch(steps, games)


def seats(config: ExperimentConfig) -> tuple[Seat, ...]:
    """Returns the seat of every agent of an experiment."""
    return tuple(Seat(i, config) for i in range(len(config.agents)))


def check_options(config: ExperimentConfig) -> None:
    """Raises ValueError if an agent is unknown, or has no such option."""
    with placed(config.origins):
        for seat in seats(config):
            seat.options()


def option_types(
    agent_class: Any, kind: RunnerKind = KINDS["rl"]
) -> dict[str, Any] | None:
    """Returns the options that an agent takes, with their types; None if unknown.

    They are the fields of its `config_class`, or of the agent itself without one, and
    leave out those that a run decides.
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


def defaults(agent_class: Any) -> dict[str, Any]:
    """Returns the default options of an agent."""
    holder = getattr(agent_class, "config_class", agent_class)
    known = options.described(holder).values()
    return {o.name: o.default for o in known if o.default is not dataclasses.MISSING}


def run_settings(kind: RunnerKind) -> set[str]:
    """Returns the options of learners that a run decides.

    In endless play the length of a rollout is an option of the agent.
    """
    return RUN_SETTINGS.keys() - ({"n_steps"} if kind.endless else set())


def learns_within_a_trial(slot: Slot, env: Environment) -> bool:
    """Whether a slot learns within trials, which it does in evaluations too."""
    return slot.learns and slot.clock == "inner" and env.num_outer_steps > 1


def evaluated(slot: Slot, env: Environment, deterministic: bool) -> Slot:
    """Returns a slot for an evaluation in the middle of training.

    A slot that learns within a trial still does so, from its current training state, or
    from a new one if it is reset in every trial; other slots are frozen.
    """
    if not learns_within_a_trial(slot, env):
        return without_learning(slot, deterministic)
    reset = "trial" if slot.reset_interval == 1 else "never"
    return dataclasses.replace(
        slot, reset=reset, self_play_players=(), self_play_prob=None
    )


def without_learning(slot: Slot, deterministic: bool) -> Slot:
    """Returns a slot without learning; `deterministic` takes the likeliest action."""
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


def untrained(config: ExperimentConfig, slots: Sequence[Slot]) -> tuple[str, ...]:
    """Returns a notice for every learner that plays with its first weights."""
    return tuple(
        f"{agent.name} (player {agent.players[0]}) plays untrained: "
        f"--model-path FILE --player {agent.players[0]} loads weights"
        for agent, slot in zip(config.agents, slots, strict=True)
        if slot.agent.learns and not slot.learns and agent.model_path is None
        if agent.es is None or not config.kind.evolves
    )


def _distribution(where: str, value: Any) -> Uniform:
    """Returns the distribution that `{log_uniform: [1e-5, 1]}` names."""
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ConfigError(
            f"{where} must be one distribution, such as {{log_uniform: [1e-5, 1]}} or "
            f"{{uniform: [0, 1]}}, got {value!r}",
            where,
        )
    ((name, bounds),) = value.items()
    if name not in DISTRIBUTIONS:
        raise ConfigError(
            f"{where}: there is no distribution {name!r}"
            f"{did_you_mean(name, DISTRIBUTIONS)} Known: {', '.join(DISTRIBUTIONS)}",
            where,
        )
    low, high = coerce(bounds, tuple[float, float], f"{where}.{name}")
    try:
        return DISTRIBUTIONS[name](low, high)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
