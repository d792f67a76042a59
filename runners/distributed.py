"""Several processes as one job, joined by `jax.distributed`."""

import contextlib
import os

import jax

from runners.counts import count
from runners.devices import ensure_devices, request_cpu_devices

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
    """Joins the other processes of a job and returns how many there are.

    Call it before anything uses JAX, in every process, with the same program. What is
    not given is read from the environment: `JAX_COORDINATOR_ADDRESS`,
    `JAX_NUM_PROCESSES` and `JAX_PROCESS_ID`. With none of the three this process is
    the whole job.

    Args:
        coordinator_address: `HOST:PORT` of process 0, or `"auto"` on a cluster that
            JAX knows.
        num_processes: Processes of the job.
        process_id: The number of this one, from 0.
        num_local_devices: Devices that this process must have; on a CPU it is divided
            into so many virtual ones. None: as they are.
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
