"""`paxrun devices`: the devices, the mesh and the versions of a run."""

import importlib.metadata
import json
import platform
from typing import Any

import click

from runners.cli.errors import user_errors

PACKAGES = (
    *("paxenv", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "evosax"),
    *("gymnasium", "pettingzoo", "numpy"),
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--num-devices",
    type=click.IntRange(min=1),
    help="Use this many devices; a CPU is divided into virtual ones.",
)
@click.option(
    "--fsdp-devices",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Devices that share large parameters.",
)
def devices(as_json: bool, num_devices: int | None, fsdp_devices: int) -> None:
    """Show the devices, the mesh they would form, and versions.

    With --num-devices or --fsdp-devices it checks that mesh before a run does.
    """
    from runners.engine.devices import ensure_devices
    from runners.engine.placement import make_mesh

    with user_errors(every_value_error=True):
        if num_devices is not None:
            ensure_devices(num_devices)
        mesh = make_mesh(fsdp_devices, num_devices)
    report = _report(mesh)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        _print(report)


def _report(mesh: Any) -> dict[str, Any]:
    import jax

    return {
        "platform": jax.default_backend(),
        "num_devices": jax.device_count(),
        "num_processes": jax.process_count(),
        "devices": [_device(device) for device in jax.local_devices()],
        "mesh": dict(mesh.shape),
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
    }


def _device(device: Any) -> dict[str, Any]:
    """Returns one device of this process; its memory in bytes where it is known."""
    memory = device.memory_stats() or {}
    return {
        "id": device.id,
        "kind": device.device_kind,
        "memory_bytes": memory.get("bytes_limit"),
    }


def _print(report: dict[str, Any]) -> None:
    click.echo(f"platform   {report['platform']}")
    click.echo(
        f"devices    {report['num_devices']}, in {report['num_processes']} process(es)"
    )
    for device in report["devices"]:
        memory = device["memory_bytes"]
        known = "" if memory is None else f", {memory / 2**30:.1f} GiB"
        click.echo(f"  {device['id']:<8} {device['kind']}{known}")
    shape = ", ".join(f"{axis}={size}" for axis, size in report["mesh"].items())
    click.echo(f"mesh       {shape}")
    versions = (f"{name} {version}" for name, version in report["versions"].items())
    click.echo(f"versions   {', '.join(versions)}")
