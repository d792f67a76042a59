"""What an `OnPolicyRunner` advances: a native program, or one of games on the host."""

import contextlib
import math
from typing import Any

import jax
from gymnasium.vector import VectorEnv

from paxenv.wording import counted
from paxenv_agents.engine.lineup import Slot
from runners.engine.devices import count
from runners.engine.experiment import Experiment
from runners.engine.program import (
    CompiledProgram,
    StagedProgram,
    initial_state,
    run_keys,
)
from runners.views.on_policy.host import HostProgram

#: Games at once, where nobody says how many.
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
        env: What `make_game` returned.
        params: Its numbers.
        agent: Who learns.
        num_envs: Games at once; None: the config's, or 16.
        seed: Of all keys.
        device: Where the numbers are; None: JAX's choice.

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
    steps = agent.rollout_length(games)
    agent.check_batch(steps, games)
    # Schedules need some plan; `learn` makes the real one.
    agent = planned(agent, 1)
    with contextlib.nullcontext() if device is None else jax.default_device(device):
        if on_host:
            return HostProgram(agent, env, seed, device)
        experiment = Experiment(
            env=env,
            slots=(Slot(agent),),
            num_games=games,
            num_steps=steps,
            chunk_size=CHUNK,
            keep_parts=True,
        )
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
        program: Where it stands.
        agent: Who learns, as it was given: without a plan, or with its own.
        num_updates: Updates from the very beginning to the end.
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
    """Returns where `learn` ends, in iterations from the very beginning.

    Args:
        program: Where it stands.
        agent: Whose config may say how long.
        total_timesteps: Steps from the very beginning, rounded up.
        num_iterations: Iterations from here on; wins.

    Raises:
        ValueError: If nothing says how long, or it is less than an iteration.
    """
    if num_iterations is not None:
        return program.iteration + count("num_iterations", num_iterations)
    per_iteration = program.steps_per_iteration
    if total_timesteps is not None:
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
