"""The lanes of an experiment: their keys, and how they are played."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from paxenv_agents.engine.game_batch import GameBatch
from paxenv_agents.engine.play import Trial, play_trial
from paxenv_agents.engine.stream import Rollout, open_stream, play_steps
from paxenv_agents.types import TrainingState
from runners.engine import placement
from runners.engine.tags import LANES, SAMPLERS
from runners.engine.types import RunState, Setup


def map_axis(
    f: Callable[..., Any], in_axes: tuple[Any, ...], size: int
) -> Callable[..., Any]:
    """Returns `f` over a leading axis of `size`: `jax.vmap`, which one copy needs not.

    Under `vmap` both branches of a `lax.cond` are run, so a single copy goes without.

    Args:
        f: A function of one copy.
        in_axes: For each argument 0, None, or a tuple of these for its parts.
        size: Length of the axis.
    """
    if size != 1:
        return jax.vmap(f, in_axes=in_axes)

    def alone(*args: Any) -> Any:
        parts = [_first(axes, arg) for axes, arg in zip(in_axes, args, strict=True)]
        return jax.tree.map(lambda x: x[None], f(*parts))

    return alone


def _first(axes: Any, tree: Any) -> Any:
    if isinstance(axes, tuple):
        return tuple(_first(a, part) for a, part in zip(axes, tree, strict=True))
    return tree if axes is None else jax.tree.map(lambda x: x[0], tree)


#: In place of a seat in the keys of samplers: the game's numbers.
PARAMS_SEAT = 2**16


def trial_params(experiment: Setup, state: RunState) -> tuple[Any, int | None]:
    """Returns (the game's numbers in the next trial, their axis of opponents).

    The draw depends on the run, the trial and the opponent, on nothing else: members
    of a population play the same games.
    """
    sampler = experiment.params_sampler
    if sampler is None:
        return state.params, None
    key = jax.random.fold_in(jax.random.fold_in(state.key, SAMPLERS), state.iteration)

    def drawn(opponent: jax.Array) -> Any:
        own = jax.random.fold_in(jax.random.fold_in(key, opponent), PARAMS_SEAT)
        return sampler(own, state.params)

    if experiment.params_per_opponent:
        return jax.vmap(drawn)(jnp.arange(experiment.num_opponents)), 0
    return drawn(jnp.zeros((), jnp.int32)), None


COMMON_MEMBER = 0


def lane_keys(
    experiment: Setup,
    run_key: Key[Array, ""],
    member: int | Int[Array, ""] = COMMON_MEMBER,
) -> Key[Array, "opponents games"]:
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


def open_streams(experiment: Setup, state: RunState) -> GameBatch:
    """Opens the endless games against every opponent, `[opponents, games, ...]`."""
    lanes = placement.games_on(experiment.mesh, lane_keys(experiment, state.key))
    streams = map_axis(
        functools.partial(open_stream, experiment.lineup),
        (None, state_axes(experiment), 0),
        experiment.num_opponents,
    )(state.params, state.agents, lanes)
    return placement.games_on(experiment.mesh, streams)


def play_opponents(
    experiment: Setup, state: RunState, members: tuple[TrainingState, ...]
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
    experiment: Setup,
    state: RunState,
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


def state_axes(experiment: Setup) -> tuple[int | None, ...]:
    """Returns for each slot the axis of opponents of its training state."""
    return tuple(0 if slot.per_opponent else None for slot in experiment.slots)
