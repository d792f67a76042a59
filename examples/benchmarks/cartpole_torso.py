"""PPO on CartPole-v1: one torso, two networks, and Stable-Baselines3's settings.

Trains 99,328 steps of 8 games for each seed and evaluates 50 greedy episodes. Ours
takes all seeds in one program. SB3 (the extra `sb3`) takes as many steps for a rollout,
passes and minibatches as our defaults, one seed after the other; else its defaults,
which `equal` has too: no weight of the entropy and unclipped values.

python examples/benchmarks/cartpole_torso.py --seeds 32 --sb3-seeds 8
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
from runners.views.act_functions import evaluate_agent

NUM_GAMES, NUM_UPDATES, NUM_EPISODES = 8, 97, 50
FORMS = {
    "one torso": {"shared_torso": True},
    "two networks": {},
    "two networks, equal": {"entropy_coeff": 0.0, "clip_value": False},
}


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


def their_returns(config: PPOConfig, num_seeds: int) -> np.ndarray:
    """Returns the same of Stable-Baselines3, by rate, rollout, passes and batches."""
    import torch
    from stable_baselines3 import PPO as TorchPPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    torch.set_num_threads(1)  # the fastest for networks so small
    found = []
    for seed in range(num_seeds):
        # Environments of one call get consecutive seeds.
        games = make_vec_env("CartPole-v1", n_envs=NUM_GAMES, seed=1000 * seed)
        model = TorchPPO(
            "MlpPolicy",
            games,
            learning_rate=config.learning_rate,
            n_steps=config.n_steps,
            batch_size=NUM_GAMES * config.n_steps // config.num_minibatches,
            n_epochs=config.num_epochs,
            seed=seed,
            device="cpu",
        )
        model.learn(NUM_UPDATES * NUM_GAMES * config.n_steps)
        fresh = make_vec_env(
            "CartPole-v1", n_envs=NUM_EPISODES, seed=10**6 + 1000 * seed
        )
        found.append(evaluate_policy(model, fresh, NUM_EPISODES)[0])
    return np.asarray(found)


def report(rate: float, form: str, found: np.ndarray) -> None:
    """Prints a line: mean and standard deviation over seeds."""
    print(
        f"learning_rate={rate}, {form}: {found.mean():.0f}, standard deviation "
        f"{found.std(ddof=1):.0f}, {len(found)} seeds",
        flush=True,
    )


def main() -> None:
    """Prints a line for each rate and form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--sb3-seeds", type=int, default=0)
    options = parser.parse_args()
    for rate in (1e-3, 3e-4):
        config = PPOConfig(learning_rate=rate, n_steps=128)
        for form, changes in FORMS.items():
            changed = dataclasses.replace(config, **changes)
            report(rate, form, returns(changed, options.seeds))
        if options.sb3_seeds:
            report(rate, "SB3", their_returns(config, options.sb3_seeds))


if __name__ == "__main__":
    main()
