"""Environment steps per second of the matrix and coin games, beside a plain version.

Random actions, a compiled scan, both rates taken in turn in one process. Quote the
ratios: absolute rates move with the machine.

    python examples/benchmarks/steps_per_second.py --envs 1 64 1024 8192 65536
"""

import argparse
import statistics
import time

import contestants
import jax
import jax.numpy as jnp
import reference

ROWS = (
    ("ipd", "ipd"),
    ("ipd_index", "ipd"),
    ("coin", "coin"),
    ("coin_index", "coin"),
)


def rollout(env, n, steps):
    """Returns (a compiled call of `steps` steps of `n` games, its compile seconds)."""
    init, step, num_actions = env
    actions = jax.random.randint(jax.random.key(0), (steps, 2, n), 0, num_actions)
    state = jax.jit(init)(jax.random.key(1))
    obs = jax.eval_shape(step, jax.random.key(0), state, actions[0])[1]
    obs = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), obs)

    step_keys = jax.random.split(jax.random.key(2), steps)

    def body(carry, x):
        state, _, total = carry
        key, joint_action = x
        state, obs, r1, r2 = step(key, state, joint_action)
        return (state, obs, total + r1 + r2), None

    def run(carry):
        return jax.lax.scan(body, carry, (step_keys, actions))[0]

    carry = (state, obs, jnp.zeros(n))
    before = time.perf_counter()
    compiled = jax.jit(run).lower(carry).compile()
    compile_seconds = time.perf_counter() - before
    jax.block_until_ready(compiled(carry))
    return (lambda: jax.block_until_ready(compiled(carry))), compile_seconds


def rate(go, work):
    """Returns work per second of one timed call."""
    before = time.perf_counter()
    go()
    return work / (time.perf_counter() - before)


def main():
    """Prints one line for each game and number of games."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 64, 1024, 8192])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=int, default=2_000_000, help="steps in a call")
    args = parser.parse_args()
    print(f"{'game':<12}{'games':>7}{'ours M/s':>10}{'plain M/s':>11}{'ratio':>8}")
    for name, plain in ROWS:
        for n in args.envs:
            steps = max(10, min(20_000, args.work // n))
            ours, _ = rollout(contestants.env(name, n), n, steps)
            theirs, _ = rollout(reference.env(plain, n), n, steps)
            pairs = [
                (rate(ours, n * steps), rate(theirs, n * steps))
                for _ in range(args.rounds)
            ]
            a = statistics.median(x for x, _ in pairs) / 1e6
            b = statistics.median(y for _, y in pairs) / 1e6
            ratio = statistics.median(x / y for x, y in pairs)
            print(f"{name:<12}{n:>7}{a:>10.2f}{b:>11.2f}{ratio:>7.1f}x", flush=True)


if __name__ == "__main__":
    main()
