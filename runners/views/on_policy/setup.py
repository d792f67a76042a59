"""Construction of an `OnPolicyRunner`'s parts from its arguments.

The parts are a game, a learner, a device, the program that is advanced, the checkpoint
to load, and the place of evaluations.
"""

import contextlib
import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import gymnasium
import jax
from gymnasium.vector import (
    VectorActionWrapper,
    VectorEnv,
    VectorObservationWrapper,
    VectorWrapper,
)
from jaxtyping import PyTree

from paxenv import options
from paxenv.wording import counted
from paxenv_agents.agent import Agent, seated
from paxenv_agents.learners.ppo import PPO, PPOConfig, RecurrentPPO, RecurrentPPOConfig
from paxenv_agents.registry import check_agent
from runners.engine.devices import count
from runners.engine.program import (
    CompiledProgram,
    StagedProgram,
    evaluation_keys,
    initial_state,
    run_keys,
)
from runners.engine.statistics import summarise
from runners.session.evaluation import greedy_statistics, play_on_host
from runners.session.host_play import HostProgram, as_vector_env
from runners.session.one_learner import experiment_of
from runners.session.runner_config import GameLike, check_made_for, game_and_params
from runners.storage.checkpoints import files
from runners.storage.checkpoints.files import NoCheckpointError, find_checkpoint
from runners.storage.checkpoints.store import CheckpointStore

_ALGORITHMS: dict[str, tuple[Any, Any]] = {
    "ppo": (PPO, PPOConfig),
    "recurrent_ppo": (RecurrentPPO, RecurrentPPOConfig),
}


def register_algorithm(name: str, agent_class: Any, config_class: Any) -> None:
    """Makes a learner known to `OnPolicyRunner(env, name)`; replaces one of that name.

    Args:
        name: The name, in any case.
        agent_class: Has `from_env(env, config, actor_class, critic_class, actor_cfg=,
            critic_cfg=)`, as `paxenv_agents.learners.ppo.PPO`, and learns on policy.
        config_class: Its options, a dataclass.

    Raises:
        ValueError: If it does not learn, or learns off policy.
    """
    if not isinstance(name, str):
        raise ValueError(f"name must be a text, got {name!r}")
    if not (isinstance(agent_class, type) and issubclass(agent_class, Agent)):
        raise ValueError(f"agent_class must be a class of agents, got {agent_class!r}")
    _check_on_policy(agent_class)
    _ALGORITHMS[name.lower()] = (agent_class, config_class)


def make_game(
    env: GameLike | gymnasium.Env | VectorEnv, params: PyTree = None
) -> tuple[Any, Any]:
    """Returns (game of one player, its numbers), or (vector environment, None).

    Args:
        env: A native game, a pair (game, numbers), an id such as `"CartPole-v1"`, a
            Gymnasium vector environment or a plain one.
        params: Numbers of a native game; None: its own.

    Raises:
        ValueError: If the game has several players, or `env` is not a game.
    """
    if isinstance(env, gymnasium.Env | VectorEnv):
        if params is not None:
            raise ValueError("env_params are numbers of native games, not of Gymnasium")
        return as_vector_env(env), None
    return game_and_params(env, params)


