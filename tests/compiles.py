"""How many programs XLA compiles."""

import contextlib

import jax

EVENT = "/jax/core/compile/backend_compile_duration"


@contextlib.contextmanager
def counted():
    """Gives a list that gets an entry for every program that is compiled within."""
    seen = []

    def listen(event, seconds, **_):
        if event == EVENT:
            seen.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
