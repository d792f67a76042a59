"""The reference trajectory: what a lane plays when its actions are given."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from paxenv import keys
from paxenv.environment import Environment, where
from paxenv.types import Info


class Replay(NamedTuple):
    """A played sequence of T valid steps; every leaf has a leading axis [T].

    Attributes:
        obs: What the players saw after each step; at the end of a trial, its final
            observation.
        rewards: Rewards of each step.
        done: Whether the step ended a trial.
        info: The native info of each step.
        obs_before: What the players saw before each step: for the first step of a
            trial, the trial's opening observation.
    """

    obs: PyTree
    rewards: PyTree
    done: Bool[Array, " T"]
    info: Info
    obs_before: PyTree


def replay(
    env: Environment,
    params: PyTree,
    seed: int | None = None,
    lane: int = 0,
    actions: PyTree = None,
    *,
    lane_key: PRNGKeyArray | None = None,
    episode: int = 0,
) -> Replay:
    """Replays joint actions in one lane, crossing trials by itself.

    The native scan, the Gymnasium env, every lane of the vector env and the PettingZoo
    env give this same trajectory.

    Args:
        env: The game.
        params: Its numbers.
        seed: Seed of the lane; `lane_key` wins where it is given.
        lane: Lane number, added to the seed.
        actions: Joint actions of valid steps: a tuple of one array `[T, ...]` for each
            player, or one bare array for a one-player game.
        lane_key: The lane's key, for lanes of a runner.
        episode: Number of the trial in which the sequence begins.

    Raises:
        ValueError: If neither `seed` nor `lane_key` is given, or no action.
    """
    if lane_key is None:
        if seed is None:
            raise ValueError("replay needs a seed or a lane_key")
        lane_key = keys.lane(seed, lane)
    actions = jax.tree.map(jnp.asarray, actions)
    if not jax.tree.leaves(actions):
        raise ValueError("replay needs the joint actions of at least one player")
    return _replay(env, params, keys.typed(lane_key), actions, jnp.int32(episode))


def _replay(
    env: Environment,
    params: PyTree,
    lane_key: jax.Array,
    actions: Any,
    episode: jax.Array,
) -> Replay:
    def opening(e: jax.Array) -> Any:
        return env.reset(keys.reset(keys.episode(lane_key, e)), params)

    def step(carry: Any, joint_action: Any) -> Any:
        obs_before, state, e, over = carry
        e = e + over
        obs_before, state = where(over, opening(e), (obs_before, state))
        key = keys.step(keys.episode(lane_key, e), state.t)
        obs, state, rewards, done, info = env.step(key, state, joint_action, params)
        return (obs, state, e, done), Replay(obs, rewards, done, info, obs_before)

    first = (*opening(episode), episode, jnp.zeros((), bool))
    return jax.lax.scan(step, first, actions)[1]
