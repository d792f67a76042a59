"""From a config to the engine's objects: mistakes are found before a compile."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import paxenv
from paxenv import keys
from paxenv.registry import GameSpec, OptionError, find
from paxenv.single_player import CO_PLAYER_SEED, SinglePlayer
from paxenv.wording import counted
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from runners.config import AgentConfig, ConfigError, ExperimentConfig
from runners.config.building import coerce
from runners.engine.experiment import Experiment
from runners.engine.interventions import FIELDS, InTurn
from runners.engine.outer import Frozen, Gradient, OuterOptimiser
from runners.engine.placement import make_mesh
from runners.planning import evolution, interventions, seating
from runners.planning.saved import saved_params
from runners.search.outer_options import es_config
from runners.search.space import make_space
from runners.search.unit_search import make_search

#: Options of a game that say how much is played.
STEP_OPTIONS = ("num_inner_steps", "num_outer_steps")
#: Settings that an evaluation has no use for.
OF_TRAINING = (
    *("total_timesteps", "log_interval", "eval_interval", "eval_episodes"),
    *("checkpoint_interval", "max_checkpoints", "keep_period", "non_finite"),
)
#: With `es`, the option of `search` that is an individual's budget.
INNER_BUDGET = "num_steps_per_iteration"


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
        """How often the inner loop trains: in a search more than once."""
        if not self.config.kind.reads("search"):
            return 1
        es = es_config(self.config.search)
        trainings = es.population_size * es.repeats if es.train_agent else 0
        return es.iterations * trainings

    @property
    def total_steps(self) -> int:
        """Environment steps of one seed in all; without those of a last evaluation."""
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
    config, replaced = _seated(config, game, env)
    notices += replaced
    config, outer = _optimised(config)
    interventions.check_runner(config)
    observed, made = _made(config, env, params)
    params_sampler = interventions.payoff_sampler(config, env, params)
    env = interventions.shuffled(config, env)
    num_steps = None
    if config.kind.endless:
        env, params = _one_player_game(config, env, params, made)
        made = made[:1]
        num_steps = made[0].rollout_length(config.num_envs)
    num_iterations, rounding = _num_iterations(config, env, num_steps, outer)
    experiment = Experiment(
        env=env,
        slots=_slots(config, made, observed, env, num_steps, num_iterations),
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
    """Returns the plan of one iteration in which nobody learns between trials."""
    config = dataclasses.replace(plan.config, runner="eval")
    slots = tuple(
        seating.evaluated(slot, plan.env, config.deterministic)
        for slot in plan.experiment.slots
    )
    if plan.evolves:
        # Of many opponents each learns by itself, also where training has one.
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
        try:
            env, params = paxenv.make(game.id, **options)
        except OptionError as error:
            raise ConfigError(f"env.{error}") from error
    notices = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return env, params, tuple(dict.fromkeys(notices))


def payoff_table(params: Any) -> np.ndarray | None:
    """Returns a game's payoff numbers, None for a game without any."""
    for name in FIELDS:
        payoff = getattr(params, name, None)
        if payoff is not None:
            return np.asarray(payoff)
    return None


def _seated(
    config: ExperimentConfig, game: GameSpec, env: Any
) -> tuple[ExperimentConfig, tuple[str, ...]]:
    """Returns the config with an agent for every player, and what is to be said.

    Who plays saved weights stands there under the name and with the options that it was
    saved with. Who starts from some and learns on must be the agent that they are of.
    """
    seated = seating.seated(config.agents, game, env.num_players)
    config = dataclasses.replace(config, agents=seated)
    agents, notices = list(seated), []
    for i, agent in enumerate(seated):
        if seating.plays_weights(i, agent, config):
            agents[i], notice = seating.as_saved(i, config)
            notices += [notice] if notice else []
        else:
            seating.check_weights(i, config)
    config = dataclasses.replace(config, agents=tuple(agents))
    if notices and not config.origin("name").typed:
        # With another agent it is no run of its experiment.
        empty = dict.fromkeys(("name", "description", "expected", "source"), "")
        config = dataclasses.replace(config, **empty, bands={})
    return config, tuple(notices)


