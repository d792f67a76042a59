"""Copies for devices, virtual devices of a CPU, jobs of two processes, and the CLI."""

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

import runners

KEY = jax.random.key(3)


def fresh_environment(**variables):
    """Returns the environment without what divides the CPU or joins processes."""
    dropped = ("XLA_FLAGS", "NPROC", "JAX_NUM_CPU_DEVICES")
    kept = {k: v for k, v in os.environ.items() if k not in dropped}
    return {**kept, **variables}


def python(code, **variables):
    """Runs code in a fresh interpreter and returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=fresh_environment(**variables),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Copies.


@pytest.fixture
def tree():
    """Every kind of leaf: arrays, a number, a typed key, a matrix."""
    return {
        "step": 4,
        "rate": 0.5,
        "key": KEY,
        "weights": jnp.arange(6.0).reshape(2, 3),
        "bias": np.ones(3, np.float32),
    }


def test_replicate_puts_the_copies_on_a_leading_axis(tree):
    copies = runners.replicate(tree, 4)
    shapes = {name: leaf.shape for name, leaf in copies.items()}
    assert shapes == {
        "step": (4,),
        "rate": (4,),
        "key": (4,),
        "weights": (4, 2, 3),
        "bias": (4, 3),
    }
    np.testing.assert_array_equal(copies["weights"][3], tree["weights"])


def test_unreplicate_is_the_inverse_of_replicate(tree):
    back = runners.unreplicate(runners.replicate(tree, 3))
    assert back["step"] == 4
    assert back["rate"] == 0.5
    assert back["key"] == KEY
    np.testing.assert_array_equal(back["weights"], tree["weights"])
    np.testing.assert_array_equal(back["bias"], tree["bias"])


def test_unreplicate_refuses_what_was_not_replicated(tree):
    """Else it would take row 0 of every weight matrix, and say nothing."""
    with pytest.raises(
        ValueError, match=r"share no leading axis.*was the pytree repli"
    ):
        runners.unreplicate(tree)


@pytest.mark.parametrize(
    ("key", "shape"), [(jax.random.key(3), (4,)), (jax.random.PRNGKey(3), (4, 2))]
)
def test_devices_get_different_keys(key, shape):
    keys = runners.split_key_across_devices(key, 4)
    assert keys.shape == shape
    draws = [float(jax.random.uniform(keys[i])) for i in range(4)]
    assert len(set(draws)) == 4


def test_key_of_a_device_does_not_depend_on_how_many_there_are():
    two = runners.split_key_across_devices(KEY, 2)
    assert (runners.split_key_across_devices(KEY, 4)[:2] == two).all()


def test_seed_is_no_key():
    with pytest.raises(TypeError, match=r"got the integer 3: use jax\.random\.key"):
        runners.split_key_across_devices(3, 2)  # type: ignore[arg-type]


# How many there are.


def test_all_devices_are_taken_unless_a_number_is_given():
    assert runners.get_num_devices() == jax.device_count()
    assert runners.get_num_devices(1) == 1


@pytest.mark.parametrize("requested", [0, -1, True])
def test_number_of_devices_is_a_count(requested):
    with pytest.raises(ValueError, match="num_devices must be a whole number >= 1"):
        runners.get_num_devices(requested)


def test_too_many_devices_are_refused_with_both_numbers():
    available = jax.device_count()
    message = f"{available + 7} devices were asked for, there are {available}"
    with pytest.raises(ValueError, match=message):
        runners.get_num_devices(available + 7)


def test_cpu_is_divided_before_jax_starts():
    """Four virtual devices on a machine that has one."""
    code = """
        import runners
        runners.ensure_devices(4)
        import jax
        print(jax.device_count(), runners.get_num_devices())
    """
    assert python(code) == "4 4"


def test_cpu_that_was_divided_more_finely_stays_so():
    code = """
        import jax, runners
        runners.ensure_devices(2)
        print(jax.device_count())
    """
    flags = "--xla_force_host_platform_device_count=3"
    assert python(code, XLA_FLAGS=flags) == "3"


def test_too_late_to_divide_the_cpu_is_an_error_that_says_what_to_do():
    """Never silently one device."""
    code = """
        import jax, runners
        jax.numpy.zeros(1)
        try:
            runners.ensure_devices(4)
        except ValueError as error:
            print(error)
    """
    assert python(code) == (
        "4 devices were asked for, there are 1 (cpu). The CPU is divided when JAX "
        "starts, and it has started: call runners.ensure_devices(4) before anything "
        "else uses JAX, or set XLA_FLAGS=--xla_force_host_platform_device_count=4 in "
        "the environment"
    )


def test_virtual_devices_get_threads_enough_for_their_collectives():
    """With a thread a core, many queued reductions over 8 devices wait for ever."""
    code = """
        import jax, jax.numpy as jnp, runners
        runners.ensure_devices(8)
        mesh = runners.make_mesh(1)
        x = runners.shard_pytree(jnp.ones((64, 5)), mesh)
        w = runners.replicate_on_mesh(jnp.ones(5), mesh)
        step = jax.jit(lambda w, x: 0.5 * w + 0.5 * (x * w).mean(0))
        for _ in range(500):
            w = step(w, x)
        print(w.tolist())
    """
    assert python(code) == "[1.0, 1.0, 1.0, 1.0, 1.0]"


# Several processes.

WORKER = """
    import sys
    import runners
    num_processes = runners.initialize_distributed(num_local_devices=2, timeout_s=60)
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import PartitionSpec as P
    from runners.engine.placement import AXES
    mesh = runners.make_mesh(2)
    x = runners.shard_pytree(np.arange(8.0, dtype=np.float32), mesh)
    total = jax.jit(jax.shard_map(
        lambda v: jax.lax.psum(v.sum(), AXES), mesh=mesh, in_specs=P(AXES),
        out_specs=P(),
    ))(x)
    w = runners.replicate_on_mesh(np.float32(0.5), mesh)
    mean = jax.jit(lambda w, x: (w * x).mean())(w, x)
    try:
        runners.make_mesh(1, 2)
    except ValueError as error:
        refusal = str(error)
    print(num_processes, jax.process_index(), runners.get_num_devices(),
          dict(mesh.shape), float(total), float(mean), refusal, sep="|")
    jax.distributed.shutdown()
