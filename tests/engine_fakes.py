"""Ten-line agents that make the engine's behaviour visible."""

import dataclasses

import jax
import jax.numpy as jnp

from paxenv_agents.agent import Agent
from paxenv_agents.types import MemoryState, TrainingState


@dataclasses.dataclass(frozen=True)
class Fixed(Agent):
    """Always plays one action."""

    action: int = 0

    def policy(self, state, obs, memory):
        return jnp.int32(self.action), state, memory


@dataclasses.dataclass(frozen=True)
class Dice(Agent):
    """Plays 0 or 1 from the lowest bit of its scheduled key."""

    def policy(self, state, obs, memory):
        word = jax.random.key_data(jax.random.fold_in(memory.key, 0))[0]
        action = (word & 1).astype(jnp.int32)
        return (
            action,
            state,
            memory.replace(key=jax.random.fold_in(memory.key, 1)),
        )


@dataclasses.dataclass(frozen=True)
class Recorder(Agent):
    """Plays `params` mod 2, adds 1 to `params` at every update, counts its steps.

    hidden[0] counts steps since the trial opened, hidden[1] the inner ends it crossed.
    Its value estimate is 100 + hidden[0].
    """

    learns = True
    hidden_size = 2  # type: ignore[assignment]

    def init_state(self, key):
        hyper = {"gain": jnp.float32(1.0)}
        return TrainingState(
            params=jnp.float32(0), key=key, timesteps=jnp.int32(0), hyper=hyper
        )

    def policy(self, state, obs, memory):
        value = 100.0 + memory.hidden[0]
        after = MemoryState(
            hidden=memory.hidden + jnp.array([1.0, 0.0]),
            key=jax.random.fold_in(memory.key, 1),
            extras={"log_probs": jnp.float32(-1), "values": value},
        )
        return (state.params % 2).astype(jnp.int32), state, after

    def value(self, state, obs, memory):
        return 100.0 + memory.hidden[0]

    def update(self, traj, last_obs, state, memory):
        learnt = jnp.sum(traj.valid)
        state = state.replace(
            params=state.params + state.hyper["gain"],
            timesteps=state.timesteps + learnt,
        )
        stats = {
            "rewards": traj.rewards.sum(),
            "lanes": jnp.float32(traj.rewards.shape[1]),
            "crossed": memory.hidden[:, 1].mean(),
        }
        return state, memory, stats

    def end_inner_episode(self, state, memory):
        return memory.replace(hidden=memory.hidden + jnp.array([0.0, 1.0]))


@dataclasses.dataclass(frozen=True)
class Counter(Recorder):
    """Counts its updates in `params` while it is enabled."""

    def init_state(self, key):
        state = super().init_state(key)
        return state.replace(hyper={"enabled": jnp.float32(1)})

    def update(self, traj, last_obs, state, memory):
        enabled = state.hyper["enabled"] > 0
        return state.replace(params=state.params + enabled), memory, {}


def seated(cls, env, player=0, **config):
    """Makes a fake for a seat."""
    return cls(env.observation_space(player), env.action_space(player), **config)
