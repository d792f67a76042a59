"""JAX does not survive a fork: adapters refuse to start in a forked process."""

import os
import sys

_forked_from_jax = False


def check_not_forked() -> None:
    """Raises RuntimeError in a process forked from one that had loaded JAX.

    There JAX deadlocks at its first computation, because its threads were not forked.
    """
    if _forked_from_jax:
        raise RuntimeError(
            "this process was forked from one that uses JAX, where JAX would hang. "
            'Start workers by spawn: AsyncVectorEnv(..., context="spawn"), or '
            'gymnasium.make_vec(..., vectorization_mode="async", '
            'vector_kwargs={"context": "spawn"}). Without vectorization_mode, '
            "make_vec steps all games in one process by one compiled call, which is "
            "faster than any worker processes"
        )


def _note_fork() -> None:
    global _forked_from_jax
    _forked_from_jax = "jax" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