def make_agent(
    algorithm: str,
    env: Any,
    cfg: Any,
    networks: dict[str, Any],
    agent: Agent | None,
) -> Any:
    """Returns the given learner, or a new one.

    Args:
        algorithm: A registered name.
        env: The game, as `make_game` returns it.
        cfg: Options of the learner, as its config class or as a dict; None: defaults.
        networks: `actor_class`, `critic_class`, `actor_cfg` and `critic_cfg`.
        agent: A learner that is used as it is.

    Raises:
        ValueError: If the name is unknown, or arguments contradict each other.
    """
    if agent is not None:
        check_agent(agent)
        _check_on_policy(agent)
        given = sorted(name for name, value in networks.items() if value is not None)
        if given:
            raise ValueError(
                f"the agent has its networks: leave out agent, or {', '.join(given)}"
            )
        if cfg is not None and cfg != getattr(agent, "config", None):
            raise ValueError(
                "cfg is not the config of the agent that was given: leave it out, or "
                f"pass it to {type(agent).__name__}.from_env"
            )
        _check_seat(agent, env)
        return agent
    if not isinstance(algorithm, str):
        raise ValueError(
            f"algorithm must be a registered name such as 'ppo', got {algorithm!r}; "
            "an agent is given as agent=..."
        )
    known = _ALGORITHMS.get(algorithm.lower())
    if known is None:
        raise ValueError(
            f"algorithm {algorithm!r} is unknown; known are "
            f"{', '.join(sorted(_ALGORITHMS))}: register_algorithm adds others"
        )
    agent_class, config_class = known
    config = config_class() if cfg is None or isinstance(cfg, dict) else cfg
    if isinstance(cfg, dict):
        config = options.with_overrides(config, cfg)
    return agent_class.from_env(seated(env), config, **networks)


def find_device(device: Any) -> Any:
    """Returns the named device; None stands for JAX's own choice.

    Args:
        device: None, `"cpu"`, `"gpu"`, `"cuda:0"`, a `jax.Device`, or anything with
            `type` and `index`, such as a `torch.device`.

    Raises:
        ValueError: If there is no such device.
    """
    if device is None or isinstance(device, jax.Device):
        return device
    if hasattr(device, "type") and hasattr(device, "index"):
        index = "" if device.index is None else f":{device.index}"
        device = f"{device.type}{index}"
    if not isinstance(device, str):
        raise ValueError(
            f'device must be a text such as "cpu" or "cuda:0", a jax.Device or a '
            f"torch.device, got {device!r}"
        )
    platform, _, number = device.partition(":")
    if number and not number.isdecimal():
        raise ValueError(f"device {device!r} has no number after the colon")
    try:
        found = jax.local_devices(backend=platform)
    except RuntimeError as error:
        raise ValueError(
            f"there is no device {device!r} here, JAX sees "
            f"{', '.join(str(d) for d in jax.devices())}"
        ) from error
    if int(number or 0) >= len(found):
        raise ValueError(
            f"there is no device {device!r} here, only {len(found)} of {platform}"
        )
    return found[int(number or 0)]


def _check_seat(agent: Agent, env: Any) -> None:
    """Raises ValueError if the spaces of a given agent are not those of the game."""

    def form(space: gymnasium.Space) -> tuple[Any, ...]:
        # Bounds and dtypes of the same game differ between libraries.
        return type(space), space.shape, getattr(space, "n", None)

    check_made_for(agent, seated(env), form)


def _check_on_policy(agent: Any) -> None:
    if not (agent.learns and agent.on_policy):
        name = getattr(agent, "__name__", type(agent).__name__)
        raise ValueError(
            f"{name} is not an on-policy learner: OnPolicyRunner is for agents such as "
            "PPO"
        )


#: The default number of games at once.
NUM_ENVS = 16
#: Most iterations of one call.
CHUNK = 64


def make_program(
    env: Any,
    params: Any,
    agent: Any,
    num_envs: int | None,
    seed: int,
    device: Any,
) -> StagedProgram:
    """Returns the program before its first iteration.

    Args:
        env: The game, as `make_game` returns it.
        params: Its numbers.
        agent: The learner.
        num_envs: Games at once; None: the config's, or 16.
        seed: The seed of all keys.
        device: The device of all arrays; None: JAX's choice.

    Raises:
        ValueError: If the number of games is not the vector environment's, or a
            rollout does not split into minibatches.
    """
    config_envs = getattr(getattr(agent, "config", None), "num_envs", None)
    on_host = isinstance(env, VectorEnv)
    default = env.num_envs if on_host else NUM_ENVS
    known = [n for n in (num_envs, config_envs, default) if n is not None]
    games = count("num_envs", known[0])
    if on_host and games != env.num_envs:
        raise ValueError(
            f"num_envs={games}, but the vector environment has "
            f"{counted(env.num_envs, 'game')}"
        )
    # Schedules need a plan; `learn` replaces this one.
    agent = planned(agent, 1)
    with contextlib.nullcontext() if device is None else jax.default_device(device):
        if on_host:
            return HostProgram(agent, env, seed, device)
        experiment = experiment_of(agent, env, games, chunk_size=CHUNK, keep_parts=True)
        state = initial_state(experiment, run_keys(seed), params)
        return CompiledProgram(experiment, jax.device_put(state, device))


