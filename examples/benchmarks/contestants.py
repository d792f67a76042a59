"""Our games and trainers, in the shape that a benchmark harness times them.

`env(game, n)` returns `(init, step, num_actions)` with `init(key) -> state` and
`step(key, state, actions[2, n]) -> (state, obs, reward_1, reward_2)`, resetting itself.
`single(game)` and `vector(game, n)` return `(go, steps of one go, 0.0)`, where `go()`
makes one step from Python and returns host values. `ppo(game, n)` returns
`(go, joint steps of one go, compile seconds)`.
"""

import time

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import paxenv
from paxenv import keys

GAMES = {
    "ipd": ("IPD-v0", {"num_inner_steps": 100}),
    "coin": ("CoinGame-v0", {"num_inner_steps": 16}),
    "ipd_index": ("IPD-v0", {"num_inner_steps": 100, "observation": "index"}),
    "coin_index": ("CoinGame-v0", {"num_inner_steps": 16, "observation": "index"}),
}
MANY_EPISODES = 10**8


def env(game, n):
    """One endless trial in each of `n` lanes: inner episodes follow each other."""
    id, options = GAMES[game]
    game_env, params = paxenv.make(id, num_outer_steps=MANY_EPISODES, **options)

    def init(key):
        lanes = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(n))
        return lanes, jax.vmap(game_env.reset, (0, None))(lanes, params)[1]

    def step(key, state, actions):
        del key  # the lanes hold their keys
        lanes, env_state = state
        step_keys = jax.vmap(keys.step)(lanes, env_state.t)
        obs, env_state, rewards, _, _ = jax.vmap(game_env.step, (0, 0, 0, None))(
            step_keys, env_state, (actions[0], actions[1]), params
        )
        return (lanes, env_state), obs, *rewards

    return init, step, int(game_env.action_space(0).n)


def single(game):
    """One step of the Gymnasium env against a co-player that cooperates or stays."""
    id, options = GAMES[game]
    gym_env = gymnasium.make(f"pax/{id}", **options).unwrapped
    gym_env.reset(seed=0)

    def go():
        out = gym_env.step(0)
        if out[2] or out[3]:
            gym_env.reset()
        return out

    return go, 1, 0.0


def vector(game, n):
    """One step of the batched Gymnasium env, outputs on the host."""
    id, options = GAMES[game]
    vector_env = gymnasium.make_vec(f"pax/{id}", num_envs=n, **options)
    vector_env.reset(seed=0)
    actions = np.zeros(n, np.int64)
    return lambda: vector_env.step(actions), n, 0.0


def ppo(game, n):
    """Two independent PPO learners, one torso of 16 x 16, 2 epochs, 4 minibatches."""
    from paxenv_agents.engine.lineup import Slot
    from paxenv_agents.registry import make_agent
    from runners.engine.experiment import Experiment, train_chunk

    id, options = GAMES[game]
    game_env, params = paxenv.make(id, **options)
    config = {
        "hidden_sizes": (16, 16),
        "shared_torso": True,
        "num_epochs": 2,
        "num_minibatches": 4,
    }
    slots = tuple(Slot(make_agent("PPO", game_env, p, **config), (p,)) for p in (0, 1))
    experiment = Experiment(game_env, slots, num_games=n, chunk_size=10)
    state = experiment.init(jax.random.key(0), params)
    before = time.perf_counter()
    jax.block_until_ready(train_chunk(experiment, state, 1))
    compile_seconds = time.perf_counter() - before

    def go():
        return jax.block_until_ready(train_chunk(experiment, state, 10))

    return go, 10 * experiment.steps_per_iteration, compile_seconds
