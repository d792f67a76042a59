"""The number of devices, and pytrees with one copy for each device."""

import contextlib
import os
import re
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from paxenv import keys, platforms, scalars


def count(name: str, value: object, least: int = 1) -> int:
    """Returns a whole number, given in any numeric type, as an int.

    Raises:
        ValueError: If it is not one, or below `least`; the message says which.
    """
    number = scalars.whole(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return number


#: Fewer threads than this, and programs on several virtual CPU devices can wait for
#: each other for ever: XLA's pool has one thread a core by default.
MIN_CPU_THREADS = 16
VIRTUAL_DEVICES_FLAG = "--xla_force_host_platform_device_count"


def get_num_devices(requested: int | None = None) -> int:
    """Returns `requested`, or the number of devices of all processes if it is None.

    Raises:
        ValueError: If there are fewer devices than requested.
    """
    platforms.check()
    available = jax.device_count()
    if requested is None:
        return available
    requested = count("num_devices", requested)
    if requested > available:
        raise ValueError(_too_few(requested, available))
    return requested


def ensure_devices(num_devices: int) -> None:
    """Makes sure that this process has at least `num_devices` devices; starts JAX.

    On a machine without accelerators the CPU is divided into as many virtual devices,
    which works only until JAX starts: call this before any array is made.

    Raises:
        ValueError: If there are fewer devices; the message says why.
    """
    request_cpu_devices(num_devices)
    platforms.check()
    available = jax.local_device_count()
    if available < num_devices:
        raise ValueError(_too_few(num_devices, available))


def request_cpu_devices(num_devices: int) -> None:
    """Asks for at least `num_devices` virtual CPU devices, without starting JAX.

    Has no effect if JAX has started or as many were requested before; does not touch
    accelerators.
    """
    num_devices = count("num_devices", num_devices)
    if num_devices == 1:
        return
    threads = max(MIN_CPU_THREADS, 2 * num_devices, os.cpu_count() or 1)
    os.environ.setdefault("NPROC", str(threads))
    if num_devices <= _requested_cpu_devices():
        return
    try:
        jax.config.update("jax_num_cpu_devices", num_devices)
    except RuntimeError:  # JAX has started
        return


def replicate(pytree: PyTree, n_devices: int) -> PyTree:
    """Returns `n_devices` copies of every leaf, stacked on a new leading axis.

    Leaves may be arrays, numbers and typed keys.
    """
    n_devices = count("n_devices", n_devices)

    def copies(leaf: Any) -> jax.Array:
        leaf = jnp.asarray(leaf)
        return jnp.broadcast_to(leaf, (n_devices, *leaf.shape))

    return jax.tree.map(copies, pytree)


def unreplicate(pytree: PyTree) -> PyTree:
    """Returns the first copy of a replicated pytree: the inverse of `replicate`.

    Raises:
        ValueError: If the leaves do not share a leading axis, so that the pytree
            cannot be a replicated one.
    """
    lengths = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(pytree)}
    if len(lengths) > 1 or () in lengths:
        found = sorted(lengths)
        raise ValueError(
            "unreplicate takes the first row of every leaf, but these leaves share no "
            f"leading axis (found {found}): was the pytree replicated?"
        )
    return jax.tree.map(lambda leaf: leaf[0], pytree)


def split_key_across_devices(rng: jax.Array, n_devices: int) -> jax.Array:
    """Returns one key for each of `n_devices` devices, all different.

    Args:
        rng: Key i is `fold_in(rng, i)`. Do not use it for anything else.
        n_devices: The number of devices.

    Returns:
        Keys of shape `[n_devices]`, or `[n_devices, 2]` if `rng` is a raw `PRNGKey`
        array.
    """
    keys.typed(rng)  # refuses anything but a key
    return keys.folds(rng, count("n_devices", n_devices))


