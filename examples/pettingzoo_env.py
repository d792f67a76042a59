"""All seats of a game as a PettingZoo parallel environment.

python examples/pettingzoo_env.py
"""

import argparse
from collections import Counter
from typing import Any

import paxenv


def play(env: Any, num_steps: int) -> tuple[int, Counter[str]]:
    """Acts at random for some steps, opening a new episode whenever one has ended.

    An episode goes on while `env.agents` is not empty: as long as one agent is left,
    those that have ended just take no more actions.

    Returns:
        (episodes that ended, rewards by agent, summed).
    """
    env.reset(seed=0)
    num_episodes, totals = 0, Counter()
    for _ in range(num_steps):
        actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        _, rewards, _, _, _ = env.step(actions)
        totals.update(rewards)
        if not env.agents:
            num_episodes += 1
            env.reset()
    return num_episodes, totals


def main() -> None:
    """Plays the coin game and prints who got how much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    num_steps = 40 if parser.parse_args().quick else 2000

    env = paxenv.parallel_env("CoinGame-v0", max_cycles=16)
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(i)
    num_episodes, totals = play(env, num_steps)
    print(f"{num_episodes} episodes ended in {num_steps} steps")
    for agent in env.possible_agents:
        print(f"{agent}: {totals[agent] / num_steps:+.3f} a step")
    env.close()


if __name__ == "__main__":
    main()