def planned(agent: Any, num_updates: int) -> Any:
    """Returns the agent, with a plan if its schedules need one and have none."""
    check: Any = getattr(getattr(agent, "config", None), "check_plan", None)
    if check is None:
        return agent
    try:
        check()
    except ValueError:
        return agent.planned(num_updates)
    return agent


def replan(program: StagedProgram, agent: Any, num_updates: int) -> None:
    """Lets the schedules of the program's agent end at the last update.

    Args:
        program: The program.
        agent: The learner as it was given: without a plan, or with its own.
        num_updates: Updates from the beginning of training to its end.
    """
    agent = planned(agent, num_updates)
    before = program.agent
    same = getattr(agent, "config", None) == getattr(before, "config", None)
    if planned(agent, 1) is not agent or not same:
        program.set_agent(agent)


def last_iteration(
    program: StagedProgram,
    agent: Any,
    total_timesteps: int | None,
    num_iterations: int | None,
) -> int:
    """Returns the iteration at which `learn` ends, from the beginning of training.

    Args:
        program: The program.
        agent: The learner, whose config may hold the length.
        total_timesteps: Steps from the beginning of training, rounded up.
        num_iterations: Iterations from now on; wins.

    Raises:
        ValueError: If no length is given, or it is less than an iteration.
    """
    if num_iterations is not None:
        return program.iteration + count("num_iterations", num_iterations)
    per_iteration = program.steps_per_iteration
    if total_timesteps is not None:
        total_timesteps = count("total_timesteps", total_timesteps)
        if total_timesteps < per_iteration:
            raise ValueError(
                f"total_timesteps={total_timesteps} is less than one iteration of "
                f"{per_iteration} environment steps"
            )
        return math.ceil(total_timesteps / per_iteration)
    config_says = getattr(getattr(agent, "config", None), "num_updates", None)
    if config_says is None:
        raise ValueError(
            "learn needs total_timesteps or num_iterations, or a config with "
            "num_updates"
        )
    return config_says


#: A checkpoint: a name, the environment steps, a path, "latest" or "best".
Which = int | str | os.PathLike[str]


def chosen(store: CheckpointStore | None, which: Which) -> list[Path]:
    """Returns the chosen checkpoint, and for the latest also those before it.

    Args:
        store: The runner's own checkpoints, if it has any.
        which: A name, the environment steps, a path, "latest" (most environment steps,
            named or not) or "best".

    Raises:
        NoCheckpointError: If there is none.
    """
    if store is None:
        if isinstance(which, int) or which in (files.LATEST, files.BEST):
            raise NoCheckpointError(
                f"there is no place to look for {which!r}: give OnPolicyRunner a "
                "save_dir or a log_dir, or load_checkpoint a path"
            )
        return [find_checkpoint(which)]
    if isinstance(which, int) or which == files.LATEST:
        store.wait()
        steps = {files.step_of(path): path for path in files.newest_first(store.folder)}
        if which == files.LATEST and steps:
            return [steps[step] for step in sorted(steps, reverse=True)]
        if isinstance(which, int) and which in steps:
            return [steps[which]]
    return [store.find(which)]


#: Keywords that `make_vec` adds to those of one game.
VECTOR_KWARGS = (
    *("num_envs", "vectorization_mode", "vector_kwargs", "wrappers"),
    *("autoreset_mode", "arrays"),
)
#: Wrappers of vector environments that change observations or actions.
CHANGING = (VectorObservationWrapper, VectorActionWrapper)


