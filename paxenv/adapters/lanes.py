"""Lanes: streams of trials that adapters step, one compiled call for each step.

The functions below `Lane` are written for one lane. The compiled ones at the end are
at module level with the game as a static argument, so that equal games share one
compilation and the adapters that call them can be pickled.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from gymnasium.vector import AutoresetMode
from jaxtyping import Array, Bool, Int, Key, PyTree

from paxenv import keys, missing, spaces
from paxenv.adapters import infos
from paxenv.adapters.packing import Packed, pack
from paxenv.environment import Environment, where
from paxenv.metrics import Accumulator
from paxenv.single_player import SinglePlayer
from paxenv.types import Count, Flag, Info

#: What a game's info holds for wrappers and trainers in JAX, not for users of adapters.
NATIVE_ONLY = ("final_obs", "obs_before")
#: How adapters name what is said of an inner episode: the bare words are those of the
#: trial, and readers of info by name, such as TorchRL's, would take one for the other.
INNER = {"terminated": "inner_terminated", "truncated": "inner_truncated"}
#: `keys.step` at this time is `keys.reset`: both are one fold of the episode's key.
OPENING = -1

#: What adapters step: a game, or one seat of it.
Game = Environment | SinglePlayer


class Totals(struct.PyTreeNode):
    """Statistics of a trial so far.

    Attributes:
        sums: Sums over steps of rewards and of the metrics of each transition.
        metrics: The game's own accumulator.
    """

    sums: dict[str, Any]
    metrics: Accumulator


class Lane(struct.PyTreeNode):
    """A stream of trials: everything that changes.

    Attributes:
        key: The lane's key.
        e: Number of the trial, from 0. int32 scalar.
        over: Whether the trial has ended and no other was opened. bool scalar.
        state: The game's state.
        obs: What the players see.
        totals: Statistics of the trial.
    """

    key: Key[Array, ""]
    e: Count
    over: Flag
    state: Any
    obs: PyTree
    totals: Totals


class Transition(NamedTuple):
    """What one step shows.

    Attributes:
        obs: Observations after the step.
        rewards: Rewards of the step.
        terminated: Whether the trial ended by the game's rules.
        truncated: Whether the time limit ended the trial.
        info: The native info, without `NATIVE_ONLY`; zeros where no step was made.
    """

    obs: PyTree
    rewards: PyTree
    terminated: Any
    truncated: Any
    info: Info


class Ending(NamedTuple):
    """End of a trial in a step that then opened the next trial.

    Attributes:
        obs: The final observations.
        info: The info of the step.
        totals: Statistics of the trial.
    """

    obs: PyTree
    info: Info
    totals: Totals


def open_trial(env: Game, key: Key[Array, ""], e: keys.IntLike, params: PyTree) -> Lane:
    """Opens trial number `e` of the lane whose key is `key`."""
    sums = _zeros(jax.eval_shape(functools.partial(_first_step, env), params)[1])
    return _opened(env, key, e, keys.reset(keys.episode(key, e)), params, sums)


def play(
    env: Game, lane: Lane, action: PyTree, params: PyTree
) -> tuple[Lane, Transition]:
    """Plays one step; after the end of the trial it changes nothing."""
    key = keys.step(keys.episode(lane.key, lane.e), lane.state.t)
    return _played(env, lane, key, action, params)


def play_next_step(
    env: Game, lane: Lane, action: PyTree, params: PyTree
) -> tuple[Lane, Transition]:
    """Plays one step, or opens the next trial where one has ended.

    Both are traced from the same key, so the compiler draws once.
    """
    e = lane.e + lane.over
    t = jnp.where(lane.over, OPENING, lane.state.t)
    key = keys.step(keys.episode(lane.key, e), t)
    sums = _zeros(lane.totals.sums)
    opened = _opened(env, lane.key, e, key, params, sums)
    played, transition = _played(env, lane, key, action, params)
    opening = _zeros(transition)._replace(obs=opened.obs)
    return where(lane.over, (opened, opening), (played, transition))


def play_same_step(
    env: Game, lane: Lane, action: PyTree, params: PyTree
) -> tuple[Lane, Transition, Ending]:
    """Plays one step, and opens the next trial in it where the trial ends."""
    played, transition = play(env, lane, action, params)
    e = lane.e + played.over
    reset_key = keys.reset(keys.episode(lane.key, e))
    sums = _zeros(lane.totals.sums)
    opened = _opened(env, lane.key, e, reset_key, params, sums)
    after = where(played.over, opened, played)
    ending = Ending(transition.obs, transition.info, played.totals)
    info = where(played.over, _zeros(transition.info), transition.info)
    return after, transition._replace(obs=after.obs, info=info), ending


def statistics(env: Game, totals: Totals) -> Info:
    """Returns a trial's sums of rewards and metrics, and the game's statistics."""
    return {**totals.sums, **env.metrics_final(totals.metrics)}


@functools.partial(jax.jit, static_argnums=0)
def open_one(env: Game, key: Key[Array, ""], e: keys.IntLike, params: PyTree) -> Packed:
    """`open_trial`, compiled, packed."""
    return pack(open_trial(env, key, e, params))


@functools.partial(jax.jit, static_argnums=0)
def play_one(
    env: Game, lane: Packed, action: PyTree, params: PyTree
) -> tuple[Packed, Packed]:
    """`play`, compiled, packed: few arrays go in and out, which is most of its time."""
    after, transition = play(env, lane.unpack(), action, params)
    return pack(after), pack(transition)


@functools.partial(jax.jit, static_argnums=0)
def statistics_of_one(env: Game, lane: Packed) -> Packed:
    """`statistics`, compiled, packed."""
    return pack(statistics(env, lane.unpack().totals))


@jax.jit
def unpack(lane: Packed) -> Lane:
    """Returns a packed lane as it was."""
    return lane.unpack()


@functools.partial(jax.jit, static_argnums=0)
def open_many(
    env: Game, lane_keys: Key[Array, " lanes"], e: Int[Array, " lanes"], params: PyTree
) -> Lane:
    """Opens trial `e[i]` in every lane i, compiled."""
    opening = functools.partial(open_trial, env)
    return jax.vmap(opening, in_axes=(0, 0, None))(lane_keys, e, params)


@jax.jit
def choose(mask: Bool[Array, " lanes"], chosen: Lane, others: Lane) -> Lane:
    """Returns the lanes of `chosen` where `mask` holds, of `others` elsewhere."""
    return jax.vmap(where)(mask, chosen, others)


@functools.partial(jax.jit, static_argnums=(0, 1))
def play_many(
    env: Game, mode: AutoresetMode, lanes: Lane, actions: PyTree, params: PyTree
) -> tuple[Lane, Packed, Ending | None]:
    """Steps all lanes under an autoreset mode, compiled, with the transition packed."""
    lanes, transition, ending = _all_played(env, mode, lanes, actions, params)
    return lanes, pack(transition), ending


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def play_many_on_device(
    env: Game,
    mode: AutoresetMode,
    form: str,
    flag: bool,
    lanes: Lane,
    actions: PyTree,
    params: PyTree,
) -> tuple[Lane, Transition]:
    """Steps all lanes under an autoreset mode, compiled, with info in vector form.

    The transition is copied, so that it shares no memory with the lanes. With `flag`
    the floats of its info are `missing.Flagged`.
    """
    lanes, transition, ending = _all_played(env, mode, lanes, actions, params)
    named = jax.vmap(functools.partial(statistics, env))(totals_of(lanes, ending))
    done = transition.terminated | transition.truncated
    info = infos.masked(jnp.ones_like(done), infos.arranged(transition.info, form))
    metrics = infos.masked(done, infos.arranged({"episode_metrics": named}, form))
    if ending is None:
        info |= metrics
    else:
        info |= {"final_obs": ending.obs, "_final_obs": done}
        last_info = infos.arranged(ending.info, form)
        info |= {"final_info": infos.masked(done, last_info) | metrics}
        info |= {"_final_info": done}
    transition = jax.tree.map(jnp.copy, transition._replace(info=info))
    if flag:
        transition = transition._replace(info=missing.flagged(transition.info))
    return lanes, transition


@functools.partial(jax.jit, static_argnums=0)
def statistics_of_many(env: Game, totals: Totals) -> Packed:
    """`statistics` of all lanes, compiled, packed."""
    return pack(jax.vmap(functools.partial(statistics, env))(totals))


def statistics_shapes(env: Game, params: PyTree) -> dict[str, Any]:
    """Returns the shapes and dtypes of a trial's statistics, without a computation."""

    def named() -> dict[str, Any]:
        lane = open_trial(env, jax.random.key(0), 0, params)
        return statistics(env, lane.totals)

    return jax.eval_shape(named)


