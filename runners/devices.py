"""How many devices there are, and pytrees with one copy for each of them."""

import os
import re
from typing import Any

import jax
import jax.numpy as jnp

from paxenv import keys, platforms
from runners.counts import count

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
    """Sees to it that this process has at least `num_devices` devices; starts JAX.

    On a machine without accelerators the CPU is divided into as many virtual devices,
    which works only until JAX starts: call this before any array is made.

    Raises:
        ValueError: If there are fewer devices, and why.
    """
    request_cpu_devices(num_devices)
    platforms.check()
    available = jax.local_device_count()
    if available < num_devices:
        raise ValueError(_too_few(num_devices, available))


def request_cpu_devices(num_devices: int) -> None:
    """Asks for at least `num_devices` virtual CPU devices, without starting JAX.

    Changes nothing where JAX has started or as many were asked for before; does not
    touch accelerators.
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


def replicate(pytree: Any, n_devices: int) -> Any:
    """Returns `n_devices` copies of every leaf, stacked on a new leading axis.

    Leaves may be arrays, numbers and typed keys.
    """
    n_devices = count("n_devices", n_devices)

    def copies(leaf: Any) -> jax.Array:
        leaf = jnp.asarray(leaf)
        return jnp.broadcast_to(leaf, (n_devices, *leaf.shape))

    return jax.tree.map(copies, pytree)


def unreplicate(pytree: Any) -> Any:
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
    keys.typed(rng)  # refuses what is no key
    numbers = jnp.arange(count("n_devices", n_devices))
    return jax.vmap(jax.random.fold_in, (None, 0))(rng, numbers)


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
