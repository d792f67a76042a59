"""What a long run must not do: compile again, or grow."""

import json
import os
import subprocess
import sys

import pytest

#: Updates, with three numbers of the learner that change at each of them.
NUM_UPDATES = 500
TRAINING = """
import gc, json, os, resource, sys
from pathlib import Path
import jax
from runners import OnPolicyRunner

COMPILE = "/jax/core/compile/backend_compile_duration"
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: events.append(event))

def resident():
    # In bytes; where the system does not tell, the highest value so far.
    gc.collect()
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else 1024 * highest

def schedule_clip(runner):
    runner.set_hyperparam("clip_epsilon", 0.2 * (1 - runner.iteration / {num_updates}))

def look(runner, stats):
    seen["compiled"].append(events.count(COMPILE))
    seen["rates"].append(stats["train/learning_rate"])
    seen["entropy"].append(stats["train/entropy_coeff"])
    seen["clips"].append(float(runner.state.hyper["clip_epsilon"]))
    if runner.iteration in (100, {num_updates}):
        seen["resident"].append(resident())

runner = OnPolicyRunner("CartPole-v1", num_envs=4, log_interval=0, cfg=dict(
    n_steps=8, hidden_sizes=(16,), num_minibatches=2, num_epochs=1,
    learning_rate_end=0.0, entropy_coeff_end=0.0))
runner.add_callback("pre_update", schedule_clip)
runner.add_callback("post_iteration", look)
seen = {{"compiled": [], "rates": [], "entropy": [], "clips": [], "resident": []}}
runner.learn(num_iterations={num_updates})
print(json.dumps(seen))
"""


@pytest.mark.slow
def test_five_hundred_updates_with_schedules_neither_compile_nor_grow():
    """Learning rate, entropy weight and clip change at every update.

    The bound on growth is far above what the run holds on to (0.2 MiB: a row of the
    history each) and far below 400 programs (100 KiB each, at the least).
    """
    done = subprocess.run(
        [sys.executable, "-c", TRAINING.format(num_updates=NUM_UPDATES)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "XLA_FLAGS": ""},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    for numbers in (seen["rates"], seen["entropy"], seen["clips"]):
        assert len(set(numbers)) == NUM_UPDATES
    assert seen["compiled"][0] > 0
    assert set(seen["compiled"][1:]) == {seen["compiled"][1]}
    at_100, at_500 = seen["resident"]
    assert at_500 - at_100 < 8 * 2**20
