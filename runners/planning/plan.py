"""Makes the engine's objects from a config; mistakes are found before a compile."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Mesh
from jaxtyping import PyTree

from paxenv.environment import Environment
from paxenv.registry import GameSpec, find
from paxenv.wording import counted, grouped
from paxenv_agents.engine.lineup import Slot
from runners.config import AgentConfig, ConfigError, ExperimentConfig
from runners.config.schema import about, placed
from runners.engine.experiment import Experiment
from runners.engine.outer import Frozen, Gradient, OuterOptimiser
from runners.engine.placement import make_mesh
from runners.engine.population import used_by_policy
from runners.planning import evolution, saved, seating
from runners.planning.game import make_game, one_player_game, payoff_sampler, shuffled
from runners.search.outer_options import es_config
from runners.search.space import make_space
from runners.search.unit_search import make_search

#: Settings that have no effect on an evaluation.
OF_TRAINING = (
    *("total_timesteps", "log_interval", "eval_interval", "eval_episodes"),
    *("checkpoint_interval", "max_checkpoints", "keep_period", "non_finite"),
)
#: Settings of an agent that concern its learning.
OF_LEARNING = ("reset", "learning", "stop_after", "sample", "self_play_trials")
#: Settings of an agent that count trials, and those of a player.
OF_TRIALS = ("clock", "reset", "stop_after", "self_play_trials")
OF_A_PLAYER = ("sample", "show_payoff", "blind_games")
#: With `es`, the option of `search` for the environment steps of an individual.
INNER_BUDGET = "num_steps_per_iteration"


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run that is ready to be compiled.

    Attributes:
        config: The config with all its gaps filled in.
        game: The game's registry entry.
        experiment: The experiment that runs.
        params: The game's numbers.
        num_iterations: The number of iterations; 1 for an evaluation.
        notices: Messages for the user before it starts.
    """

    config: ExperimentConfig
    game: GameSpec
    experiment: Experiment
    params: PyTree
    num_iterations: int
    notices: tuple[str, ...] = ()

    @property
    def env(self) -> Environment:
        """The game."""
        return self.experiment.env

    @property
    def evolves(self) -> bool:
        """Whether parameters are searched by evolution."""
        return self.experiment.outer.num_members is not None

    @property
    def num_eval_games(self) -> int:
        """Games of an evaluation."""
        games = self.config.eval_episodes
        return games or max(self.config.num_envs, self.config.kind.min_eval_games)

    @property
    def num_eval_opponents(self) -> int:
        """Opponents of an evaluation."""
        opponents = self.experiment.num_opponents
        if not self.evolves:
            return opponents
        return max(opponents, evolution.MIN_EVALUATED_OPPONENTS)

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration of one seed."""
        return self.experiment.steps_per_iteration

    @property
    def num_trainings(self) -> int:
        """Number of trainings of the inner loop; a search has several."""
        if not self.config.kind.reads("search"):
            return 1
        es = es_config(self.config.search)
        trainings = es.population_size * es.repeats if es.train_agent else 0
        return es.iterations * trainings

    @property
    def total_steps(self) -> int:
        """Environment steps of one seed in all iterations, without evaluations."""
        return self.num_trainings * self.num_iterations * self.steps_per_iteration

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
        """How evaluated agents choose actions: `"sampled"` or `"greedy"`."""
        return "greedy" if self.config.deterministic else "sampled"

    @property
    def title(self) -> str:
        """The game and its agents in one line."""
        game = self.game.id.removeprefix("pax/").partition("-v")[0]
        return f"{game}: {' v '.join(grouped(self.names))}"


def prepare(config: ExperimentConfig) -> Plan:
    """Returns the plan of a config.

    Raises:
        ValueError: If a name is unknown, or settings do not fit together; says where
            the user wrote a value that does not fit.
    """
    if not isinstance(config, ExperimentConfig):
        raise ValueError(
            "config must be an ExperimentConfig, as load_config returns one, got "
            f"{config!r}"
        )
    with placed(config.origins):
        return _prepared(config)


def _prepared(config: ExperimentConfig) -> Plan:
    with about("env.id"):
        game = find(config.env.id)
    env, params, notices = make_game(game, config.env.options)
    config, replaced = _seated(config, game, env)
    notices = (*config.notices, *notices, *replaced)
    config, outer = _optimised(config)
    _check_kind(config)
    seats = seating.seats(config)
    slots = [seat.slot(env, params, _trained_options(seat)) for seat in seats]
    params_sampler = None
    if config.payoff_sampler is not None:
        params_sampler = payoff_sampler(config.payoff_sampler, env, params)
    if config.shuffle_players:
        env = shuffled(env)
    num_steps = None
    if config.kind.endless:
        env, params = one_player_game(config, env, params, slots)
        slots = slots[:1]
        num_steps = slots[0].agent.rollout_length(config.num_envs)
    num_iterations, rounding = _num_iterations(config, env, num_steps, outer)
    slots = [
        seat.learning(slot, env, num_steps, num_iterations)
        for seat, slot in zip(seats, slots, strict=False)
    ]
    _check_learns(config, slots)
    _check_searched(config, slots)
    experiment = Experiment(
        env=env,
        slots=tuple(slots),
        outer=outer,
        num_games=config.num_envs,
        num_opponents=config.num_opponents,
        chunk_size=min(config.chunk_size, num_iterations),
        num_steps=num_steps,
        keep_parts=config.kind.trains and not config.kind.outer,
        keep_curves=not config.kind.trains and env.num_outer_steps > 1,
        params_sampler=params_sampler,
        params_per_opponent=not getattr(config.payoff_sampler, "shared", False),
        mesh=_mesh(config),
    )
    config = _completed(config, game, experiment, num_iterations)
    if config.kind.outer:
        _check_outer(config, experiment, params)
    notices += rounding if config.kind.trains else _without_effect(config)
    if not config.kind.endless:
        notices += seating.untrained(config, experiment.slots)
    return Plan(config, game, experiment, params, num_iterations, notices)


def evaluation(plan: Plan) -> Plan:
    """Returns the plan of one iteration without learning between trials."""
    config = dataclasses.replace(plan.config, runner="eval")
    slots = tuple(
        seating.evaluated(slot, plan.env, config.deterministic)
        for slot in plan.experiment.slots
    )
    if plan.evolves:
        # Each of many opponents learns separately, even if training has only one.
        slots = tuple(dataclasses.replace(s, per_opponent=s.learns) for s in slots)
    experiment = dataclasses.replace(
        plan.experiment,
        slots=slots,
        outer=Frozen(),
        num_games=plan.num_eval_games,
        num_opponents=plan.num_eval_opponents,
        chunk_size=1,
        num_steps=None,
        keep_parts=False,
        keep_curves=plan.env.num_outer_steps > 1,
        mesh=None,
    )
    return Plan(config, plan.game, experiment, plan.params, 1)


def _seated(
    config: ExperimentConfig, game: GameSpec, env: Environment
) -> tuple[ExperimentConfig, tuple[str, ...]]:
    """Returns the config with an agent for every player, and notices for the user.

    An agent that plays saved weights gets the name and the options that it was saved
    with. An agent that learns from saved weights on must be the agent of the weights.
    """
    agents = seating.seated(config.agents, game, env.num_players)
    config = dataclasses.replace(config, agents=agents)
    notices = []
    for seat in seating.seats(config):
        if seat.plays_weights:
            agent, notice = saved.as_saved(seat)
            agents = (*agents[: seat.index], agent, *agents[seat.index + 1 :])
            notices += [notice] if notice else []
        elif seat.agent.model_path is not None:
            saved.check_weights(seat)
    config = dataclasses.replace(config, agents=agents)
    if notices and not config.origin("name").typed:
        # With another agent it is not a run of its experiment.
        empty = dict.fromkeys(("name", "description", "expected", "source"), "")
        config = dataclasses.replace(config, **empty, bands={})
    return config, tuple(notices)


def _trained_options(seat: seating.Seat) -> dict[str, Any]:
    """Returns the options of weights that are played as they were saved."""
    return saved.saved_record(seat.agent)["config"] if seat.plays_weights else {}


def _optimised(config: ExperimentConfig) -> tuple[ExperimentConfig, OuterOptimiser]:
    """Returns the config, and its outer optimiser."""
    if config.kind.evolves:
        for i, agent in enumerate(config.agents, start=1):
            written = config.origin(f"agent{i}.clock")
            if agent.clock == "trial" and written.typed:
                raise ConfigError(
                    f"agent{i}.clock=trial (from {written}): with evo every trial "
                    "begins anew, so learners need clock=inner"
                )
        options = evolution.without_leftovers(config)
        agents, outer = evolution.evolution(config.agents, options)
        return dataclasses.replace(config, agents=agents, es=options), outer
    return config, Gradient() if config.kind.trains else Frozen()


def _num_iterations(
    config: ExperimentConfig,
    env: Environment,
    num_steps: int | None,
    outer: OuterOptimiser,
) -> tuple[int, tuple[str, ...]]:
    """Returns the iterations that hold `total_timesteps`, and a notice if not exact."""
    if not config.kind.trains:
        return 1, ()
    if config.kind.evolves and config.es.num_generations is not None:
        return config.es.num_generations, ()
    each = num_steps or env.num_inner_steps * env.num_outer_steps
    steps = each * config.num_envs * config.num_opponents * outer.num_trials
    name, budget = "total_timesteps", config.total_timesteps
    if config.kind.reads("search") and INNER_BUDGET in config.search:
        name, budget = INNER_BUDGET, config.search[INNER_BUDGET]
    iterations = -(-budget // steps)
    total = iterations * steps
    if total == budget:
        return iterations, ()
    games = counted(config.num_envs, "game")
    if config.num_opponents > 1:
        games += f" x {counted(config.num_opponents, 'opponent')}"
    if outer.num_trials > 1:
        games += f" x {counted(outer.num_trials, 'member')}"
    return iterations, (
        f"{name}={budget:_} is {budget / steps:.2f} iterations of {games} x "
        f"{counted(each, 'step')}: the run has {counted(iterations, 'iteration')}, "
        f"{counted(total, 'step')}",
    )


def _check_kind(config: ExperimentConfig) -> None:
    """Raises ConfigError for settings that a runner cannot serve.

    An agent that `evo` searches has no update of its own. The play of `sarl` is
    endless, so that there are no trials, and its co-players are parts of the game.

    Args:
        config: The experiment, in which agents that are searched are marked by `es`.
    """
    who, rl = config.runner, "use `paxrun rl`"
    for i, agent in enumerate(config.agents):
        if config.kind.evolves and agent.es is not None:
            searched = "is about learning, and with evo the agent is searched"
            _refuse(config, i, OF_LEARNING, f"{searched}: leave it out")
        if config.kind.endless:
            counts = f"counts trials, and {who} plays without an end: {rl}"
            _refuse(config, i, OF_TRIALS, counts)
        if config.kind.endless and i > 0:
            part = f"is for a player, and with {who} the others are a part of the game"
            _refuse(config, i, OF_A_PLAYER, f"{part}: {rl}")
    if config.kind.endless and config.payoff_sampler is not None:
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


def _check_learns(config: ExperimentConfig, slots: Sequence[Slot]) -> None:
    """Raises ConfigError if the runner needs a learner and no agent learns."""
    if config.kind.needs_a_learner and not any(slot.learns for slot in slots):
        players = [agent.name for agent in config.agents]
        raise ConfigError(
            f"nobody learns in {' v '.join(grouped(players))}: `paxrun "
            "eval` plays agents without training"
        )


def _check_searched(config: ExperimentConfig, slots: Sequence[Slot]) -> None:
    """Raises ConfigError if an agent is searched that has no parameters to search."""
    if not config.kind.evolves:
        return
    for i, (agent, slot) in enumerate(zip(config.agents, slots, strict=True), start=1):
        if agent.es is None:
            continue
        try:
            used_by_policy(slot.agent)
        except ValueError as error:
            # The user knows the agent by its name, not by the class that plays it.
            said = str(error).replace(type(slot.agent).__name__, agent.name)
            raise ConfigError(f"agent{i}: {said}", f"agent{i}.name") from error


def _mesh(config: ExperimentConfig) -> Mesh | None:
    """Returns the devices of a run, None for the default one."""
    if config.num_devices == 1 and config.fsdp_devices == 1:
        return None
    if config.num_devices % config.fsdp_devices:
        raise ConfigError(
            f"fsdp_devices must divide num_devices, got {config.fsdp_devices} and "
            f"{config.num_devices}",
            "fsdp_devices",
        )
    return make_mesh(config.fsdp_devices, config.num_devices)


def _completed(
    config: ExperimentConfig,
    game: GameSpec,
    experiment: Experiment,
    num_iterations: int,
) -> ExperimentConfig:
    """Returns the config with a name and the intervals that follow from the rest."""
    if config.kind.num_evaluations and not config.eval_interval:
        iterations = -(-num_iterations // config.kind.num_evaluations)
        interval = iterations * experiment.steps_per_iteration
        config = dataclasses.replace(config, eval_interval=interval)
    if not config.name:
        name = _custom_name(game, config.agents)
        config = dataclasses.replace(config, name=name)
    return config


def _custom_name(game: GameSpec, agents: tuple[AgentConfig, ...]) -> str:
    # A family of its own: exp/IPD and exp/ipd, that of stored experiments, are the same
    # folder where case does not count.
    stem = game.id.removeprefix("pax/").partition("-v")[0]
    players = grouped([agent.name for agent in agents])
    return f"custom/{stem}/{'_v_'.join(players)}"


def _check_outer(
    config: ExperimentConfig, experiment: Experiment, params: PyTree
) -> None:
    """Checks that the parts of an outer loop fit together.

    Args:
        config: The config of the run.
        experiment: Its inner loop.
        params: The game's numbers.

    Raises:
        ConfigError: If a setting, a search target or the strategy does not fit.
    """
    for name, only in config.kind.only.items():
        if getattr(config, name) != only:
            raise ConfigError(
                f"{name}={getattr(config, name)} is for `paxrun rl` and `sarl`; "
                f"`paxrun {config.runner}` takes {name}={only}"
            )
    if not config.kind.reads("search"):
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


def _without_effect(config: ExperimentConfig) -> tuple[str, ...]:
    """Returns a notice for every command-line setting that only training uses."""
    return tuple(
        f"{config.origin(name)}: {name} is about training, and eval does not train"
        for name in OF_TRAINING
        if config.origin(name).on_command_line
    )
