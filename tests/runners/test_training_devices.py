"""Several devices, and several processes, train what one device trains."""

import dataclasses
import json
import os
import socket
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runners.config import load
from runners.planning.plan import prepare
from runners.session.training import program_of
from runners.storage.checkpoints.store import restore_checkpoint
from runners.storage.run_dir import RunDir

PRELUDE = """
import json, sys
import runners
runners.initialize_distributed(num_local_devices=int(sys.argv[1]))
import jax, jax.numpy as jnp, numpy as np
import paxenv
from paxenv_agents.learners.ppo import PPOConfig

def train(devices, games, updates, fsdp=1, stacked=False, hidden=(16,)):
    env, params = paxenv.make("CartPole-v1")
    own = PPOConfig(n_steps=16, hidden_sizes=hidden, num_minibatches=2)
    config = runners.RunnerConfig(
        total_timesteps=updates * 16 * games * devices, num_envs=games,
        num_devices=devices, fsdp_devices=fsdp, eval_every=10**9, plot=False)
    return runners.train_ppo_multigpu(env, params, ppo_config=own,
        runner_config=config, stacked=stacked)

def shapes(tree):
    return [list(x.shape) for x in jax.tree.leaves(tree)]

def flat(state):
    leaves = jax.tree.leaves(state.agent_state.params)
    return np.concatenate([np.asarray(x).ravel() for x in leaves])
"""


def run(script, num_devices, **environment):
    """Runs a script in a process with virtual devices; returns its last line."""
    return finished(start(script, num_devices, **environment))


def start(script, num_devices, **environment):
    return started(PRELUDE + textwrap.dedent(script), str(num_devices), **environment)