class Evaluation:
    """The place of evaluations, which is never the environment of training.

    Attributes:
        game: A native game, or a plain Gymnasium environment.
        params: Numbers of a native game.
    """

    def __init__(self, env: Any, params: Any, eval_env: Any, seed: int) -> None:
        """Finds the place of evaluations.

        Args:
            env: The environment of training, as `make_game` returns it.
            params: Its numbers.
            eval_env: Another native game as `make_game` takes it, or a plain Gymnasium
                environment; None: a new copy of the game.
            seed: The run's seed.

        Raises:
            ValueError: If `eval_env` does not fit `env`.
        """
        self._seed = seed
        self.game: Any = None
        self.params: Any = None
        self._owned = False
        if not isinstance(env, VectorEnv):
            same = eval_env is None
            self.game, self.params = (env, params) if same else make_game(eval_env)
            if isinstance(self.game, VectorEnv):
                raise ValueError("eval_env of a native game is a native game")
            return
        if eval_env is not None and not isinstance(eval_env, gymnasium.Env):
            raise ValueError(
                "eval_env of a vector environment is a plain gymnasium.Env, got "
                f"{eval_env!r}"
            )
        self.game = eval_env
        self._envs = env

    def elsewhere(self, env: Any) -> "Evaluation":
        """Returns the evaluation of the same run in another place, as `eval_env`."""
        trained = self.game if self.params is not None else self._envs
        return Evaluation(trained, self.params, env, self._seed)

    def play(
        self, agent: Agent, state: Any, n_episodes: int, env_steps: int
    ) -> dict[str, float]:
        """Returns the statistics of episodes, by name.

        The same state gives the same numbers: keys and seeds follow from the run's
        seed and the environment steps so far.

        Raises:
            ValueError: If the environment of training has no record from which another
                one can be made.
        """
        n_episodes = count("num_episodes", n_episodes)
        (key,) = evaluation_keys(self._seed, env_steps=env_steps)
        if self.params is not None:
            return greedy_statistics(
                agent, state, self.game, self.params, key, n_episodes
            )
        greedy = dataclasses.replace(agent, greedy=True)
        stats = play_on_host(greedy, state, self._opened(), key, n_episodes)
        return {name: float(x) for name, x in summarise(stats).items()}

    def close(self) -> None:
        """Closes the environment, if it was made here."""
        if self._owned:
            self.game.close()

    def _opened(self) -> gymnasium.Env:
        if self.game is None:
            try:
                made, why = _another(self._envs), None
            except (gymnasium.error.Error, ValueError) as error:
                # Some wrappers keep no record of their arguments.
                made, why = None, error
            if made is None:
                raise ValueError(
                    f"{self._envs} does not say how one of its games is made again: "
                    "give a plain gymnasium.Env that shows and takes the same, "
                    "OnPolicyRunner(..., eval_env=env) or eval(n, env=env)"
                ) from why
            self.game, self._owned = made, True
        return self.game


def _another(envs: VectorEnv) -> gymnasium.Env | None:
    """Returns a new game like those of a vector environment, None without a record."""
    inner = envs
    while isinstance(inner, VectorWrapper):
        if isinstance(inner, CHANGING):
            return None
        inner = inner.env
    if inner.spec is not None:
        game = gymnasium.make(_of_one_game(inner.spec))
        for wrapper in inner.spec.kwargs.get("wrappers") or ():
            game = wrapper(game)
        return game
    makers: Any = getattr(inner, "env_fns", None)
    if not makers:
        return None
    made, playing = makers[0](), getattr(inner, "envs", ())
    if not any(made is env for env in playing):
        return made
    # The function may return the game that is being played.
    return None if made.spec is None else gymnasium.make(made.spec)


def _of_one_game(spec: Any) -> Any:
    """Returns a vector environment's spec without the additions of `make_vec`."""
    kwargs = {k: v for k, v in spec.kwargs.items() if k not in VECTOR_KWARGS}
    limit = kwargs.pop("max_episode_steps", spec.max_episode_steps)
    return dataclasses.replace(spec, kwargs=kwargs, max_episode_steps=limit)
