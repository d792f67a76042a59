"""The usage of Pax's README, on this package: loop, vmap, scan, agent interface.

What is different: 0 cooperates and 1 defects (there is a constant for each), an episode
ends by the flag `done`, and `policy` needs no key, because each game's memory has one.

    python examples/pax_readme.py
"""

import argparse

import jax
import jax.numpy as jnp

import paxenv
import paxenv_agents
from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame

PAYOFF = [[2, 2], [0, 3], [3, 0], [1, 1]]  # CC, CD, DC, DD


def play_one_game() -> float:
    """Plays one game in a Python loop and returns player 1's return."""
    env = IteratedMatrixGame(num_inner_steps=5)
    params = EnvParams(payoff_matrix=PAYOFF)
    actions = (jnp.asarray(paxenv.DEFECT), jnp.asarray(paxenv.COOPERATE))

    key, reset_key = jax.random.split(jax.random.key(0))
    _, state = env.reset(reset_key, params)
    total, done = 0.0, False
    while not done:
        key, step_key = jax.random.split(key)
        _, state, rewards, done, _ = env.step(step_key, state, actions, params)
        total += float(rewards[0])
    return total


def play_many_games(num_envs: int, num_steps: int) -> jax.Array:
    """Plays games side by side in one scan and returns the rewards.

    Returns:
        float32 `[num_steps, num_envs]`, player 1's.
    """
    env = IteratedMatrixGame(num_inner_steps=num_steps)
    params = EnvParams(payoff_matrix=PAYOFF)
    # The state of a matrix game is its clock alone, so all games share it. Games with
    # more state, or with random ends, are batched over it too: (0, 0, 0, None), out 0.
    reset = jax.vmap(env.reset, in_axes=(0, None), out_axes=(0, None))
    step = jax.vmap(env.step, in_axes=(0, None, 0, None), out_axes=(0, None, 0, 0, 0))
    defect = jnp.full((num_envs,), paxenv.DEFECT)

    def one_step(carry, step_keys):
        obs, state = carry
        actions = (defect, defect)
        obs, state, rewards, done, _ = step(step_keys, state, actions, params)
        return (obs, state), (obs, actions, rewards, done)

    reset_key, steps_key = jax.random.split(jax.random.key(0))
    carry = reset(jax.random.split(reset_key, num_envs), params)
    step_keys = jax.random.split(steps_key, (num_steps, num_envs))
    _, (_, _, rewards, _) = jax.lax.scan(one_step, carry, step_keys)
    return rewards[0]


def use_an_agent(num_envs: int) -> jax.Array:
    """Lets one agent act in many games at once and returns its actions.

    Returns:
        int32 `[num_envs]`.
    """
    env = IteratedMatrixGame(num_inner_steps=10)
    params = EnvParams(payoff_matrix=PAYOFF)
    agent = paxenv_agents.make_agent("PPO", env, player=0)

    # One game: a training state, and the memory of that game.
    hidden = agent.init_hidden(num_envs)
    state, memory = agent.make_initial_state(jax.random.key(1), hidden[0])
    obs, _ = env.reset(jax.random.key(2), params)
    _, state, memory = agent.policy(state, obs[0], memory)
    memory = agent.reset_memory(memory, eval=False)

    # Many games: still one training state, and one memory for each.
    state, memories = agent.batch_init(jax.random.key(1), hidden)
    keys = jax.random.split(jax.random.key(2), num_envs)
    obs, _ = jax.vmap(env.reset, (0, None))(keys, params)
    actions, state, memories = jax.jit(agent.batch_policy)(state, obs[0], memories)
    memories = agent.batch_reset(memories, eval=False)
    return actions


def main() -> None:
    """Runs all three parts and prints what they return."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    num_envs, num_steps = (2, 5) if parser.parse_args().quick else (8, 50)

    print(f"One game, D against C for 5 steps: player 1 gets {play_one_game():g}")
    rewards = play_many_games(num_envs, num_steps)
    print(
        f"{num_envs} games of {num_steps} steps, D against D: player 1 gets "
        f"{float(rewards.mean()):g} a step"
    )
    actions = use_an_agent(num_envs)
    names = ["cooperates" if a == paxenv.COOPERATE else "defects" for a in actions]
    print(f"A fresh PPO agent in {num_envs} games: {', '.join(names)}")


if __name__ == "__main__":
    main()
