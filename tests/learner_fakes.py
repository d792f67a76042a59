"""A seat without a game, samples by hand, and a small scan over matrix games."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from paxenv import keys
from paxenv_agents.types import Sample


@dataclasses.dataclass(frozen=True)
class Seat:
    """What a learner reads of a game: one seat's spaces."""

    num_players = 1

    observation: gymnasium.Space = dataclasses.field(
        default_factory=lambda: gymnasium.spaces.Discrete(5, dtype=np.int32)
    )
    action: gymnasium.Space = dataclasses.field(
        default_factory=lambda: gymnasium.spaces.Discrete(2, dtype=np.int32)
    )

    def observation_space(self, player=0):
        return self.observation

    def action_space(self, player=0):
        return self.action


def make_learner(agent, num_games, seed=0):
    """Returns (state, memory of `num_games` games)."""
    return agent.batch_init(jax.random.key(seed), agent.init_hidden(num_games))


def make_sample(agent, state, memory, shape, seed=0, **fields):
    """Returns a sample `[T, E]` of random views, actions and rewards, with the agent's
    own log-probabilities and values; `fields` replace any of it.
    """
    num_steps, num_games = shape
    draw = np.random.default_rng(seed)
    space = agent.observation_space
    observations = jnp.asarray(draw.integers(space.n, size=shape), jnp.int32)
    actions = jnp.asarray(draw.integers(agent.action_space.n, size=shape), jnp.int32)
    none = jnp.zeros(shape, bool)
    sample = Sample(
        observations=observations,
        actions=actions,
        rewards=jnp.asarray(draw.normal(size=shape), jnp.float32),
        behavior_log_probs=jnp.zeros(shape),
        behavior_values=jnp.zeros(shape),
        dones=none,
        hiddens=jnp.zeros((num_steps, num_games, agent.hidden_size)),
        truncations=none,
        final_values=jnp.zeros(shape),
        valid=~none,
    )._replace(**fields)
    log_probs, values, _ = agent.evaluate(state, sample)
    return sample._replace(
        **{
            "behavior_log_probs": log_probs,
            "behavior_values": values,
            **fields,
        }
    )


def play_matrix_game(agents, env, params, states, seed=0, num_games=16):
    """Plays one inner episode of a two-player game in each of `num_games` games.

    Returns (samples, last observations, memories), each by player.
    """
    lane_keys = jax.vmap(keys.episode, (None, 0))(
        jax.random.key(seed), jnp.arange(num_games)
    )
    memories = tuple(make_learner(agent, num_games)[1] for agent in agents)
    opening = jax.vmap(env.reset, (0, None))(lane_keys, params)

    def step(carry, _):
        obs, env_state, memories = carry
        step_keys = jax.vmap(keys.step)(lane_keys, env_state.t)
        actions, after = [], []
        for p, agent in enumerate(agents):
            keyed = memories[p].replace(
                key=jax.vmap(keys.player, (0, None))(step_keys, p)
            )
            action, _, memory = agent.batch_policy(states[p], obs[p], keyed)
            actions.append(action)
            after.append(memory)
        next_obs, env_state, rewards, _, info = jax.vmap(
            env.step_inner, (0, 0, 0, None)
        )(step_keys, env_state, tuple(actions), params)
        samples = tuple(
            Sample(
                observations=obs[p],
                actions=actions[p],
                rewards=rewards[p],
                behavior_log_probs=after[p].extras.get("log_probs"),
                behavior_values=after[p].extras.get("values"),
                dones=info["terminated"] | info["truncated"],
                hiddens=memories[p].hidden,
                truncations=jnp.zeros_like(info["truncated"]),
                final_values=jnp.zeros_like(rewards[p]),
                valid=info["valid"],
            )
            for p in range(2)
        )
        return (next_obs, env_state, tuple(after)), samples

    carry, samples = jax.lax.scan(step, (*opening, memories), None, env.num_inner_steps)
    return samples, carry[0], carry[2]