def info_shapes(env: Game, params: PyTree) -> dict[str, Any]:
    """Returns the shapes and dtypes of a step's info, without a computation."""
    return jax.eval_shape(functools.partial(_first_step, env), params)[0]


def _all_played(
    env: Game, mode: AutoresetMode, lanes: Lane, actions: PyTree, params: PyTree
) -> tuple[Lane, Transition, Ending | None]:
    """Returns (lanes, transition, ending), the ending only in mode `SAME_STEP`."""
    function = {
        AutoresetMode.NEXT_STEP: play_next_step,
        AutoresetMode.SAME_STEP: play_same_step,
        AutoresetMode.DISABLED: play,
    }[mode]
    play_lane = functools.partial(function, env)
    outputs = jax.vmap(play_lane, in_axes=(0, 0, None))(lanes, actions, params)
    return outputs if len(outputs) == 3 else (*outputs, None)


def totals_of(lanes: Lane, ending: Ending | None) -> Totals:
    """Returns the statistics of the trials that a step has ended, or goes on with."""
    return lanes.totals if ending is None else ending.totals


def _opened(
    env: Game,
    key: Key[Array, ""],
    e: Any,
    reset_key: Any,
    params: PyTree,
    sums: Any,
) -> Lane:
    obs, state = env.reset(reset_key, params)
    return Lane(
        key=key,
        e=jnp.asarray(e, jnp.int32),
        over=jnp.zeros((), bool),
        state=state,
        obs=obs,
        totals=Totals(sums=sums, metrics=env.metrics_init()),
    )


