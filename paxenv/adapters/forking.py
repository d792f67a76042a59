"""JAX does not survive a fork: adapters refuse to work in a forked process."""

import os
import sys
from typing import Any

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
            'vector_kwargs={"context": "spawn"}). Or step all games in one process: '
            "make_vec without vectorization_mode and sb3_vec_env do so by one compiled "
            "call, which is faster than any worker processes; SuperSuit's "
            "concat_vec_envs_v1 does so with num_cpus=1"
        )


class StaysUnforked:
    """An environment that a forked process cannot unpickle.

    A pickle restores an object's attributes, which hold JAX arrays, after the object
    itself was made. So the refusal must come where it is made.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self),), self.__getstate__()


def _unpickled(cls: type) -> Any:
    check_not_forked()
    return object.__new__(cls)


def _note_fork() -> None:
    global _forked_from_jax
    _forked_from_jax = "jax" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