"""


@pytest.mark.slow
def test_two_processes_reduce_over_one_mesh():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORKER)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=fresh_environment(
                JAX_COORDINATOR_ADDRESS=f"127.0.0.1:{port}",
                JAX_NUM_PROCESSES="2",
                JAX_PROCESS_ID=str(process_id),
            ),
        )
        for process_id in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process_id, (stdout, stderr) in enumerate(outputs):
        assert processes[process_id].returncode == 0, stderr
        assert stdout.splitlines()[-1].split("|") == [
            *("2", str(process_id), "4", "{'batch': 2, 'fsdp': 2}", "28.0", "1.75"),
            "the 2 processes have 4 devices together and all take part, got "
            "num_devices=2",
        ]


def test_process_without_an_address_is_the_whole_job():
    assert runners.initialize_distributed() == 1


def test_half_a_job_is_refused_by_what_is_missing():
    with pytest.raises(ValueError, match=r"missing: process_id .*JAX_PROCESS_ID"):
        runners.initialize_distributed("127.0.0.1:1", num_processes=2)


def test_process_id_is_below_the_number_of_processes():
    with pytest.raises(ValueError, match=r"process_id must be in \[0, 2\), got 2"):
        runners.initialize_distributed("127.0.0.1:1", num_processes=2, process_id=2)


def test_variable_that_is_no_number_is_named(monkeypatch):
    monkeypatch.setenv("JAX_PROCESS_ID", "first")
    with pytest.raises(ValueError, match="JAX_PROCESS_ID must be a number, got 'firs"):
        runners.initialize_distributed("127.0.0.1:1", num_processes=2)


# The command line.


def test_devices_command_reports_as_json(paxrun):
    report = json.loads(paxrun("devices", "--json").stdout)
    assert report["platform"] == jax.default_backend()
    assert report["num_devices"] == jax.device_count()
    assert report["num_processes"] == 1
    assert len(report["devices"]) == jax.local_device_count()
    assert report["mesh"] == {"batch": jax.device_count(), "fsdp": 1}
    assert report["versions"]["jax"] == jax.__version__


def test_devices_command_divides_the_cpu(paxrun_apart):
    """The mesh that a run of four devices would have."""
    printed = paxrun_apart("devices", "--num-devices", "4", "--fsdp-devices", "2")
    assert "devices    4, in 1 process(es)" in printed
    assert "mesh       batch=2, fsdp=2" in printed


def test_impossible_mesh_is_a_usage_error(paxrun):
    result = paxrun("devices", "--fsdp-devices", "3")
    assert result.exit_code == 2
    assert "cannot be divided into groups of 3" in result.stderr


def test_copies_and_keys_are_counted_by_the_published_names():
    assert runners.replicate({"x": 1.0}, n_devices=4)["x"].shape == (4,)
    keys = runners.split_key_across_devices(jax.random.key(0), n_devices=1e0)
    assert keys.shape == (1,)
    assert runners.get_num_devices(requested=np.int64(1)) == 1
