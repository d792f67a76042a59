"""The lanes of an experiment: their keys, and how they are played."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from paxenv_agents.play import Trial, play_trial
from paxenv_agents.stream import Rollout, open_stream, play_steps
from paxenv_agents.types import TrainingState
from runners import placement
from runners.axes import map_axis
from runners.tags import LANES
from runners.trial_params import trial_params

COMMON_MEMBER = 0


def lane_keys(
    experiment: Any, run_key: jax.Array, member: int | jax.Array = COMMON_MEMBER
) -> jax.Array:
    """Returns the keys of all lanes, `[opponents, games]`, for `paxenv.replay`.

    Args:
        experiment: What runs.
        run_key: The run's key.
        member: Whose lanes, in a population without common random numbers.
    """
    root = jax.random.fold_in(jax.random.fold_in(run_key, LANES), member)
    fold = jax.random.fold_in
    opponents = jax.vmap(fold, (None, 0))(root, jnp.arange(experiment.num_opponents))
    games = jnp.arange(experiment.num_games)
    return jax.vmap(lambda k: jax.vmap(fold, (None, 0))(k, games))(opponents)


def open_streams(experiment: Any, state: Any) -> Any:
    """Opens the endless games against every opponent, `[opponents, games, ...]`."""
    lanes = placement.games_on(experiment.mesh, lane_keys(experiment, state.key))
    streams = map_axis(
        functools.partial(open_stream, experiment.lineup),
        (None, state_axes(experiment), 0),
        experiment.num_opponents,
    )(state.params, state.agents, lanes)
    return placement.games_on(experiment.mesh, streams)


def play_opponents(
    experiment: Any, state: Any, members: tuple[TrainingState, ...]
) -> Trial | Rollout:
    """Plays against every opponent; leaves get a leading axis [opponents]."""
    axes = state_axes(experiment)
    if experiment.num_steps is not None:
        play = functools.partial(
            play_steps, experiment.lineup, num_steps=experiment.num_steps
        )
        played = map_axis(play, (None, axes, 0), experiment.num_opponents)(
            state.params, members, state.stream
        )
        stream = placement.games_on(experiment.mesh, played.stream)
        return played._replace(states=members, stream=stream)
    return play_trials(experiment, state, members)


def play_trials(
    experiment: Any,
    state: Any,
    members: tuple[TrainingState, ...],
    member: int | jax.Array = COMMON_MEMBER,
    *,
    scan: Callable[..., Any] = jax.lax.scan,
) -> Trial:
    """Plays a trial against every opponent, with the keys of one member."""
    lanes = lane_keys(experiment, state.key, member)
    if experiment.outer.num_members is None:
        lanes = placement.games_on(experiment.mesh, lanes)
    params, params_axis = trial_params(experiment, state)
    trial = map_axis(
        functools.partial(play_trial, experiment.lineup, scan=scan),
        (params_axis, state_axes(experiment), 0, None),
        experiment.num_opponents,
    )(params, members, lanes, state.iteration)
    # A shared state was changed by one opponent at most.
    states = tuple(
        after if slot.per_opponent else jax.tree.map(lambda x: x[0], after)
        for slot, after in zip(experiment.slots, trial.states, strict=True)
    )
    return trial._replace(states=states)


def state_axes(experiment: Any) -> tuple[int | None, ...]:
    """Returns for each slot the axis of opponents of its training state."""
    return tuple(0 if slot.per_opponent else None for slot in experiment.slots)
