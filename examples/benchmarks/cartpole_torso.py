"""PPO on CartPole-v1 with one torso and with two networks, many seeds in one program.

Trains 99,328 steps of 8 games for each seed and evaluates 50 greedy episodes.

python examples/benchmarks/cartpole_torso.py --seeds 32
"""

import argparse
import dataclasses

import jax
import numpy as np

import paxenv
import runners
from paxenv_agents import PPO, PPOConfig
from runners.engine.program import (
    CompiledProgram,
    evaluation_keys,
    initial_state,
    run_keys,
)
from runners.session.whole_episodes import evaluate_agent

NUM_GAMES, NUM_UPDATES, NUM_EPISODES = 8, 97, 50


def returns(config: PPOConfig, num_seeds: int) -> np.ndarray:
    """Returns the mean return of the greedy policy of every seed."""
    env, params = paxenv.make("CartPole-v1")
    agent = PPO.from_env(env, config)
    experiment = runners.Experiment(
        env,
        (runners.Slot(agent),),
        num_games=NUM_GAMES,
        num_steps=config.n_steps,
        chunk_size=NUM_UPDATES,
    )
    state = initial_state(experiment, run_keys(0, num_seeds), params)
    program = CompiledProgram(experiment, state)
    program.run(NUM_UPDATES)
    greedy = dataclasses.replace(agent, greedy=True)

    def evaluated(state, key):
        played = evaluate_agent(greedy, state, env, params, key, NUM_EPISODES, 500)
        return played.mean_return

    keys = evaluation_keys(0, num_seeds)
    return np.asarray(jax.jit(jax.vmap(evaluated))(program.state.agents[0], keys))


def main() -> None:
    """Prints a line for each rate and form of the network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=32)
    num_seeds = parser.parse_args().seeds
    for rate in (1e-3, 3e-4):
        for shared in (True, False):
            config = PPOConfig(learning_rate=rate, n_steps=128, shared_torso=shared)
            found = returns(config, num_seeds)
            form = "one torso" if shared else "two networks"
            print(
                f"learning_rate={rate}, {form}: {found.mean():.0f}, standard deviation "
                f"{found.std(ddof=1):.0f}, {num_seeds} seeds",
                flush=True,
            )


if __name__ == "__main__":
    main()
