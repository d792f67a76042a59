"""What `OnPolicyRunner` makes of its arguments: a game, a learner, a device."""

from typing import Any

import gymnasium
import jax
from gymnasium.vector import VectorEnv

import paxenv
from paxenv_agents.agent import Agent, seated
from paxenv_agents.learners.ppo import PPO, PPOConfig, RecurrentPPO, RecurrentPPOConfig
from paxenv_agents.networks import options
from runners.session.runner_config import game_of, params_of
from runners.views.on_policy.host import as_vector_env

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
        ValueError: If it does not learn, or not on policy.
    """
    _check_on_policy(agent_class)
    _ALGORITHMS[name.lower()] = (agent_class, config_class)


def make_game(env: Any, params: Any = None) -> tuple[Any, Any]:
    """Returns (game of one player, its numbers), or (vector environment, None).

    Args:
        env: A native game, a pair (game, numbers), an id such as `"CartPole-v1"`, a
            Gymnasium vector environment or a plain one.
        params: Numbers of a native game; None: its own.

    Raises:
        ValueError: If the game has several players, or is none.
    """
    if isinstance(env, gymnasium.Env | VectorEnv):
        if params is not None:
            raise ValueError("env_params are numbers of native games, not of Gymnasium")
        return as_vector_env(env), None
    own = None
    if isinstance(env, str):
        env, own = paxenv.make(env)
    elif isinstance(env, tuple) and len(env) == 2:
        env, own = env
    game = game_of(env)
    return game, params_of(game, own if params is None else params)


def make_agent(
    algorithm: str,
    env: Any,
    cfg: Any,
    networks: dict[str, Any],
    agent: Agent | None,
) -> Any:
    """Returns the learner: the one that is given, or a new one.

    Args:
        algorithm: A registered name.
        env: What `make_game` returned.
        cfg: Options of the learner, as its config class or as a dict; None: defaults.
        networks: `actor_class`, `critic_class`, `actor_cfg` and `critic_cfg`.
        agent: A learner that is ready.

    Raises:
        ValueError: If the name is unknown, or arguments contradict each other.
    """
    if agent is not None:
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
    """Returns the device that is meant; None stands for JAX's own choice.

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
    if number and not number.isdigit():
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
    """Raises ValueError if an agent that is given sees or does something else."""
    seat = seated(env)

    def form(space: gymnasium.Space) -> tuple[Any, ...]:
        # Bounds and dtypes of the same game differ between libraries.
        return type(space), space.shape, getattr(space, "n", None)

    for what in ("observation_space", "action_space"):
        have, found = getattr(agent, what), getattr(seat, what)(0)
        if form(have) != form(found):
            raise ValueError(
                f"the agent was made for the {what} {have}, {seat.name} has {found}"
            )


def _check_on_policy(agent: Any) -> None:
    if not (agent.learns and agent.on_policy):
        name = getattr(agent, "__name__", type(agent).__name__)
        raise ValueError(
            f"{name} does not learn from what it has just played: OnPolicyRunner is "
            "for PPO and its like"
        )
