"""Runs of several seeds end with the flags and the threads that users have.

The tests around set flags of XLA and a larger pool of threads; here a fresh process has
neither, and one core or two.
"""

import itertools
import os
import subprocess
import sys

import pytest

SMALL = ("num_envs=4", "num_inner_steps=10", "total_timesteps=400", "plot=false")
RUNS = (
    ("--env", "MatchingPennies", "--agent1", "PPO", "--agent2", "PPO"),
    ("--agent1", "RecurrentPPO", "--agent2", "RecurrentPPO"),
)


#: Learners that learn from sampled games of finitely many actions.
LEARNERS = (
    *("PPO", "Tabular", "RecurrentPPO", "Naive", "DQN", "LOLA"),
    *("GoodShepherd", "Shaper", "MFOS"),
)
#: LOLA looks ahead of learners that follow a policy gradient, so not of DQN.
PAIRS = tuple(
    pair
    for pair in itertools.combinations_with_replacement(LEARNERS, 2)
    if pair != ("DQN", "LOLA")
)


def assert_ends(agents, seeds, cores, folder):
    """Trains in a process of its own, with so many cores and no flags of ours."""
    dropped = ("XLA_FLAGS", "NPROC")
    places = sorted(os.sched_getaffinity(0))[:cores]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "runners", "rl", *agents, *SMALL),
            *("--num-seeds", str(seeds), "--exp-dir", str(folder)),
        ],
        env={k: v for k, v in os.environ.items() if k not in dropped},
        preexec_fn=lambda: os.sched_setaffinity(0, places),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "cores"), [(2, 1), (3, 2)])
@pytest.mark.parametrize("agents", RUNS, ids=lambda words: words[-1])
def test_two_learners_of_several_seeds_end(agents, seeds, cores, tmp_path):
    assert_ends(agents, seeds, cores, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("seeds", [1, 2, 4, 8])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_pair_of_learners_ends(pair, seeds, cores, tmp_path):
    first, second = pair
    assert_ends(("--agent1", first, "--agent2", second), seeds, cores, tmp_path)
