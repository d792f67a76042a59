"""How many steps a second PPO learns from, ours and a plain one, timed in turn.

python examples/benchmarks/ppo_rates.py
"""

import argparse
import statistics
import time

import contestants
import plain_ppo

NUM_STEPS = 100


def main() -> None:
    """Prints joint steps a second of both, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    print(f"{'game':<12}{'games':>7}{'ours M/s':>10}{'plain M/s':>11}{'ratio':>8}")
    for num_envs in options.envs:
        plain = plain_ppo.ppo(num_envs, NUM_STEPS)
        for game in ("ipd", "ipd_index"):
            ours = contestants.ppo(game, num_envs)[:2]
            rounds = [
                (rate(*ours, options.seconds), rate(*plain, options.seconds))
                for _ in range(options.rounds)
            ]
            mine = statistics.median(r[0] for r in rounds)
            theirs = statistics.median(r[1] for r in rounds)
            ratio = statistics.median(a / b for a, b in rounds)
            print(
                f"{game:<12}{num_envs:>7}{mine / 1e6:>10.2f}{theirs / 1e6:>11.2f}"
                f"{ratio:>7.1f}x",
                flush=True,
            )


def rate(go, work: int, seconds: float) -> float:
    """Returns the work done a second."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        go()
        count += 1
    return count * work / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
