"""Checks whether JAX can start on the platform that the user named."""


class PlatformError(RuntimeError):
    """JAX cannot start where `JAX_PLATFORMS` wants it; the message names it."""


def check() -> None:
    """Raises PlatformError if JAX cannot start on the platforms that are named.

    Starts JAX only where some are named, and others than the CPU.
    """
    import jax

    if jax.config.jax_platforms in (None, "", "cpu"):  # type: ignore[attr-defined]
        return
    message = fault()
    if message is not None:
        raise PlatformError(message)


def fault() -> str | None:
    """Starts JAX and returns why it cannot, None if it can."""
    import jax

    try:
        jax.devices()
    except (AssertionError, RuntimeError) as error:
        named = jax.config.jax_platforms  # type: ignore[attr-defined]
        said = str(error).partition("\n")[0].partition(" (set JAX_PLATFORMS=")[0]
        reason = (
            said.rstrip(".")
            or "there is no such device, or JAX is not installed for it"
        )
        return (
            f"JAX cannot start with JAX_PLATFORMS={named!r}: {reason}. Unset the "
            "environment variable to let JAX choose, set JAX_PLATFORMS=cpu, or install "
            "JAX for that device"
        )
    return None
