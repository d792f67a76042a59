"""An endless stream of trials over one game."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Key, PRNGKeyArray, PyTree

from paxenv import keys
from paxenv.environment import Environment, EnvState, where
from paxenv.types import Count, Flag, Info, Rewards


class AutoResetState(struct.PyTreeNode):
    """State of a stream.

    Attributes:
        env: The game's state in the trial being played.
        lane_key: The stream's key.
        e: The number of the trial, from 0. int32 scalar.
    """

    env: EnvState
    lane_key: Key[Array, ""]
    e: Count


@dataclasses.dataclass(frozen=True)
class AutoResetWrapper:
    """Opens the next trial in the step that ends one, so that a stream never stops.

    `reset` takes the lane's key, from which all keys of the stream follow, so `step`
    ignores the key that it is given (`None` is accepted). At the end of a trial the
    observations open the next one and `info["final_obs"]` is the last of the old one.

    Attributes:
        env: The game.
    """

    env: Environment

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, key: PRNGKeyArray, params: PyTree) -> tuple[PyTree, AutoResetState]:
        """Opens trial 0 of the lane whose key is `key`."""
        lane_key = keys.typed(key)
        e = jnp.zeros((), jnp.int32)
        obs, state = self.env.reset(keys.reset(keys.episode(lane_key, e)), params)
        return obs, AutoResetState(env=state, lane_key=lane_key, e=e)

    def step(
        self,
        key: PRNGKeyArray | None,
        state: AutoResetState,
        actions: PyTree,
        params: PyTree,
    ) -> tuple[PyTree, AutoResetState, Rewards, Flag, Info]:
        """Plays one joint action; see `Environment.step` for what comes back."""
        del key
        episode_key = keys.episode(state.lane_key, state.e)
        obs, env_state, rewards, done, info = self.env.step(
            keys.step(episode_key, state.env.t), state.env, actions, params
        )
        e = state.e + done
        opening, opened = self.env.reset(
            keys.reset(keys.episode(state.lane_key, e)), params
        )
        obs, env_state = where(done, (opening, opened), (obs, env_state))
        return obs, state.replace(env=env_state, e=e), rewards, done, info
