"""Seconds per generation of an evolution against a learner.

The seconds of all cores together, `CPU s`, do not depend on what else runs there.

python examples/benchmarks/evolution.py
"""

import argparse
import statistics
import time

import jax

import paxenv
import paxenv_agents
from paxenv_agents.engine.lineup import Slot
from runners.engine.devices import ensure_devices
from runners.engine.experiment import Experiment, train_chunk
from runners.engine.placement import make_mesh
from runners.search.evolution import Evolution
from runners.search.options import ESOptions
from runners.search.search import Search


def main() -> None:
    """Prints seconds and steps a second for each number of opponents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--population-size", type=int, default=1000)
    parser.add_argument("--opponents", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--games", type=int, default=2)
    parser.add_argument("--steps", type=int, nargs=2, default=[100, 10])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--devices", type=int, default=1)
    options = parser.parse_args()
    ensure_devices(options.devices)
    mesh = None if options.devices == 1 else make_mesh(1, options.devices)
    columns = ("opponents", "compile s", "s/generation", "CPU s", "M steps/s")
    print("".join(f"{name:>14}" for name in columns))
    for num_opponents in options.opponents:
        experiment, params = against_a_learner(
            options.population_size, num_opponents, options.games, *options.steps, mesh
        )
        state = jax.jit(experiment.init)(jax.random.key(0), params)
        began = time.perf_counter()
        state = generation(experiment, state)
        compiled = time.perf_counter() - began
        seconds, of_cpu = [], []
        for _ in range(options.rounds):
            began, worked = time.perf_counter(), time.process_time()
            state = generation(experiment, state)
            seconds.append(time.perf_counter() - began)
            of_cpu.append(time.process_time() - worked)
        each, cpu = statistics.median(seconds), statistics.median(of_cpu)
        rate = experiment.steps_per_iteration / each / 1e6
        print(
            f"{num_opponents:>14}{compiled - each:>14.1f}{each:>14.3f}"
            f"{cpu:>14.3f}{rate:>14.2f}",
            flush=True,
        )


def against_a_learner(
    population_size: int,
    num_opponents: int,
    num_games: int,
    num_inner_steps: int,
    num_outer_steps: int,
    mesh=None,
):
    """Returns (experiment, params): 16 x 16 units against a tabular PPO."""
    env, params = paxenv.make(
        "IPD-v0", num_inner_steps=num_inner_steps, num_outer_steps=num_outer_steps
    )
    member = paxenv_agents.make_agent("PPO", env, player=0, hidden_sizes=(16, 16))
    learner = paxenv_agents.make_agent(
        "Tabular", env, player=1, learning_rate=1.0, num_epochs=2, num_minibatches=4
    )
    search = Search(ESOptions("OpenES", population_size))
    slots = (
        Slot(member, (0,), clock="none"),
        Slot(learner, (1,), clock="inner", per_opponent=True, reset="trial"),
    )
    return (
        Experiment(
            env,
            slots,
            outer=Evolution((search, None)),
            num_games=num_games,
            num_opponents=num_opponents,
            chunk_size=4,
            mesh=mesh,
        ),
        params,
    )


def generation(experiment, state):
    """Runs one generation to its end."""
    state, _ = train_chunk(experiment, state, 1)
    return jax.block_until_ready(state)


if __name__ == "__main__":
    main()