def started(program, *args, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def finished(process):
    return json.loads(printed(process).splitlines()[-1])


def printed(process):
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr[-3000:]
    return stdout


#: Three updates, of which two processes of two devices do the same.
OF_THREE_UPDATES = """
state, history = train(4, 2, 3)
loss = [float(x) for x in np.asarray(history.total_loss)]
params = [np.asarray(x.addressable_shards[0].data).ravel()
          for x in jax.tree.leaves(state.agent_state.params)]
found = {"loss": loss, "params": np.concatenate(params).tolist()}
"""
ON_FOUR = """
for updates in (3, 10):
    one, _ = train(1, 8, updates)
    four, history = train(4, 2, updates)
    found[f"after {updates}"] = {
        "gap": float(np.abs(flat(one) - flat(four)).max()),
        "same_play": bool(np.allclose(one.env_obs, four.env_obs, atol=1e-3)),
    }
obs = np.asarray(four.env_obs)
found["games"] = len({tuple(row) for row in obs.round(6).tolist()})
found["spread"] = len(four.env_obs.sharding.device_set)

from paxenv_agents.learners.ppo import PPO
from runners.engine.placement import make_mesh
env, params = paxenv.make("CartPole-v1")
slots = (runners.Slot(PPO.from_env(env)),)
try:
    runners.Experiment(env, slots, num_games=10, mesh=make_mesh(1, 4))
except ValueError as error:
    found["refusal"] = str(error)
"""
ON_TWO = """
state, history = train(2, 3, 2, stacked=True)
one = runners.unreplicate(state.agent_state)
found = {
    "metrics": [list(x.shape) for x in history],
    "obs": list(state.env_obs.shape),
    "params": shapes(state.agent_state.params),
    "one": shapes(one.params),
    "rng": list(state.rng.shape),
}
state, history = train(2, 2, 2, fsdp=2, hidden=(1024, 1024))
trees = (state.agent_state.params, state.agent_state.opt_state.mu,
         state.agent_state.opt_state.nu)
found["finite"] = bool(np.isfinite(np.asarray(history.total_loss)).all())
found["big"] = [
    [list(x.addressable_shards[0].data.shape), len(x.sharding.device_set)]
    for tree in trees for x in jax.tree.leaves(tree) if x.size >= 2**20
]
found["small"] = [
    bool(x.sharding.is_fully_replicated)
    for tree in trees for x in jax.tree.leaves(tree) if x.size < 2**20
]
"""
PRINT = "print(json.dumps(found))"


@pytest.fixture(scope="module")
def on_four():
    """What training over four devices of one process leaves."""
    return run(OF_THREE_UPDATES + ON_FOUR + PRINT, 4)


@pytest.fixture(scope="module")
def on_two():
    """What training over two devices leaves."""
    return run(ON_TWO + PRINT, 2)


@pytest.mark.slow
def test_four_devices_train_what_one_trains(on_four):
    """At equal global batch, and devices draw different numbers."""
    assert on_four["after 3"]["gap"] <= 1e-5
    assert on_four["after 10"]["same_play"]
    assert on_four["after 10"]["gap"] <= 1e-5
    assert on_four["games"] == 8
    assert on_four["spread"] == 4


@pytest.mark.slow
def test_games_that_do_not_divide_over_devices_are_refused(on_four):
    """With both numbers, before anything is compiled."""
    assert on_four["refusal"].startswith("10 games do not divide over 4 devices")


@pytest.mark.slow
def test_two_processes_train_what_one_trains(on_four):
    """Joined by jax.distributed on loopback, two devices each."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    joined = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2"}
    script = OF_THREE_UPDATES + PRINT
    processes = [start(script, 2, JAX_PROCESS_ID=str(i), **joined) for i in range(2)]
    try:
        first, second = (finished(process) for process in processes)
    finally:
        for process in processes:
            process.kill()
    assert first == second
    np.testing.assert_allclose(first["params"], on_four["params"], atol=1e-5)
    np.testing.assert_allclose(first["loss"], on_four["loss"], rtol=1e-4)


@pytest.mark.slow
def test_results_of_several_devices_have_a_leading_axis_of_devices(on_two):
    assert on_two["metrics"] == [[2, 2]] * 5
    assert on_two["obs"] == [2, 3, 4]
    assert on_two["rng"] == [2]
    assert [shape[1:] for shape in on_two["params"]] == on_two["one"]


@pytest.mark.slow
def test_a_layer_of_four_mebibytes_is_divided_over_the_devices(on_two):
    """Parameters and both of Adam's moments, after training."""
    assert on_two["finite"]
    # One layer of the policy and one of the value.
    assert on_two["big"] == [[[1024, 512], 2]] * 6
    assert all(on_two["small"])


def greedy_actions(path, devices):
    """Returns what the greedy policy of a run's last checkpoint does, on so many."""
    run = RunDir.open(path)
    plan = prepare(load([f"num_devices={devices}"], config_file=run.config))
    state, _ = restore_checkpoint(run.checkpoints, program_of(plan).state)
    program = program_of(plan)
    program.load(state)
    agent = dataclasses.replace(plan.experiment.slots[0].agent, greedy=True)
    views = np.random.default_rng(0).uniform(-1, 1, (256, 4)).astype(np.float32)
    (trained,) = program.agents(0)
    _, memory = agent.batch_init(jax.random.key(0), agent.init_hidden(256))
    action, _, _ = jax.jit(agent.batch_policy)(trained, jnp.asarray(views), memory)
    return np.asarray(action).tolist()


@pytest.fixture(scope="module")
def of_the_command_line(tmp_path_factory):
    """Returns a run over four devices, and what its policy does in that process.

    The command line divides the CPU, before JAX starts.
    """
    path = str(tmp_path_factory.mktemp("exp") / "run")
    save = f"""
    import json
    from runners.cli import cli
    words = ["sarl", "--env", "CartPole", "num_envs=8", "num_seeds=1", "agent1=PPO"]
    words += ["--num-devices", "4", "--total-timesteps", "20_480", "--json"]
    words += ["agent1.n_steps=64", "agent1.hidden_sizes=[16]", "plot=false"]
    words += ["agent1.learning_rate=0.003", "--save-dir", {path!r}]
    cli(words, standalone_mode=False)
    from test_training_devices import greedy_actions
    print(json.dumps(greedy_actions({path!r}, 4)))
    """
    modules = os.pathsep.join(filter(None, sys.path))
    process = started(textwrap.dedent(save), PYTHONPATH=modules)
    results, _, actions = printed(process).strip().rpartition("\n")
    return path, json.loads(results), json.loads(actions)


@pytest.mark.slow
def test_the_command_line_divides_a_cpu_before_jax_starts(of_the_command_line):
    """Four devices on a machine that has one."""
    _, results, _ = of_the_command_line
    assert results["env_steps"] == 20_480


@pytest.mark.slow
def test_a_run_on_four_devices_acts_the_same_on_one(
    of_the_command_line, paxrun, tmp_path
):
    """Its checkpoint opens on one device, and so do its weights in `eval`."""
    path, _, on_four = of_the_command_line
    assert 16 < sum(on_four) < 240
    assert greedy_actions(path, 1) == on_four
    result = paxrun(
        *("eval", "--run-dir", path, "--json"),
        *("--num-devices", "1", "--exp-dir", str(tmp_path / "exp")),
    )
    assert json.loads(result.stdout)["agents"] == ["PPO"]
