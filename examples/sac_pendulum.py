"""SAC swings a pendulum up and holds it there.

A pendulum that hangs down returns about -1,200 in an episode of 200 steps; one that is
swung up returns about -150.

    python examples/sac_pendulum.py
"""

import argparse

import jax

import paxenv
import runners
from paxenv.auto_reset import AutoResetWrapper
from paxenv_agents import SAC, SACConfig


def train(num_steps: int, config: SACConfig) -> None:
    """Trains SAC and evaluates its greedy policy over whole episodes."""
    env, params = paxenv.make("Pendulum-v1")
    env = AutoResetWrapper(env)
    result = runners.train_sac(
        env,
        params,
        sac_config=config,
        runner_config=runners.RunnerConfig(
            total_timesteps=num_steps,
            warmup_steps=num_steps // 20,
            log_interval=num_steps // 4,
            eval_every=num_steps,
            plot=False,
        ),
        callback=lambda step, state, metrics: print(f"  {step} steps"),
    )
    metrics = runners.evaluate(
        runners.agent_act_fn(SAC.from_env(env, config, greedy=True)),
        result.agent_state,
        env,
        params,
        n_episodes=10,
        max_steps=200,
        rng=jax.random.key(1),
    )
    print(f"SAC on Pendulum: mean return {float(metrics.mean_return):.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, for a test")
    if parser.parse_args().quick:
        train(800, SACConfig(hidden_sizes=(16,), train_every=4))
    else:
        train(20_000, SACConfig())