def _optimised(config: ExperimentConfig) -> tuple[ExperimentConfig, OuterOptimiser]:
    """Returns the config, and what changes its agents from trial to trial."""
    if config.kind.evolves:
        for i, agent in enumerate(config.agents, start=1):
            written = config.origin(f"agent{i}.clock")
            if agent.clock == "trial" and written.typed:
                raise ConfigError(
                    f"agent{i}.clock=trial (from {written}): with evo every trial "
                    "begins anew, so who learns does so on the clock inner"
                )
        options = evolution.without_leftovers(config)
        agents, outer = evolution.evolution(config.agents, options)
        return dataclasses.replace(config, agents=agents, es=options), outer
    return config, Gradient() if config.kind.trains else Frozen()


def _made(
    config: ExperimentConfig, env: Any, params: Any
) -> tuple[list[InTurn | None], list[Agent]]:
    """Returns what each agent observes the game through, and the agents."""
    observed = [
        interventions.observer(f"agent{i + 1}", agent, env, params, config.num_envs)
        for i, agent in enumerate(config.agents)
    ]
    made = [
        seating.make_agent(
            i, agent, interventions.observed_game(env, params, seen), config
        )
        for i, (agent, seen) in enumerate(zip(config.agents, observed, strict=True))
    ]
    return observed, made


def _one_player_game(
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


def _num_iterations(
    config: ExperimentConfig,
    env: Any,
    num_steps: int | None,
    outer: OuterOptimiser,
) -> tuple[int, tuple[str, ...]]:
    """Returns how many iterations hold `total_timesteps`, and a notice if not exact."""
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


def _slots(
    config: ExperimentConfig,
    made: list[Any],
    observed: list[Any],
    env: Any,
    num_steps: int | None,
    num_iterations: int,
) -> tuple[Slot, ...]:
    """Returns the slots, whose agents know how often they will update.

    Raises:
        ConfigError: If nobody learns who should.
    """
    slots = []
    for i, agent in enumerate(made):
        entry = config.agents[i]
        inner = entry.clock == "inner" and num_steps is None
        trials = min(num_iterations, _trials_of_a_life(entry, num_iterations))
        if config.kind.evolves:
            # Who learns under evolution starts anew in each trial.
            trials = 1
        agent = agent.planned(trials * (env.num_outer_steps if inner else 1))
        slots.append(
            seating.make_slot(i, entry, agent, env, config, num_steps, observed[i])
        )
    if config.kind.needs_a_learner and not any(slot.learns for slot in slots):
        raise ConfigError(
            f"nobody learns in {' v '.join(a.name for a in config.agents)}: `paxrun "
            "eval` plays agents without training"
        )
    return tuple(slots)


def _trials_of_a_life(agent: AgentConfig, num_iterations: int) -> int:
    """Returns how many trials an agent plays before it starts afresh, or in all."""
    if agent.reset == "never":
        return num_iterations
    return min(num_iterations, 1 if agent.reset == "trial" else int(agent.reset))


def _mesh(config: ExperimentConfig) -> Any:
    """Returns the devices of a run, None for the default one."""
    if config.num_devices == 1 and config.fsdp_devices == 1:
        return None
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
    return f"custom/{stem}/{'_v_'.join(agent.name for agent in agents)}"


def _check_outer(config: ExperimentConfig, experiment: Experiment, params: Any) -> None:
    """Finds what does not fit together.

    Args:
        config: What is to run.
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
    """Returns a notice for every setting of the command line that is of training."""
    return tuple(
        f"{config.origin(name)}: {name} is about training, and eval does not train"
        for name in OF_TRAINING
        if config.origin(name).on_command_line
    )
