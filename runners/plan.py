"""From a config to the engine's objects: mistakes are found before a compile."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import paxenv
from paxenv.registry import GameSpec, find
from paxenv_agents.agent import Agent
from runners import seating, single
from runners.config import AgentConfig, ConfigError, ExperimentConfig
from runners.config.coerce import coerce
from runners.experiment import Experiment
from runners.interventions import configured
from runners.interventions.observing import InTurn
from runners.interventions.payoffs import FIELDS
from runners.outer import Frozen, Gradient
from runners.sharding import make_mesh

#: Games of an evaluation of `sarl`, at least; rollouts there may have a single one.
MIN_SARL_EPISODES = 32
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
    def num_eval_games(self) -> int:
        """Games of an evaluation."""
        games = self.config.eval_episodes
        if games is None and self.config.runner == "sarl":
            return max(self.config.num_envs, MIN_SARL_EPISODES)
        return games or self.config.num_envs

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
        return tuple(seats[player] for player in sorted(seats))

    @property
    def mode(self) -> str:
        """How evaluated agents act: `"sampled"` or `"greedy"`."""
        return "greedy" if self.config.deterministic else "sampled"

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
    agents = seating.seated(config.agents, game, env.num_players)
    training = config.runner != "eval"
    agents = tuple(
        agent if training and agent.learning else seating.with_saved_name(agent)
        for agent in agents
    )
    config = dataclasses.replace(config, agents=agents)
    configured.check_single(config)
    observed, made = _made(config, env, params)
    params_sampler = configured.payoff_sampler(config, env, params)
    env = configured.shuffled(config, env)
    num_steps = None
    if config.runner == "sarl":
        env, params = single.make_game(config, env, params, made)
        made = made[:1]
        num_steps = made[0].rollout_length(config.num_envs)
    num_iterations, rounding = _num_iterations(config, env, num_steps)
    slots = []
    for i, agent in enumerate(made):
        inner = agents[i].clock == "inner" and num_steps is None
        trials = _trials_of_a_life(agents[i], num_iterations)
        agent = agent.planned(trials * (env.num_outer_steps if inner else 1))
        slots.append(
            seating.make_slot(i, agents[i], agent, env, config, num_steps, observed[i])
        )
    if training and not any(slot.learns for slot in slots):
        raise ConfigError(
            f"nobody learns in {' v '.join(a.name for a in agents)}: `paxrun eval` "
            "plays agents without training"
        )
    experiment = Experiment(
        env=env,
        slots=tuple(slots),
        outer=Gradient() if training else Frozen(),
        num_games=config.num_envs,
        num_opponents=config.num_opponents,
        chunk_size=min(config.chunk_size, num_iterations),
        num_steps=num_steps,
        params_sampler=params_sampler,
        params_per_opponent=not getattr(config.payoff_sampler, "shared", False),
        mesh=_mesh(config),
    )
    if not config.name:
        config = dataclasses.replace(config, name=_custom_name(game, agents))
    if training:
        notices += rounding
    if config.runner != "sarl":
        notices += seating.untrained(agents, experiment.slots)
    return Plan(config, game, experiment, params, num_iterations, notices)


def evaluation(plan: Plan) -> Plan:
    """Returns the plan that plays a plan's agents without learning, one iteration."""
    config = dataclasses.replace(plan.config, runner="eval")
    slots = tuple(
        seating.evaluated(slot, plan.env, config.deterministic)
        for slot in plan.experiment.slots
    )
    experiment = dataclasses.replace(
        plan.experiment,
        slots=slots,
        outer=Frozen(),
        num_games=plan.num_eval_games,
        chunk_size=1,
        num_steps=None,
        mesh=None,
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
    for name in FIELDS:
        payoff = getattr(params, name, None)
        if payoff is not None:
            return np.asarray(payoff)
    return None


def _num_iterations(
    config: ExperimentConfig, env: Any, num_steps: int | None
) -> tuple[int, tuple[str, ...]]:
    """Returns how many iterations hold `total_timesteps`, and a notice if not exact."""
    if config.runner == "eval":
        return 1, ()
    each = num_steps or env.num_inner_steps * env.num_outer_steps
    steps = each * config.num_envs * config.num_opponents
    iterations = -(-config.total_timesteps // steps)
    total = iterations * steps
    if total == config.total_timesteps:
        return iterations, ()
    games = f"{config.num_envs} games"
    if config.num_opponents > 1:
        games += f" x {config.num_opponents} opponents"
    return iterations, (
        f"total_timesteps={config.total_timesteps:_} is "
        f"{config.total_timesteps / steps:.2f} iterations of {games} x {each} steps: "
        f"{iterations} iterations are run, {total:_} steps",
    )


def _trials_of_a_life(agent: AgentConfig, num_iterations: int) -> int:
    """Returns how many trials an agent plays before it starts afresh, or in all."""
    if agent.reset == "never":
        return num_iterations
    return min(num_iterations, 1 if agent.reset == "trial" else int(agent.reset))


def _made(
    config: ExperimentConfig, env: Any, params: Any
) -> tuple[list[InTurn | None], list[Agent]]:
    """Returns what each agent observes the game through, and the agents."""
    observed = [
        configured.observer(f"agent{i + 1}", agent, env, params, config.num_envs)
        for i, agent in enumerate(config.agents)
    ]
    made = [
        seating.make_agent(
            i, agent, configured.observed_game(env, params, seen), config
        )
        for i, (agent, seen) in enumerate(zip(config.agents, observed, strict=True))
    ]
    return observed, made


def _mesh(config: ExperimentConfig) -> Any:
    """Returns the devices of a run, None for the default one."""
    if config.num_devices == 1 and config.fsdp_devices == 1:
        return None
    return make_mesh(config.fsdp_devices, config.num_devices)


def _custom_name(game: GameSpec, agents: tuple[AgentConfig, ...]) -> str:
    stem = game.id.removeprefix("pax/").partition("-v")[0]
    return f"{stem}/{'_v_'.join(agent.name for agent in agents)}"