def _requested_cpu_devices() -> int:
    configured = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
    if configured > 0:
        return configured
    flag = rf"{VIRTUAL_DEVICES_FLAG}[= ](\d+)"
    found = re.findall(flag, os.environ.get("XLA_FLAGS", ""))
    return int(found[-1]) if found else 1


def _too_few(requested: int, available: int) -> str:
    platform = jax.default_backend()
    message = f"{requested} devices were asked for, there are {available} ({platform})"
    if platform != "cpu":
        return message
    return (
        f"{message}. The CPU is divided when JAX starts, and it has started: call "
        f"runners.ensure_devices({requested}) before anything else uses JAX, or set "
        f"XLA_FLAGS={VIRTUAL_DEVICES_FLAG}={requested} in the environment"
    )


#: The address that lets JAX ask the cluster (Slurm, Open MPI, Kubernetes, TPU pods).
AUTO = "auto"
VARIABLES = {
    "coordinator_address": "JAX_COORDINATOR_ADDRESS",
    "num_processes": "JAX_NUM_PROCESSES",
    "process_id": "JAX_PROCESS_ID",
}


def initialize_distributed(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    num_local_devices: int | None = None,
    timeout_s: int = 300,
) -> int:
    """Joins the other processes of a job and returns their number, this one included.

    Call it before anything uses JAX, in every process, with the same program. Missing
    arguments are read from the environment: `JAX_COORDINATOR_ADDRESS`,
    `JAX_NUM_PROCESSES` and `JAX_PROCESS_ID`. With none of the three this process is
    the whole job.

    Args:
        coordinator_address: `HOST:PORT` of process 0, or `"auto"` on a cluster that
            JAX knows.
        num_processes: Processes of the job.
        process_id: The number of this one, from 0.
        num_local_devices: Devices that this process must have; a CPU is divided into
            that many virtual ones. None: the devices that there are.
        timeout_s: Seconds to wait for the others.

    Raises:
        ValueError: If only some of the three are known, one is out of range, or there
            are fewer local devices.
    """
    if num_local_devices is not None:
        request_cpu_devices(num_local_devices)
    if not jax.distributed.is_initialized():
        _join(coordinator_address, num_processes, process_id, timeout_s)
    if num_local_devices is not None:
        ensure_devices(num_local_devices)
    return jax.process_count()


def _join(
    address: str | None, num_processes: int | None, process_id: int | None, timeout: int
) -> None:
    address = address or os.environ.get(VARIABLES["coordinator_address"])
    if address == AUTO:
        _leave_sigterm_alone()
        jax.distributed.initialize(initialization_timeout=timeout)
        return
    given = {
        "coordinator_address": address,
        "num_processes": _number("num_processes", num_processes, least=1),
        "process_id": _number("process_id", process_id, least=0),
    }
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == len(given):
        return
    if missing:
        raise ValueError(
            "a job of several processes needs an address, a number of processes and a "
            f"process id; missing: {', '.join(missing)} (or the variables "
            f"{', '.join(VARIABLES[name] for name in missing)})"
        )
    if given["process_id"] >= given["num_processes"]:
        raise ValueError(
            f"process_id must be in [0, {given['num_processes']}), "
            f"got {given['process_id']}"
        )
    _leave_sigterm_alone()
    jax.distributed.initialize(
        **given, cluster_detection_method="deactivate", initialization_timeout=timeout
    )


def _leave_sigterm_alone() -> None:
    """Keeps JAX from catching SIGTERM, after which no signal but SIGKILL ends it."""
    with contextlib.suppress(AttributeError):  # older JAX has no such option
        jax.config.update("jax_enable_preemption_service", False)


def _number(name: str, value: int | None, least: int) -> int | None:
    text = os.environ.get(VARIABLES[name])
    if value is None and text:
        if not text.isdecimal():
            raise ValueError(f"{VARIABLES[name]} must be a number, got {text!r}")
        value = int(text)
    return None if value is None else count(name, value, least)
