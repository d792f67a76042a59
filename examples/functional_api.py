"""Training by plain functions: PPO balances a pole, DQN plays on from a checkpoint.

Each function takes a game, its numbers and two configs, and returns values. Nothing is
written unless a folder is named.

    python examples/functional_api.py
"""

import argparse
import dataclasses
import tempfile

import jax

import paxenv
import runners
from paxenv.auto_reset import AutoResetWrapper
from paxenv_agents import PPO, DQNConfig, PPOConfig


def balance(num_steps: int) -> None:
    """Trains PPO and evaluates its greedy policy over whole episodes."""
    env, params = paxenv.make("CartPole-v1")
    env = AutoResetWrapper(env)
    config = PPOConfig(n_steps=128, num_envs=8, learning_rate=1e-3)
    runner = runners.RunnerConfig(total_timesteps=num_steps, eval_every=num_steps)
    state, history = runners.train_ppo(
        env, params, ppo_config=config, runner_config=runner
    )
    print(f"PPO: {history.total_loss.shape[0]} updates,", end=" ")
    agent = PPO.from_env(env, config, greedy=True)
    metrics = runners.jit_evaluate(
        runners.agent_act_fn(agent),
        state.agent_state,
        env,
        params,
        n_episodes=10,
        max_steps=500,
        rng=jax.random.key(1),
    )
    print(f"mean return {float(metrics.mean_return):.0f}")


def play_on(num_steps: int, folder: str) -> None:
    """Trains DQN to the half, then goes on from its checkpoint."""
    env, params = paxenv.make("CartPole-v1")
    runner = runners.RunnerConfig(
        total_timesteps=num_steps // 2,
        log_interval=num_steps // 4,
        eval_every=num_steps,
        checkpoint_dir=folder,
        plot=False,
    )
    whole = dataclasses.replace(runner, total_timesteps=num_steps, resume=True)
    for config in (runner, whole):
        result = runners.train_dqn(
            env,
            params,
            dqn_config=DQNConfig(hidden_sizes=(32,), train_every=4),
            runner_config=config,
            callback=lambda step, state, metrics: print(f"  {step} steps"),
        )
    print(f"DQN: {len(result.episode_returns)} episodes, first to last")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, for a test")
    quick = parser.parse_args().quick
    balance(2_048 if quick else 100_000)
    with tempfile.TemporaryDirectory() as folder:
        play_on(2_000 if quick else 20_000, folder)