def _played(
    env: Game, lane: Lane, key: jax.Array, action: PyTree, params: PyTree
) -> tuple[Lane, Transition]:
    obs, state, rewards, done, info = env.step(key, lane.state, action, params)
    totals = Totals(
        sums=jax.tree.map(jnp.add, lane.totals.sums, _summed(rewards, info)),
        metrics=env.metrics_update(lane.totals.metrics, lane.obs, action, info),
    )
    lane = lane.replace(over=lane.over | done, state=state, obs=obs, totals=totals)
    ends = done & info["terminated"], done & info["truncated"]
    return lane, Transition(obs, rewards, *ends, _public(info))


def _first_step(env: Game, params: PyTree) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the info of a step and what it adds to the sums, for their shapes."""
    key = jax.random.key(0)
    seats = [env.action_space(p) for p in range(env.num_players)]
    actions = tuple(jnp.zeros(s.shape, spaces.dtype_of(s)) for s in seats)
    action = actions[0] if env.num_players == 1 else actions
    state: Any = env.reset(key, params)[1]
    _, _, rewards, _, info = env.step(key, state, action, params)
    return _public(info), _summed(rewards, info)


def _public(info: dict[str, Any]) -> dict[str, Any]:
    shown = {k: v for k, v in info.items() if k not in NATIVE_ONLY}
    return {INNER.get(k, k): _stacked(v) for k, v in shown.items()}


def _summed(rewards: Any, info: dict[str, Any]) -> dict[str, Any]:
    """Returns what a trial sums up: all players' rewards, and the metrics."""
    everyone = _stacked(info.get("rewards", rewards))
    metrics = jax.tree.map(lambda m: jnp.asarray(m, everyone.dtype), info["metrics"])
    return {"returns": everyone, **metrics}


def _stacked(value: Any) -> Any:
    """Returns one array for a tuple of equal arrays, and anything else unchanged."""
    if not isinstance(value, tuple):
        return value
    kinds = {(jnp.shape(v), jnp.result_type(v)) for v in value}
    return jnp.stack(value) if len(kinds) == 1 else value


def _zeros(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tree)
